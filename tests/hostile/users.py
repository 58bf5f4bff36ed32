"""Attacks with a right key: on other users, and on other clients of the same user."""

import asyncio
import json
import secrets
import sys
from pathlib import Path

import mcp
from attack import ConnectionHolder, Flood, plain
from http1 import Gone, fetch


def envelope(more):
    """A complete call of `echo` with a further argument."""
    _, body = mcp.modern("", "tools/call", {"name": "echo", "arguments": {"message": "x", "more": 0}})
    return body.replace(b'"more": 0', b'"more": ' + more)


class MadeUpSessions(Flood):
    name, what, rate = "made-up-sessions", "calls and streams with made-up session ids", 500

    def request(self, context, source, number):
        headers = mcp.headers(context.credentials["other_key"], secrets.token_urlsafe(24))
        if number % 3 == 0:
            return plain(context, source, "GET", mcp.PATH, headers)
        return plain(context, source, "POST", mcp.PATH, headers, mcp.echo("x"))


class Sessions(Flood):
    name, what, rate = "sessions", "sessions that are opened and not used", 100
    short = ("network", "one")

    def request(self, context, source, number):
        return plain(context, source, "POST", mcp.PATH, mcp.headers(context.credentials["other_key"]), mcp.initialize())


class Json(Flood):
    name, what, rate, mib = "json", "bodies of 1 MiB: deeply nested, 100,000 members, a long escaped text, a long batch", 10, 192
    connections, depth = 4, 2
    bodies = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        envelope(b"[" * 500_000 + b"]" * 500_000),
        envelope(b"[" * 100 + b"1" + b",1" * 400_000 + b"]" * 100),
        envelope(b"{" + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}"),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 170_000 + b"1" + b"}" * 170_000 + b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"","more":{'
        + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}}}}",
        b"{" + b",".join(b'"id":%d' % number for number in range(90_000)) + b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"' + b"\\u0041" * 170_000 + b'"}}}',
        b"[" + b",".join([b'{"jsonrpc":"2.0","id":1,"method":"ping"}'] * 25_000) + b"]",
    )

    def request(self, context, source, number):
        body = self.bodies[number % len(self.bodies)]
        headers = mcp.headers(context.credentials["other_key"])
        if number % 2:
            headers |= {"MCP-Protocol-Version": mcp.MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        return plain(context, source, "POST", mcp.PATH, headers, body)


class Listens(ConnectionHolder):
    name, what, mib = "listens", "300 open listens of one user beside calls of the same user", 128
    most, rate = 300, 300
    shared_user = True
    key = "key"

    def begin(self, held):
        headers, body = mcp.listen(self.context.credentials[self.key])
        held.transport.write(plain(self.context, held.source, "POST", mcp.PATH, headers, body))


class SlowStreams(Listens):
    name, what = "slow-streams", "200 listens of another user that are never read, to a resource that changes 5 times a second"
    most, rate, every = 200, 200, 0.2
    receive_buffer, shared_user, key = 2048, False, "other_key"

    def begin(self, held):
        held.transport.pause_reading()
        super().begin(held)

    def more(self, held):
        if held.number == 1:
            asyncio.ensure_future(self.count_up())

    async def count_up(self):
        headers, body = mcp.modern(self.context.credentials[self.key], "tools/call", {"name": "count_up", "arguments": {}})
        try:
            await fetch(self.context.target, self.context.source(0), "POST", mcp.PATH, headers, body)
        except Gone:
            self.context.outcomes["changes that failed"] += 1


class SlowAnswers(ConnectionHolder):
    name, what, mib = "slow-answers", "100 answers of 1 MiB to another user that are never read", 192
    most, rate, receive_buffer = 100, 25, 2048

    def begin(self, held):
        held.transport.pause_reading()
        headers, body = mcp.modern_echo(self.context.credentials["other_key"], "x" * (1 << 20))
        held.transport.write(plain(self.context, held.source, "POST", mcp.PATH, headers, body))


def hoarding_server(name, kind):
    program = str(Path(__file__).resolve().parent / "hoarding_server.py")
    return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([program, kind])}\nshare = \"all\"\n\n"


class Hoard(ConnectionHolder):
    """Everything that one user and a hostile server can make the gateway hold, at once. The budget of the suite is 64 MiB; what
    is being translated, and what the allocator keeps for a second, comes on top."""

    name, what, mib = "hoard", "24 connections of another user: 12 MiB answers and floods of a server that are never read, 15 MiB bodies and WebSocket messages without an end, calls of 10 MiB at a server that reads nothing", 192
    servers = hoarding_server("flood", "flood") + hoarding_server("deaf", "deaf")
    most, rate, every, receive_buffer = 24, 8, 1.0, 2048
    answer = b"x" * (12 << 20)
    size = 15 << 20
    mask = bytes(4)

    def begin(self, held):
        key = self.context.credentials["other_key"]
        held.kind, held.left = held.number % 5, 0
        if held.kind == 0:
            held.transport.pause_reading()
            headers, body = mcp.modern_echo(key, "")
            body = body.replace(b'"message": ""', b'"message": "' + self.answer + b'"')
            held.transport.write(plain(self.context, held.source, "POST", mcp.PATH, headers, body))
        elif held.kind == 1:
            head = plain(self.context, held.source, "POST", mcp.PATH, mcp.headers(key))
            held.transport.write(head.replace(b"Content-Length: 0", f"Content-Length: {self.size}".encode()))
            held.left = self.size - 4096
            self.more(held)
        elif held.kind == 3:
            held.transport.pause_reading()
            self.call(held, key, "flood", b"")
        elif held.kind == 4:
            self.call(held, key, "deaf", b"x" * (10 << 20))
        else:
            upgrade = {
                "Authorization": f"Bearer {key}", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "mcp",
            }
            held.transport.write(plain(self.context, held.source, "GET", "/ws/demo", upgrade))

    def call(self, held, key, server, text):
        """Calls the tool of a hostile server, with logs and progress."""
        meta = {"progressToken": held.number, f"{mcp.PREFIX}logLevel": "debug"}
        headers, body = mcp.modern(key, "tools/call", {"name": "case", "arguments": {"text": ""}}, more=meta)
        body = body.replace(b'"text": ""', b'"text": "' + text + b'"')
        held.transport.write(plain(self.context, held.source, "POST", f"/mcp/{server}", headers, body))

    def received(self, held, data):
        if held.kind == 2 and not held.left and data.startswith(b"HTTP/1.1 101"):
            held.transport.write(b"\x81\xff" + self.size.to_bytes(8, "big") + self.mask)
            held.left = self.size - 4096
            self.more(held)

    def more(self, held):
        # as fast as the gateway takes it, and then what keeps a body alive
        for _ in range(32):
            if held.left <= 0 or held.transport.get_write_buffer_size() or held.transport.is_closing():
                break
            chunk = min(held.left, 1 << 19)
            held.left -= chunk
            held.transport.write(b" " * chunk)
            self.context.outcomes["KiB"] += chunk >> 10


ATTACKS = (MadeUpSessions, Sessions, Json, Listens, SlowStreams, SlowAnswers, Hoard)
