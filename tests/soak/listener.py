"""HTTP/1.1 on the side of a server, as bare as can be: requests, and answers that are streams of events. Knows nothing of MCP."""

import asyncio
import json


async def listen(port, exchange):
    """Serves each request by `exchange(verb, path, headers, body, reader, writer)`."""
    held = set()

    async def connection(reader, writer):
        # the loop alone would let a task go that nothing else holds
        task = asyncio.current_task()
        held.add(task)
        task.add_done_callback(held.discard)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                verb, path, _ = head[0].split()
                await exchange(verb, path, headers, body, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(connection, "127.0.0.1", port, limit=1 << 24) as server:
        await server.serve_forever()


def respond(writer, status, message=None, extra=""):
    """An answer that is whole."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else b""
    kind = "Content-Type: application/json\r\n" if message else ""
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{kind}{extra}\r\n".encode() + body)


class Events:
    """A response of server-sent events."""

    def __init__(self, writer, extra=""):
        self.writer, self.over = writer, asyncio.Event()
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode())

    async def write(self, message):
        data = b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"
        if not self.writer.is_closing():
            self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self):
        if not self.writer.is_closing():
            self.writer.write(b"0\r\n\r\n")
        self.over.set()
