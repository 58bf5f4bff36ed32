"""HTTP/1.1 on asyncio: a connection with pipelined requests. Knows nothing of what is requested."""

import asyncio
import collections
import re
import socket

from sources import secured

# ip(7); Python names it from 3.12 on.
IP_BIND_ADDRESS_NO_PORT = 24
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class Gone(Exception):
    """The connection ended before the answer."""


class Answer:
    """The status, the headers by their lower-case names, and the body of one answer."""

    def __init__(self, head, body):
        self.status, self.head, self.body = int(head[9:12]), head, body

    @property
    def headers(self):
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")


class Connection(asyncio.Protocol):
    """A connection. Answers come in the order of the requests."""

    def __init__(self):
        self.transport, self.buffer, self.waiting, self.closed = None, bytearray(), collections.deque(), False

    @classmethod
    async def open(cls, target, source, seconds=10):
        """Connects from the address of `source`. Raises Gone if that fails or takes longer than `seconds`."""
        try:
            return await asyncio.wait_for(cls.connect(target, source), seconds)
        except (OSError, asyncio.TimeoutError) as error:
            raise Gone(f"no connection: {error or 'timeout'}") from None

    @classmethod
    async def connect(cls, target, source):
        loop = asyncio.get_running_loop()
        end = socket.socket()
        try:
            end.setblocking(False)
            # The kernel then chooses the port at the connect, and may take one whose connection ended a second ago.
            end.setsockopt(socket.SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            end.bind((source.bind, 0))
            await loop.sock_connect(end, (target.host, target.port))
            return (await loop.create_connection(cls, sock=end, **secured(target)))[1]
        except BaseException:
            end.close()
            raise

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.closed = True
        for future in self.waiting:
            if not future.done():
                future.set_exception(Gone(str(error or "the server closed the connection")))
        self.waiting.clear()

    def data_received(self, data):
        self.buffer += data
        while self.waiting and (answer := self.take()) is not None:
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(answer)

    def take(self):
        """The next answer in the buffer; None if it is not complete."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head, start = bytes(self.buffer[: end + 2]), end + 4
        if CHUNKED.search(head):
            return self.take_chunked(head, start)
        found = LENGTH.search(head)
        complete = start + (int(found.group(1)) if found else 0)
        if len(self.buffer) < complete:
            return None
        body = bytes(self.buffer[start:complete])
        del self.buffer[:complete]
        return Answer(head, body)

    def take_chunked(self, head, at):
        body = bytearray()
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            size = int(self.buffer[at:line].split(b";")[0], 16)
            end = line + 2 + size
            if len(self.buffer) < end + 2:
                return None
            body += self.buffer[line + 2 : end]
            at = end + 2
            if size == 0:
                del self.buffer[:at]
                return Answer(head, bytes(body))
        return None

    def send(self, request):
        """Sends a complete request; a future of its answer."""
        future = asyncio.get_running_loop().create_future()
        if self.closed or self.transport.is_closing():
            future.set_exception(Gone("the server closed the connection"))
            return future
        self.waiting.append(future)
        self.transport.write(request)
        return future

    async def ask(self, request, seconds=10):
        """The answer to a request. Raises Gone if there is none within `seconds`."""
        try:
            return await asyncio.wait_for(self.send(request), seconds)
        except asyncio.TimeoutError:
            self.close()
            raise Gone(f"no answer within {seconds} s") from None

    def close(self):
        if self.transport:
            self.transport.abort()


def request(target, source, verb, path, headers=None, body=b""):
    """The bytes of a request from `source`."""
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {target.authority}"]
    if source.forwarded:
        lines.append(f"X-Forwarded-For: {source.forwarded}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if verb != "GET":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def fetch(target, source, verb, path, headers=None, body=b"", seconds=10):
    """One exchange on a connection of its own."""
    connection = await Connection.open(target, source, seconds)
    try:
        return await connection.ask(request(target, source, verb, path, headers, body), seconds)
    finally:
        connection.close()
