"""A proxy between one client and the gateway, which writes down each request, cuts every connection, and freezes.

Below, a request is useless if it brings its client nothing new:

- it is answered with a status other than 200 and 202: a GET with 204, 404, 405 or 409, a POST to a session that is gone;
- a GET is answered with a stream, and the server's side ends that without a message (an id alone is none);
- a GET without `Last-Event-ID` opens a stream while another one of the same session is open.

A GET that opens a lost stream again and stays open is not useless, nor is one that fetches the rest of a call. A DELETE never is.
"""

import asyncio
import json
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from http_reader import HttpReader
from proxy import Proxy

# a close with it sends RST at once, as a device does that forgot the connection
RESET = struct.pack("ii", 1, 0)
READ_SECONDS = 1


@dataclass
class Exchange:
    """One request and what became of it. `ended_by` is `server`, `client` or `cut`."""

    method: str
    path: str
    session: str
    last_event_id: str
    since: float = field(default_factory=time.time)
    calls: str = ""
    status: int = 0
    events: int = 0
    until: float = 0
    ended_by: str = ""
    second: bool = False
    streamed: bool = False

    @property
    def is_stream(self):
        """Open for messages outside of calls."""
        return not self.until and self.status == 200 and (self.method == "GET" or self.calls == "subscriptions/listen")

    def opened(self, session):
        """Is the stream that a GET of this session opened."""
        return self.is_stream and self.method == "GET" and self.session == session

    @property
    def is_useless(self):
        if self.method == "DELETE":
            return False
        if not self.status:
            return self.ended_by == "server"
        if self.status not in (200, 202):
            return True
        return self.streamed and self.method == "GET" and (self.second or self.ended_by == "server" and not self.events)

    def line(self):
        clock = time.strftime("%X", time.localtime(self.since)) + f".{int(self.since % 1 * 1000):03}"
        resumes = f" Last-Event-ID {self.last_event_id}" if self.last_event_id else ""
        end = f"{self.until - self.since:.1f} s, ended by {self.ended_by}" if self.until else "open"
        useless = "  USELESS" if self.is_useless else ""
        return f"{clock} {self.method} {self.path} {self.calls}{resumes} -> {self.status}, {self.events} events, {end}{useless}"


class Connection:
    """Both directions of one connection, read as HTTP."""

    def __init__(self, recorder):
        self.recorder, self.asked, self.current = recorder, deque(), None
        self.content, self.lines = b"", b""
        self.requests = HttpReader(self.request, self.keep, self.requested)
        self.responses = HttpReader(self.response, self.count, self.responded)

    def request(self, line, headers):
        method, path, _ = line.split(" ", 2)
        found = Exchange(method, path.partition("?")[0], headers.get("mcp-session-id", ""), headers.get("last-event-id", ""))
        opens = method == "GET" and found.session and not found.last_event_id
        found.second = bool(opens) and any(other.opened(found.session) for other in self.recorder.exchanges)
        self.recorder.exchanges.append(found)
        self.asked.append(found)
        self.content = b""
        return True

    def keep(self, part):
        self.content += part

    def requested(self):
        if not self.content:
            return
        message = json.loads(self.content)
        self.asked[-1].calls = message.get("method", "answer") if isinstance(message, dict) else "batch"

    def response(self, line, headers):
        status = int(line.split(" ", 2)[1])
        self.lines = b""
        if status >= 200:
            self.current = self.asked.popleft()
            self.current.status = status
            self.current.streamed = headers.get("content-type", "").startswith("text/event-stream")
        return status >= 200 and status not in (204, 304)

    def count(self, part):
        """Counts the events that have data."""
        *lines, self.lines = (self.lines + part).split(b"\n")
        self.current.events += sum(line.startswith(b"data:") and bool(line[5:].strip()) for line in lines)

    def responded(self):
        if self.current:
            self.end(self.current, "server")
        self.current = None

    @staticmethod
    def end(exchange, by):
        if not exchange.until:
            exchange.until, exchange.ended_by = time.time(), by

    def closed(self, by):
        for exchange in [self.current, *self.asked]:
            if exchange:
                self.end(exchange, by)


class Recorder(Proxy):
    """Forwards to a port, or with `tls` (a context and a name) to one that speaks TLS."""

    def __init__(self, port, target, tls=None):
        self.exchanges, self.connections, self.tls = [], set(), tls
        self.moving = asyncio.Event()
        self.moving.set()
        super().__init__(port, target)

    async def forward(self, reader, writer):
        """Carries one connection. Without a gateway behind it the client sees its connection closed."""
        writers, connection = [writer], Connection(self)
        self.connections.add(connection)
        try:
            await self.moving.wait()
            context, name = self.tls or (None, None)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target, ssl=context, server_hostname=name)
            writers.append(far_writer)
            self.writers.update(writers)
            there = self.carry(reader, far_writer, connection.requests, lambda: connection.closed("client"))
            back = self.carry(far_reader, writer, connection.responses, lambda: connection.closed("server"))
            await asyncio.gather(there, back)
        except OSError:
            pass
        finally:
            connection.closed("server")
            self.connections.discard(connection)
            self.writers.difference_update(writers)
            for end in writers:
                end.close()

    async def carry(self, reader, writer, reads, ended):
        """One direction. Its end is handed on as well as TLS can."""
        while chunk := await reader.read(65536):
            await self.moving.wait()
            reads.feed(chunk)
            writer.write(chunk)
            await writer.drain()
        await self.moving.wait()
        ended()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()

    def cut(self):
        """Cuts every open connection at both ends with RST. New ones are accepted at once."""

        async def abort():
            for connection in self.connections:
                connection.closed("cut")
            for writer in self.writers:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                writer.transport.abort()

        self.call(abort())

    def freeze(self, seconds):
        """Holds everything back, and then goes on."""

        async def hold():
            self.moving.clear()
            self.loop.call_later(seconds, self.moving.set)

        self.call(hold())

    def has_stream(self):
        """A stream is open, for long enough that the client has read its first event."""
        return any(exchange.is_stream and time.time() > exchange.since + READ_SECONDS for exchange in list(self.exchanges))

    def useless(self, since, seconds):
        return [exchange for exchange in list(self.exchanges) if since <= exchange.since < since + seconds and exchange.is_useless]
