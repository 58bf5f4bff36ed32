"""Small messages of a hostile server that grow in a careless gateway, beside a good server with another user.

The gateway may use 1 GB of memory in all. Each case is one message of a hostile server; while it is handled, the calls of the other
user go on. Then the gateway is killed and starts again, with the hostile servers configured as they were.
"""

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path

import mcp
from gateway import Gateway
from http1 import Gone, fetch
from sources import Source, Target

SERVER = Path(__file__).resolve().parent / "growth_server.py"
NAME = "growth"
LIMIT = 1 << 30
# how long a case may take, and a call of the other user beside it
CASE_SECONDS, CALL_SECONDS = 30, 10

# each case: the server, the version of the client, and what the answer has to contain; `backend` where an error names the server
CALLS = {
    "logger": ("legacy", "2025-06-18", "ok"),
    "properties": ("legacy", "2025-06-18", "ok"),
    "choices": ("legacy", "2025-06-18", "ok"),
    "role": ("legacy", "2025-06-18", "ok"),
    "batch": ("legacy", "2025-06-18", "ok"),
    "content": ("legacy", "2025-06-18", '"result"'),
    "elements": ("legacy", "2025-06-18", '"result"'),
    "rounds": ("modern", "2025-06-18", "more than 64"),
    "both-null": ("legacy", "2025-06-18", "broke the protocol"),
    "array-error": ("legacy", "2025-06-18", "broke the protocol"),
    "twice": ("legacy", "2025-06-18", "broke the protocol"),
    "null-error": ("legacy", "2025-06-18", "fine"),
    "text-code": ("legacy", "2025-06-18", "said as text"),
    "logged": ("legacy", "2025-06-18", "ok"),
}
NAMES_SERVER = ("rounds", "both-null", "array-error", "twice")
# bodies of the hostile user, at the legacy server, and what the answer has to contain
BODIES = {
    "client-batch": ("2025-03-26", b"[" + b"1," * (7 << 20) + b"1]", "more than 10,000 messages"),
    "client-elements": ("2025-06-18", mcp.body("tools/call", {"name": "case", "arguments": {"list": ["many"]}}).replace(b'"many"', b"0," * (7 << 20) + b"0"), "ok"),
}
LISTS = {"annotations": "2025-03-26", "mirrored": "2025-06-18", "left-out": "2025-06-18"}


def configuration():
    sections = ['[servers.good]\nbuiltin = "demo"\n']
    servers = {"legacy": ["legacy"], "modern": ["modern"], **{name: ["modern" if name == "mirrored" else "legacy", name] for name in LISTS}}
    for name, arguments in servers.items():
        bounded = "result_size = 1024\n" if name == "legacy" else ""
        sections.append(f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(SERVER), *arguments])}\n{bounded}")
    return "\n".join(sections)


class Client:
    """A session of a client that can be asked, at one server."""

    def __init__(self, target, key, server, version):
        self.target, self.path, self.version, self.number = target, f"/mcp/{server}", version, 0
        self.headers = mcp.headers(key)

    async def say(self, method, params, seconds):
        self.number += 1
        body = mcp.body(method, params, self.number)
        return await fetch(self.target, Source.client("loopback", 0), "POST", self.path, self.headers, body, seconds)

    async def open(self):
        capabilities = {"elicitation": {}, "sampling": {}}
        client = {"name": "growth", "version": "1"}
        answer = await self.say("initialize", {"protocolVersion": self.version, "capabilities": capabilities, "clientInfo": client}, CASE_SECONDS)
        self.headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": self.version}
        await fetch(self.target, Source.client("loopback", 0), "POST", self.path, self.headers, mcp.INITIALIZED)
        return self

    async def send(self, body):
        return (await fetch(self.target, Source.client("loopback", 0), "POST", self.path, self.headers, body, CASE_SECONDS)).text

    async def ask(self, method, params=None):
        return (await self.say(method, params or {}, CASE_SECONDS)).text


class Neighbour:
    """The other user, who calls the good server all the time."""

    def __init__(self, target, key):
        self.target, self.key, self.calls, self.slowest, self.faults = target, key, 0, 0.0, []

    async def run(self):
        while True:
            began = time.monotonic()
            headers, body = mcp.modern_echo(self.key, "still here")
            try:
                answer = await fetch(self.target, Source.client("loopback", 1), "POST", "/mcp/good", headers, body, CALL_SECONDS)
                if answer.status != 200 or "still here" not in answer.text:
                    self.faults.append(f"the other user's call: {answer.status} {answer.text[:200]}")
            except Gone as error:
                self.faults.append(f"the other user's call: {error}")
            self.calls += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(0.05)


def peak_mib(gateway):
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) >> 10


async def cases(gateway, target, key, faults):
    """Every case once."""
    for case, version in LISTS.items():
        client = await Client(target, key, case, version).open()
        text = await client.ask("tools/list")
        if '"case"' not in text:
            faults.append(f"{case}: the good tool is not listed: {text[:300]}")
    for case, (version, body, expected) in BODIES.items():
        client = await Client(target, key, "legacy", version).open()
        text = await client.send(body)
        if expected not in text:
            faults.append(f"{case}: the answer lacks {expected!r}: {text[-300:]}")
    clients = {}
    for case, (server, version, expected) in CALLS.items():
        client = clients.get(server) or await Client(target, key, server, version).open()
        clients[server] = client
        text = await client.ask("tools/call", {"name": "case", "arguments": {"case": case}})
        if expected not in text or (case in NAMES_SERVER and server not in text):
            faults.append(f"{case}: the answer lacks {expected!r}: {text[-300:]}")
        if gateway.process.poll() is not None:
            faults.append(f"{case}: the gateway ended with {gateway.process.returncode}")
            return


async def run(options, folder, log):
    """Every case, and a start after them; the summary and the faults."""
    config = folder / "lockkeeper.toml"
    config.write_text(configuration())
    port_target = Target("127.0.0.1", options.growth_port, f"127.0.0.1:{options.growth_port}")
    gateway = Gateway(options.binary, config, folder, options.growth_port)
    gateway.launcher = ["prlimit", f"--data={LIMIT}"]
    gateway.start()
    faults = []
    try:
        key, other = gateway.create_key("hostile", "--direct"), gateway.create_key("other", "--direct", "--user", "other")
        neighbour = Neighbour(port_target, other)
        beside = asyncio.create_task(neighbour.run())
        try:
            await cases(gateway, port_target, key, faults)
        except Gone as error:
            faults.append(f"a case was not answered: {error}")
        beside.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beside
        peak = peak_mib(gateway) if gateway.process.poll() is None else None
        gateway.kill()
        gateway.start()
        headers, body = mcp.modern_echo(other, "again")
        answer = await fetch(port_target, Source.client("loopback", 1), "POST", "/mcp/good", headers, body, CASE_SECONDS)
        if answer.status != 200:
            faults.append(f"after a start: {answer.status} {answer.text[:200]}")
        faults += neighbour.faults[:5]
    finally:
        gateway.stop()
        (options.out / f"{NAME}.log").write_text(gateway.log_text())
    summary = f"{len(CALLS) + len(LISTS) + len(BODIES)} messages, {neighbour.calls} calls of another user, the slowest {neighbour.slowest * 1000:.0f} ms, {peak} MiB at the most"
    return {"summary": summary, "faults": faults}
