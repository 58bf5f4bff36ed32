"""Ten releases of the official SDKs as clients, at servers on the same ten: every pair, through one gateway."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from case import check, context, equal, finish
from gateway import Gateway, free_port
from servers import Server

PROGRAMS = Path(__file__).parent.parent / "releases"


@dataclass
class Release:
    """One release, what runs it (an npm name, or an interpreter), and the newest version that it speaks."""

    language: str
    number: str
    peer: str
    version: str

    @property
    def name(self):
        return f"{self.language} {self.number}"

    def command(self, program, *arguments):
        """The client's or server's command line."""
        if self.language == "Python":
            return [context["pythons"][self.peer], str(PROGRAMS / f"{program}.py"), *arguments, self.version]
        return [context["node"], str(PROGRAMS / f"{program}.mjs"), *arguments, self.peer, self.version]


RELEASES = [
    Release("TypeScript", "1.0.1", "sdk-1.0.1", "2024-11-05"),
    Release("TypeScript", "1.11.0", "sdk-1.11.0", "2025-03-26"),
    Release("TypeScript", "1.17.5", "sdk-1.17.5", "2025-06-18"),
    Release("TypeScript", "1.25.2", "sdk-1.25.2", "2025-11-25"),
    Release("TypeScript", "1.32.2", "sdk", "2025-11-25"),
    Release("Python", "1.6.0", "mcp-1.6.0", "2024-11-05"),
    Release("Python", "1.9.4", "client-old", "2025-03-26"),
    Release("Python", "1.22.0", "mcp-1.22.0", "2025-06-18"),
    Release("Python", "1.26.0", "mcp-1.26.0", "2025-11-25"),
    Release("Python", "1.30.0", "client-1", "2025-11-25"),
]
OVER_HTTP = ("TypeScript 1.17.5", "Python 1.22.0")


def behind():
    """The servers as configured and as the clients name them, and the processes of those over HTTP."""
    servers, known, processes = [], [], []
    for release in RELEASES:
        ident = release.name.lower().replace(" ", "-").replace(".", "-")
        command, *arguments = release.command("server")
        servers.append(Server(ident, command, arguments, share="all"))
        known.append({"id": ident, "name": release.name, "version": release.version})
        if release.name in OVER_HTTP:
            port = free_port()
            processes.append(subprocess.Popen([command, *arguments, str(port)], stdin=subprocess.DEVNULL))
            servers.append(Server(f"{ident}-http", url=f"http://127.0.0.1:{port}/mcp"))
            known.append({"id": f"{ident}-http", "name": f"{release.name} over HTTP", "version": release.version})
    return servers, known, processes


def visit(release, environment):
    """What one client prints: a line for each server."""
    return subprocess.run(release.command("client", release.name), env=environment, stdout=subprocess.PIPE, text=True).stdout


def visits(gateway, known):
    keys = {"key": gateway.create_key("sse"), "directKey": gateway.create_key("http", "--direct")}
    environment = {**os.environ, "INTEROP": json.dumps({**context, **keys, "url": gateway.url, "servers": known})}
    lines = []
    with ThreadPoolExecutor(2) as threads:
        for output in threads.map(lambda release: visit(release, environment), RELEASES):
            print(output, end="", flush=True)
            lines += [line for line in output.splitlines() if line.startswith(("ok ", "not ok "))]
    with check("every client has been at every server"):
        equal(len(lines), len(RELEASES) * len(known))


def main():
    servers, known, processes = behind()
    config = Path(context["work"]) / "releases.toml"
    config.write_text("\n".join(server.toml() for server in servers))
    gateway = Gateway.alone(context, "releases", config)
    try:
        gateway.start()
        gateway.ready()
        with check("every server speaks the newest version that its release has"):
            backends = json.loads(gateway.cli("status", "--json"))["servers"]
            found = {backend["id"]: backend["protocol_version"] for backend in backends}
            equal(found, {server["id"]: server["version"] for server in known})
        visits(gateway, known)
    finally:
        gateway.stop()
        for process in processes:
            process.kill()
    finish()


main()
