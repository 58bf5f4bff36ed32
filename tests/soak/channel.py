"""Channels between a client of the soak and the gateway, which carry one message after another in both directions: a WebSocket
connection, or the pipes of a gateway that the client starts. Knows nothing of the meaning of messages."""

import asyncio
import base64
import json
import os
import struct

import wire
from sabotage import Silence
from wire import Gone, inbound

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
# after the end of its input
EXIT_SECONDS = 20


class Channel:
    """What both have in common: whole messages, and the injected fault."""

    async def send(self, message):
        try:
            for said in wire.sabotage.outbound(message) if wire.sabotage else [message]:
                await self.write(json.dumps(said).encode())
        except ConnectionError as error:
            raise Gone(str(error)) from None

    async def messages(self):
        try:
            async for text in self.texts():
                for message in inbound(json.loads(text)):
                    yield message
        except Silence as silence:
            while str(silence) == "hang":
                await asyncio.sleep(60)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Gone(str(error)) from None


class Socket(Channel):
    """A WebSocket connection (RFC 6455); the token is in a header, or in the list of subprotocols as pages send it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port, path, key, page):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        lines = [
            f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            *([f"Sec-WebSocket-Protocol: mcp, bearer.{key}"] if page else ["Sec-WebSocket-Protocol: mcp", f"Authorization: Bearer {key}"]),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Gone(str(error)) from None
        if not head.startswith(b"HTTP/1.1 101"):
            writer.close()
            raise Gone(head.decode("latin-1").split("\r\n")[0])
        return cls(reader, writer)

    async def write(self, text, kind=TEXT):
        size = len(text)
        length = bytes([0x80 | size]) if size < 126 else struct.pack("!BH", 0x80 | 126, size) if size < 1 << 16 else struct.pack("!BQ", 0x80 | 127, size)
        # a mask of zeros leaves the text as it is
        self.writer.write(bytes([0x80 | kind]) + length + bytes(4) + text)
        await self.writer.drain()

    async def texts(self):
        while True:
            kind, size = await self.reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            text = await self.reader.readexactly(size)
            if kind & 15 == PING:
                await self.write(text, PONG)
            elif kind & 15 == CLOSE:
                return
            elif kind == 0x80 | TEXT:
                yield text
            elif kind & 15 != PONG:
                raise ConnectionError(f"a frame of the kind {kind}")

    async def close(self, clean):
        """Closes the connection, or only the socket beneath."""
        try:
            if clean:
                await self.write(struct.pack("!H", 1000), CLOSE)
        except ConnectionError:
            pass
        self.writer.close()


class Pipes(Channel):
    """Standard input and output of `lockkeeper stdio`."""

    def __init__(self, process):
        self.process = process

    @classmethod
    async def open(cls, binary, config, log):
        command = [binary, "stdio", "--config", str(config)]
        with open(log, "ab") as errors:
            pipe = asyncio.subprocess.PIPE
            return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors, limit=1 << 24))

    async def write(self, text):
        self.process.stdin.write(text + b"\n")
        await self.process.stdin.drain()

    async def texts(self):
        while line := await self.process.stdout.readline():
            yield line

    async def close(self, clean):
        """Closes its input, or kills it; returns its exit code, or `None` where it goes on."""
        if not clean:
            self.process.kill()
            await self.process.wait()
            return 0
        self.process.stdin.close()
        try:
            return await asyncio.wait_for(self.process.wait(), EXIT_SECONDS)
        except asyncio.TimeoutError:
            self.process.kill()
            return None
