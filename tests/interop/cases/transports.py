"""Servers of the official SDKs over each transport that they offer: HTTP+SSE, WebSocket, a socket. The Python SDK calls
them over Streamable HTTP, and through `lockkeeper stdio` and `lockkeeper connect`."""

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path

import anyio
import mcp.types as types
from case import check, contains, context, equal, finish, until
from gateway import Gateway, free_port
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

PROGRAM = Path(__file__).parent.parent / "transports" / "server.py"
EVERYTHING = str(Path(context["nodeModules"]) / ".bin" / "mcp-server-everything")
work = Path(context["work"]) / "transports"
work.mkdir()
PORTS = {name: free_port() for name in ("everything", "sse", "websocket", "tcp")}
PATH = work / "mcp.sock"
URLS = {
    "everything": f"http://127.0.0.1:{PORTS['everything']}/sse",
    "sse": f"http://127.0.0.1:{PORTS['sse']}/sse",
    "websocket": f"ws://127.0.0.1:{PORTS['websocket']}/mcp",
    "tcp": f"tcp://127.0.0.1:{PORTS['tcp']}",
    "unix": f"unix:{PATH}",
}
OURS = ("sse", "websocket", "tcp", "unix")
TRANSPORTS = {"everything": "http+sse", "sse": "http+sse", "websocket": "websocket", "tcp": "tcp", "unix": "unix"}
running = {}


def start(name):
    """Starts a server, and waits until it listens."""
    if name == "everything":
        command, env = [EVERYTHING, "sse"], {**os.environ, "PORT": str(PORTS[name])}
    else:
        command = [context["pythons"]["client-1"], str(PROGRAM), name, str(PATH if name == "unix" else PORTS[name])]
        env = os.environ
    PATH.unlink(missing_ok=True) if name == "unix" else None
    with open(Path(context["artefacts"]) / f"transports-{name}.log", "ab") as log:
        running[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
    until(f"the server over {name}", lambda: listens(name))


def listens(name):
    family, address = (socket.AF_UNIX, str(PATH)) if name == "unix" else (socket.AF_INET, ("127.0.0.1", PORTS[name]))
    with socket.socket(family) as probe, contextlib.suppress(OSError):
        probe.connect(address)
        return True


async def person(_, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@contextlib.asynccontextmanager
async def over_http(path):
    headers = {"Authorization": f"Bearer {key}"}
    async with streamablehttp_client(gateway.url + path, headers=headers) as (read, write, _):
        async with ClientSession(read, write, elicitation_callback=person) as session:
            await session.initialize()
            yield session


@contextlib.asynccontextmanager
async def over_stdio(*arguments):
    parameters = StdioServerParameters(command=context["binary"], args=list(arguments))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write, elicitation_callback=person) as session:
        await session.initialize()
        yield session


def text(result):
    assert not result.isError, result
    return "\n".join(part.text for part in result.content if part.type == "text")


async def converse(session, prefix=""):
    """Lists, calls with progress, and is asked."""
    progress = []

    async def note(number, total, _):
        progress.append((number, total))

    contains([tool.name for tool in (await session.list_tools()).tools], f"{prefix}greet")
    equal(text(await session.call_tool(f"{prefix}count", {"to": 3}, progress_callback=note)), "counted to 3")
    equal(progress, [(1, 3), (2, 3), (3, 3)])
    equal(text(await session.call_tool(f"{prefix}greet", {})), "Hello, Ada")
    large = "x" * 300_000
    equal(text(await session.call_tool(f"{prefix}echo", {"text": large})), large)


async def alone(way, *arguments):
    async with way(*arguments) as session:
        await converse(session)


async def restarted(name):
    async with over_http(f"/mcp/{name}") as session:
        before = text(await session.call_tool("process", {}))
        running[name].kill()
        running[name].wait()
        start(name)
        with anyio.fail_after(60):
            while (after := await asked(session)) is None:
                await anyio.sleep(0.2)
        assert after != before, after


async def asked(session):
    """The process of the server; None where the gateway says that it cannot be reached at this moment."""
    try:
        return text(await session.call_tool("process", {}))
    except McpError as error:
        # one that was on its way may have run, and is not called retryable
        assert "retryable" in error.error.data, error


async def everything():
    async with over_http("/mcp/everything") as session:
        contains([tool.name for tool in (await session.list_tools()).tools], "echo")
        equal(text(await session.call_tool("echo", {"message": "over SSE"})), "Echo: over SSE")
        contains(text(await session.call_tool("trigger-elicitation-request", {})), "Ada")


async def merged():
    async with over_stdio("stdio", "--config", str(config)) as session:
        for name in OURS:
            await converse(session, f"{name}__")


for name in URLS:
    start(name)
config = work / "lockkeeper.toml"
config.write_text("".join(f"[servers.{name}]\nurl = {json.dumps(url)}\n" for name, url in URLS.items()))
gateway = Gateway.alone(context, "transports-gateway", config)
gateway.start()
try:
    gateway.ready()
    key = gateway.create_key("transports", "--direct")
    with check("each server is reached over the transport that it has"):
        found = {backend["id"]: backend["transport"] for backend in json.loads(gateway.cli("status", "--json"))["servers"]}
        equal(found, TRANSPORTS)
    with check("server-everything over HTTP+SSE lists, answers and asks"):
        anyio.run(everything)
    for name in OURS:
        with check(f"{name}: calls with progress, a question to the person, 300 KB"):
            anyio.run(alone, over_http, f"/mcp/{name}")
        with check(f"{name}: a server that is killed between two calls is found again"):
            anyio.run(restarted, name)
    with check("`lockkeeper stdio` serves them all to one client"):
        anyio.run(merged)
    with check("`lockkeeper connect` bridges to a server over HTTP+SSE"):
        anyio.run(alone, over_stdio, "connect", URLS["sse"], "--data-dir", str(work / "local"))
finally:
    gateway.stop()
    for server in running.values():
        server.kill()
finish()
