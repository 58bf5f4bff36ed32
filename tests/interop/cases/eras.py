"""SDKs of both eras as clients, at servers of 2026-07-28 alone and of both eras, on stdio and over HTTP: every pair."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from case import check, context, equal, finish
from gateway import Gateway, free_port
from servers import Server

PROGRAMS = Path(__file__).parent.parent / "eras"
MODERN = "2026-07-28"


@dataclass
class Sdk:
    """One SDK, and what runs its server."""

    name: str
    server: list


@dataclass
class Client:
    """One release as a client: its program, and how many checks it has for each server."""

    name: str
    command: list
    checks: int = 8


def program(name, *arguments):
    runner = context["node"] if name.endswith(".mjs") else context["pythons"]["servers"]
    return [runner, str(PROGRAMS / name), *arguments]


def classic(name, environment, version):
    return Client(name, [context["pythons"][environment], str(PROGRAMS / "classic.py"), name, version])


SDKS = [
    Sdk("TypeScript 2.4.0", program("server.mjs")),
    Sdk("Python 2.3.0", program("server.py")),
    Sdk("Rust 3.9.0", [f"{context['rust']}/server"]),
]
CLIENTS = [
    Client("TypeScript 2.4.0", program("modern.mjs")),
    Client("Python 2.3.0", program("modern.py")),
    Client("Rust 3.9.0", [f"{context['rust']}/client"]),
    Client("TypeScript 1.32.2", program("classic.mjs", "TypeScript 1.32.2", "sdk", "2025-11-25")),
    Client("TypeScript 1.17.5", program("classic.mjs", "TypeScript 1.17.5", "sdk-1.17.5", "2025-06-18")),
    classic("Python 1.30.0", "client-1", "2025-11-25"),
    classic("Python 1.22.0", "mcp-1.22.0", "2025-06-18"),
]


def behind():
    """The servers, and the processes of those over HTTP. A server of one era is told of, one of both is found out."""
    servers, processes = [], []
    for sdk in SDKS:
        for era in ("modern", "dual"):
            configured = "modern" if era == "modern" else ""
            ident = f"{sdk.name.split(' ')[0].lower()}-{era}"
            [command, *arguments], port = [*sdk.server, era], free_port()
            servers.append(Server(f"{ident}-stdio", command, arguments, era=configured))
            servers.append(Server(f"{ident}-http", url=f"http://127.0.0.1:{port}/mcp", era=configured))
            processes.append(subprocess.Popen([command, *arguments, str(port)], stdin=subprocess.DEVNULL))
    return servers, processes


def visit(client, environment):
    """What one client prints: a line for each check at each server."""
    return subprocess.run(client.command, env=environment, stdout=subprocess.PIPE, text=True).stdout


def visits(gateway, servers):
    known = [{"name": server.id, "url": f"{gateway.url}/mcp/{server.id}"} for server in servers]
    key = gateway.create_key("http", "--direct")
    environment = {**os.environ, "INTEROP": json.dumps({**context, "directKey": key, "servers": known})}
    with ThreadPoolExecutor(3) as threads:
        for client, output in zip(CLIENTS, threads.map(lambda client: visit(client, environment), CLIENTS)):
            print(output, end="", flush=True)
            lines = [line for line in output.splitlines() if line.startswith(("ok ", "not ok "))]
            with check(f"{client.name} has done everything at every server"):
                equal(len(lines), client.checks * len(known))


def main():
    servers, processes = behind()
    config = Path(context["work"]) / "eras.toml"
    config.write_text("\n".join(server.toml() for server in servers))
    gateway = Gateway.alone(context, "eras", config)
    try:
        gateway.start()
        gateway.ready()
        with check("the gateway speaks 2026-07-28 with every server that can"):
            backends = json.loads(gateway.cli("status", "--json"))["backends"]
            equal({backend["id"]: backend["protocol_version"] for backend in backends}, {server.id: MODERN for server in servers})
        visits(gateway, servers)
    finally:
        gateway.stop()
        for process in processes:
            process.kill()
    finish()


main()
