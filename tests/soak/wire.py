"""HTTP/1.1 and server-sent events on asyncio, as bare as a client can be: nothing is hidden from the soak."""

import asyncio
import json

from sabotage import Silence


# the injected fault, if any
sabotage = None
# statuses of a gateway whose replicas come and go: the request is lost
lost = ()


class Gone(Exception):
    """The connection ended."""


class Response:
    def __init__(self, reader, writer, status, headers):
        self.reader, self.writer, self.status, self.headers = reader, writer, status, headers

    async def chunks(self):
        """The body, piece by piece."""
        try:
            if "content-length" in self.headers:
                yield await self.reader.readexactly(int(self.headers["content-length"]))
                return
            while True:
                size = int(await self.reader.readline() or b"0", 16)
                chunk = await self.reader.readexactly(size + 2)
                if size == 0:
                    return
                yield chunk[:-2]
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise Gone(str(error)) from None

    async def body(self):
        return b"".join([chunk async for chunk in self.chunks()])

    async def events(self):
        """The events: id, name and data."""
        rest = b""
        async for chunk in self.chunks():
            *texts, rest = (rest + chunk).split(b"\n\n")
            for text in texts:
                fields = [line.split(b": ", 1) for line in text.split(b"\n") if b": " in line and not line.startswith(b":")]
                data = b"\n".join(value for name, value in fields if name == b"data")
                named = {name.decode(): value.decode() for name, value in fields if name in (b"id", b"event", b"retry")}
                yield named.get("id"), named.get("event"), data

    async def messages(self):
        """The messages: JSON, or events; the id of the event beside each, and of empty ones. An endpoint is a text."""
        try:
            if self.headers.get("content-type") == "application/json":
                answer = json.loads(await self.body())
                for message in answer if isinstance(answer, list) else [answer]:
                    for heard in inbound(message):
                        yield None, heard
                return
            async for id, name, data in self.events():
                if name == "endpoint" or not data:
                    yield id, data.decode() or None
                    continue
                for heard in inbound(json.loads(data)):
                    yield id, heard
        except Silence as silence:
            while str(silence) == "hang":
                await asyncio.sleep(60)

    def close(self):
        self.writer.close()


def inbound(message):
    return sabotage.inbound(message) if sabotage else [message]


async def post(port, path, headers, message):
    """Sends a message; the response to it, or None where sabotage swallows it."""
    response = None
    for said in sabotage.outbound(message) if sabotage else [message]:
        if response:
            response.close()
        response = await request(port, "POST", path, headers, said)
    if response and sabotage and sabotage.kind == "gone" and message.get("method") == "tools/call" and sabotage.strikes():
        response.status = 404
    return response


async def request(port, verb, path, headers, body=None):
    """One request on a connection of its own."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        text = json.dumps(body).encode() if body is not None else b""
        lines = [f"{verb} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", f"Content-Length: {len(text)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        fields = {name.lower(): value for name, value in fields.items()}
        status = int(head[0].split()[1])
        if status in lost:
            writer.close()
            raise Gone(f"status {status}")
        return Response(reader, writer, status, fields)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError) as error:
        if writer:
            writer.close()
        if isinstance(error, asyncio.CancelledError):
            raise
        raise Gone(str(error)) from None
