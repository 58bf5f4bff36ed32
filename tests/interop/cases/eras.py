"""SDKs of both eras as clients, at servers of 2026-07-28 alone and of both eras, on stdio and over HTTP: every pair."""

import contextlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from case import check, context, equal, finish, until
from gateway import Gateway, free_port
from servers import Server

PROGRAMS = Path(__file__).parent.parent / "eras"
MODERN = "2026-07-28"
# Calls of each client at each server.
CHECKS = 8
# The servers that are visited on the endpoint of all, too.
MERGED = ("typescript-modern-http", "python-dual-stdio")


@dataclass
class Sdk:
    """One SDK, and what runs its server."""

    name: str
    server: list


@dataclass
class Client:
    """One release as a client, its program, and the eras of the servers that it visits."""

    name: str
    command: list
    eras: tuple = ("modern", "dual")


def program(name, *arguments):
    runner = context["node"] if name.endswith(".mjs") else context["pythons"]["servers"]
    return [runner, str(PROGRAMS / name), *arguments]


def classic(name, environment, version, *eras):
    return Client(name, [context["pythons"][environment], str(PROGRAMS / "classic.py"), name, version], *eras)


SDKS = [
    Sdk("TypeScript 2.4.0", program("server.mjs")),
    Sdk("Python 2.3.0", program("server.py")),
    Sdk("Rust 3.9.0", [f"{context['rust']}/server"]),
]
# One after the other: on pipes nothing says for which of two calls of one user a log message is.
SESSIONLESS = [
    Client("TypeScript 2.4.0", program("modern.mjs")),
    Client("Python 2.3.0", program("modern.py")),
    Client("Rust 3.9.0", [f"{context['rust']}/client"]),
]
CLASSIC = [
    Client("TypeScript 1.32.2", program("classic.mjs", "TypeScript 1.32.2", "sdk", "2025-11-25")),
    Client("TypeScript 1.17.5", program("classic.mjs", "TypeScript 1.17.5", "sdk-1.17.5", "2025-06-18"), ("modern",)),
    classic("Python 1.30.0", "client-1", "2025-11-25"),
    classic("Python 1.22.0", "mcp-1.22.0", "2025-06-18", ("modern",)),
]


def behind():
    """The servers, and the processes of those over HTTP. The era is configured of servers that have one, and of those on stdio
    that have both, which would count as legacy; over HTTP it is detected."""
    servers, processes = [], []
    for sdk in SDKS:
        for era in ("modern", "dual"):
            configured = "modern" if era == "modern" else ""
            ident = f"{sdk.name.split(' ')[0].lower()}-{era}"
            [command, *arguments], port = [*sdk.server, era], free_port()
            servers.append(Server(f"{ident}-stdio", command, arguments, era="modern"))
            servers.append(Server(f"{ident}-http", url=f"http://127.0.0.1:{port}/mcp", era=configured))
            processes.append(subprocess.Popen([command, *arguments, str(port)], stdin=subprocess.DEVNULL))
    return servers, processes


def knows(gateway, servers, found):
    """The gateway uses 2026-07-28 with every server, by configuration or by detection."""
    known = {server.id: (MODERN, "configured" if server.era else found) for server in servers}
    # one over HTTP may start later than the gateway
    with contextlib.suppress(AssertionError):
        until("all of them", lambda: settled(gateway) == known)
    equal(settled(gateway), known)


def settled(gateway):
    """The version that is spoken with each server, and how the gateway knows."""
    backends = json.loads(gateway.cli("status", "--json"))["servers"]
    return {backend["id"]: (backend["protocol_version"], backend["era"]["found"]) for backend in backends}


def visited(client, known):
    return [server for server in known if any(f"-{era}-" in server["name"] for era in client.eras)]


def visit(clients, key, known):
    """What each client prints: a line for each check at each server."""
    printed = []
    for client in clients:
        told = json.dumps({**context, "directKey": key, "servers": visited(client, known)})
        done = subprocess.run(client.command, env={**os.environ, "INTEROP": told}, stdout=subprocess.PIPE, text=True)
        printed.append((client, done.stdout))
    return printed


def visits(gateway, servers):
    known = [{"name": server.id, "url": f"{gateway.url}/mcp/{server.id}", "tool": "", "mark": ""} for server in servers]
    known += [{"name": f"{ident} among all", "url": f"{gateway.url}/mcp", "tool": f"{ident}__", "mark": f"{ident}+"} for ident in MERGED]
    key = gateway.create_key("http", "--direct")
    with ThreadPoolExecutor() as threads:
        for client, output in chain(*threads.map(lambda clients: visit(clients, key, known), (SESSIONLESS, CLASSIC[:2], CLASSIC[2:]))):
            print(output, end="", flush=True)
            lines = [line for line in output.splitlines() if line.startswith(("ok ", "not ok "))]
            with check(f"{client.name} has done everything at every server"):
                equal(len(lines), CHECKS * len(visited(client, known)))


def main():
    with check("the servers on stdio of both eras that others wrote have sessions, since nothing else is configured"):
        equal({ident for ident, (version, _) in settled(Gateway.at(context)).items() if version == MODERN}, set())
    servers, processes = behind()
    config = Path(context["work"]) / "eras.toml"
    config.write_text("\n".join(server.toml() for server in servers))
    gateway = Gateway.alone(context, "eras", config)
    try:
        gateway.start()
        gateway.ready()
        with check("the gateway speaks 2026-07-28 with every server, as it was told or found out"):
            knows(gateway, servers, "probed")
        gateway.stop()
        gateway.start()
        gateway.ready()
        with check("started again, the gateway knows of which era each server is"):
            knows(gateway, servers, "cached")
        visits(gateway, servers)
    finally:
        gateway.stop()
        for process in processes:
            process.kill()
    finish()


main()
