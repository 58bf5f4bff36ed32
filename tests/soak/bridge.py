"""Puts a server on stdio behind another transport, with a process for each connection. `bridge.py sse|ws|tcp PORT
COMMAND…` listens on loopback and prints its port; `bridge.py unix PATH COMMAND…` prints its path."""

import sys

# as in the servers behind it, `asyncio` starts sooner without TLS
sys.modules["ssl"] = None

import asyncio
import base64
import hashlib
import itertools
from asyncio.subprocess import PIPE

KIND, ADDRESS, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3:]
LIMIT = 1 << 26
CONTINUED, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
INPUTS, NUMBERS, HELD = {}, itertools.count(), set()


async def start():
    return await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE, limit=LIMIT)


async def until_one_ends(process, *ways):
    """Runs both ways until one ends; then the process has no connection any more."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def pump(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def lines(reader, writer):
    process = await start()
    await until_one_ends(process, pump(reader, process.stdin), pump(process.stdout, writer))


async def frame_of(reader):
    """The next frame of a client, which is never in parts: its kind and its bytes."""
    first, second = await reader.readexactly(2)
    size = second & 127
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return first & 15, (int.from_bytes(data, "big") ^ key).to_bytes(size, "big")


def frame(kind, data, is_last=True):
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
    return bytes([(128 if is_last else 0) | kind]) + length + data


async def websocket(headers, reader, writer):
    accept = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mcp\r\n"
    writer.write(f"{head}Sec-WebSocket-Accept: {base64.b64encode(accept).decode()}\r\n\r\n".encode())
    process = await start()

    async def hear():
        while True:
            kind, data = await frame_of(reader)
            if kind == CLOSE:
                return
            if kind == PING:
                writer.write(frame(PONG, data))
            if kind == TEXT:
                process.stdin.write(data + b"\n")
                await process.stdin.drain()

    async def say():
        has_begun = False
        # in fragments as it comes, since a line may have no end
        while data := await process.stdout.read(1 << 16):
            *whole, begun = data.split(b"\n")
            for part in whole:
                writer.write(frame(CONTINUED if has_begun else TEXT, part))
                has_begun = False
            if begun:
                writer.write(frame(CONTINUED if has_begun else TEXT, begun, is_last=False))
                has_begun = True
            await writer.drain()

    await until_one_ends(process, hear(), say())


async def events(reader, writer):
    process, session = await start(), next(NUMBERS)
    INPUTS[session] = process.stdin
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    writer.write(f"event: endpoint\ndata: messages?session={session}\n\n".encode())

    async def say():
        has_begun = False
        # as it comes, since a line may have no end
        while data := await process.stdout.read(1 << 16):
            for number, part in enumerate(data.split(b"\n")):
                if number > 0:
                    writer.write(b"\n\n")
                    has_begun = False
                if part:
                    writer.write(part if has_begun else b"event: message\ndata: " + part)
                    has_begun = True
            await writer.drain()

    try:
        # nothing more comes from the client on this connection but its end
        await until_one_ends(process, reader.read(1), say())
    finally:
        del INPUTS[session]


async def http(reader, writer):
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        verb, path, _ = head[0].split()
        if "sec-websocket-key" in headers:
            return await websocket(headers, reader, writer)
        if verb == "GET" and path == "/sse":
            return await events(reader, writer)
        _, _, session = path.partition("?session=")
        to = INPUTS.get(int(session)) if verb == "POST" and session else None
        if to is not None:
            to.write(body + b"\n")
        status = "404 Not Found" if to is None else "202 Accepted"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())


async def connection(reader, writer):
    # the loop alone would let a task go that nothing else holds
    task = asyncio.current_task()
    HELD.add(task)
    task.add_done_callback(HELD.discard)
    try:
        await (lines if KIND in ("unix", "tcp") else http)(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    if KIND == "unix":
        server, name = await asyncio.start_unix_server(connection, ADDRESS, limit=LIMIT), ADDRESS
    else:
        server = await asyncio.start_server(connection, "127.0.0.1", int(ADDRESS), limit=LIMIT)
        name = server.sockets[0].getsockname()[1]
    print(name, flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
