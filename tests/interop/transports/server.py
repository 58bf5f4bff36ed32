"""A server of the Python SDK: `server.py sse|websocket PORT`, `server.py tcp PORT` or `server.py unix PATH`.

It counts with progress, asks for a name, and tells its process id."""

import logging
import os
import sys
import warnings

import anyio
import uvicorn
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.stdio import stdio_server
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

server = FastMCP("transports", log_level="WARNING")


class Person(BaseModel):
    name: str


@server.tool()
async def count(to: int, context: Context) -> str:
    for number in range(1, to + 1):
        await context.report_progress(number, to)
    return f"counted to {to}"


@server.tool()
async def greet(context: Context) -> str:
    asked = await context.elicit("Your name?", Person)
    return f"Hello, {asked.data.name}"


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def process() -> int:
    return os.getpid()


async def run(read, write):
    low = server._mcp_server
    await low.run(read, write, low.create_initialization_options())


def websocket():
    from mcp.server.websocket import websocket_server

    async def endpoint(socket):
        async with websocket_server(socket.scope, socket.receive, socket.send) as (read, write):
            await run(read, write)

    return Starlette(routes=[WebSocketRoute("/mcp", endpoint)])


class LineReader:
    """The lines of a connection, as the SDK reads those of standard input."""

    def __init__(self, stream):
        self.stream = BufferedByteReceiveStream(stream)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return (await self.stream.receive_until(b"\n", 1 << 26)).decode()
        except (anyio.EndOfStream, anyio.IncompleteRead):
            raise StopAsyncIteration from None


class LineWriter:
    def __init__(self, stream):
        self.stream = stream

    async def write(self, text):
        await self.stream.send(text.encode())

    async def flush(self):
        pass


async def lines(listener):
    async def handle(stream):
        async with stream:
            async with stdio_server(LineReader(stream), LineWriter(stream)) as (read, write):
                await run(read, write)

    await listener.serve(handle)


async def on_socket(kind, address):
    if kind == "unix":
        await lines(await anyio.create_unix_listener(address))
    else:
        await lines(await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(address)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING)
    kind, address = sys.argv[1:]
    if kind in ("tcp", "unix"):
        anyio.run(on_socket, kind, address)
    else:
        app = server.sse_app() if kind == "sse" else websocket()
        uvicorn.run(app, host="127.0.0.1", port=int(address), log_level="warning", timeout_graceful_shutdown=1)
