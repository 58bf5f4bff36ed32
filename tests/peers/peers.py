"""Real servers, each as its users run it: on pipes, over Streamable HTTP, HTTP+SSE, WebSocket, TCP and a Unix socket."""

import contextlib
import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from gateway import free_port

CHROMIUM = ["--executable-path", "/usr/bin/chromium", "--headless", "--no-sandbox", "--isolated"]


@dataclass
class Peer:
    """One server: a command for the gateway to start, or the address of a process that the suite starts."""

    id: str
    command: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    address: str = ""
    options: dict = field(default_factory=dict)
    # the peer with the same tools that is asked without the gateway, where this one cannot be
    like: str = ""

    def toml(self):
        given = {"url": self.address} if self.address else {"command": str(self.command[0]), "args": [str(part) for part in self.command[1:]]}
        lines = [f"[servers.{self.id}]", *(f"{name} = {json.dumps(value)}" for name, value in (given | self.options).items())]
        if self.env:
            lines.append("env = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.env.items()) + " }")
        return "\n".join(lines) + "\n"


def piped(npm, pythons, work):
    """The servers that a gateway starts."""
    node = lambda package, *arguments: ["node", npm / package, *arguments]
    everything = "@modelcontextprotocol/server-everything/dist/index.js"
    files, repository = work / "files", work / "repository"
    released = lambda python, release: ([pythons[python], "-m", "mcp_server_time", "--local-timezone", "Etc/UTC"], {"PYTHONPATH": str(pythons[release])})
    programs = Path(pythons["servers"]).parent
    return [
        Peer("everything", node(everything, "stdio")),
        Peer("everything-2025-08", node("everything-2025-08/dist/index.js", "stdio")),
        Peer("everything-2025-05", node("everything-2025-05/dist/index.js")),
        Peer("everything-0-6-2", node("everything-0.6.2/dist/index.js")),
        Peer("filesystem", node("@modelcontextprotocol/server-filesystem/dist/index.js", files)),
        Peer("filesystem-0-5-1", node("filesystem-0.5.1/dist/index.js", files)),
        Peer("memory", node("@modelcontextprotocol/server-memory/dist/index.js"), {"MEMORY_FILE_PATH": str(work / "memory.jsonl")}),
        Peer("memory-of-all", node("@modelcontextprotocol/server-memory/dist/index.js"), {"MEMORY_FILE_PATH": str(work / "shared.jsonl")}, options={"share": "all"}),
        Peer("thinking", node("@modelcontextprotocol/server-sequential-thinking/dist/index.js")),
        Peer("playwright", node("@playwright/mcp/cli.js", *CHROMIUM)),
        Peer("fetch", [programs / "mcp-server-fetch", "--allow-private-ips"]),
        Peer("git", [programs / "mcp-server-git", "--repository", repository]),
        Peer("time", [programs / "mcp-server-time", "--local-timezone", "Etc/UTC"]),
        Peer("time-modern", [programs / "mcp-server-time", "--local-timezone", "Etc/UTC"], options={"era": "modern"}),
        Peer("time-2026-01", *released("mcp-1.26.0", "time-2026.1.26")),
        Peer("time-2025-09", *released("mcp-1.22.0", "time-2025.9.25")),
        Peer("time-0-6-2", *released("client-old", "time-0.6.2")),
        Peer("time-on-1-6", *released("mcp-1.6.0", "time-0.6.2")),
        Peer("serena", [pythons["serena"].parent / "serena", *serena(work)]),
    ]


def serena(work):
    home = ["--project", work / "project", "--context", "ide", "--enable-web-dashboard", "false", "--log-level", "ERROR"]
    return ["start-mcp-server", *home]


class Listening:
    """The servers that listen by themselves, and their processes."""

    def __init__(self, npm, pythons, work, logs):
        self.logs, self.work, self.processes, self.peers = logs, work, [], []
        everything = ["node", npm / "@modelcontextprotocol/server-everything/dist/index.js"]
        older = ["node", npm / "everything-2025-08/dist/index.js"]
        playwright = ["node", npm / "@playwright/mcp/cli.js", *CHROMIUM]
        sdk = [pythons["client-1"], Path(__file__).parent.parent / "interop" / "transports" / "server.py"]
        self.start("everything-http", "http://{}/mcp", [*everything, "streamableHttp"])
        self.start("everything-sse", "http://{}/sse", [*everything, "sse"])
        self.start("everything-2025-08-http", "http://{}/mcp", [*older, "streamableHttp"])
        self.start("everything-2025-08-sse", "http://{}/sse", [*older, "sse"])
        # it serves one session, and ends with it
        self.start("everything-0-6-2-sse", "http://{}/sse", ["node", npm / "everything-0.6.2/dist/sse.js"], like="everything-0-6-2", options={"share": "all"})
        # it insists on the Host that it listens on by name
        self.start("playwright-http", "http://localhost:{port}/mcp", [*playwright, "--port", "{port}"])
        self.start("serena-http", "http://{}/mcp", [pythons["serena"].parent / "serena", *serena(work), "--transport", "streamable-http", "--port", "{port}"])
        self.start("python-sse", "http://{}/sse", [*sdk, "sse", "{port}"])
        self.start("python-websocket", "ws://{}/mcp", [*sdk, "websocket", "{port}"])
        self.start("python-tcp", "tcp://{}", [*sdk, "tcp", "{port}"], like="python-sse")
        self.start("python-unix", f"unix:{work / 'mcp.sock'}", [*sdk, "unix", work / "mcp.sock"], like="python-sse")

    def start(self, name, address, command, **known):
        port = free_port()
        with open(self.logs / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [str(part).replace("{port}", str(port)) for part in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "PORT": str(port)}, cwd=self.work, start_new_session=True,
            )
        self.processes.append(process)
        address = address.replace("{port}", str(port)).replace("{}", f"127.0.0.1:{port}")
        self.peers.append(Peer(name, address=address, **known))
        place = (socket.AF_UNIX, address[5:]) if address.startswith("unix:") else (socket.AF_INET, ("127.0.0.1", port))
        end = time.monotonic() + 90
        while not listens(*place):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} does not listen:\n{(self.logs / f'{name}.log').read_text()[-1500:]}")
            time.sleep(0.05)


def listens(family, address):
    with socket.socket(family) as probe, contextlib.suppress(OSError):
        probe.connect(address)
        return True
    return False
