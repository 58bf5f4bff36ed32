"""All servers at once: each tool of every healthy one is in the merged list, and `status` tells why each sick one is."""

import contextlib
import json
import os
import time

import anyio
from case import check, context, equal, finish, until
from gateway import Gateway
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.client.websocket import websocket_client
from mcp.shared.exceptions import McpError

gateway = Gateway.at(context)
peers = {peer["id"]: peer for peer in context["peers"]}
sick = {one["id"]: one["words"] for one in context["sick"]}


@contextlib.asynccontextmanager
async def streams(peer):
    """The streams of a peer without the gateway."""
    address = peer["address"]
    if not address:
        command, *args = peer["command"]
        env = {**os.environ, **peer["env"]}
        with open("/dev/null", "w") as nowhere:
            async with stdio_client(StdioServerParameters(command=command, args=args, env=env), errlog=nowhere) as found:
                yield found
    elif address.startswith("ws:"):
        async with websocket_client(address) as found:
            yield found
    elif address.endswith("/sse"):
        async with sse_client(address) as found:
            yield found
    else:
        async with streamablehttp_client(address) as (read, write, _):
            yield read, write


async def directly(peer, offered):
    with anyio.fail_after(90):
        async with streams(peer) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            offered[peer["id"]] = sorted(tool.name for tool in (await session.list_tools()).tools)


@contextlib.asynccontextmanager
async def through():
    headers = {"Authorization": f"Bearer {context['directKey']}"}
    async with streamablehttp_client(f"{context['url']}/mcp", headers=headers) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def merged():
    async with through() as session:
        found, cursor = [], None
        while True:
            page = await session.list_tools(cursor)
            found += [tool.name for tool in page.tools]
            cursor = page.nextCursor
            if not cursor:
                return found


def status():
    return {backend["id"]: backend for backend in json.loads(gateway.cli("status", "--json"))["servers"]}


with check(f"{len(peers)} healthy servers are ready, beside {len(sick)} sick ones"):
    until("all ready", lambda: all(status()[id]["state"] == "ready" for id in peers), 180)
    print(f"# ready {time.monotonic() - context['started']:.1f} s after the start of the gateway", flush=True)
offered = {}
with check("each healthy server answers without the gateway too"):
    for peer in peers.values():
        if not peer["like"]:
            anyio.run(directly, peer, offered)
    offered |= {id: offered[peer["like"]] for id, peer in peers.items() if peer["like"]}
with check("every tool of every one is listed, and no other"):
    expected = sorted(f"{id}__{name}" for id, names in offered.items() for name in names)
    until("all tools", lambda: len(anyio.run(merged)) >= len(expected))
    equal(sorted(anyio.run(merged)), expected)
    print(f"# {len(expected)} tools of {len(offered)} servers", flush=True)
with check("the list comes at once, whatever the sick ones do"):
    began = time.monotonic()
    anyio.run(merged)
    took = time.monotonic() - began
    print(f"# a session and the whole list in {took:.2f} s", flush=True)
    assert took < 10, took
for id, words in sick.items():
    with check(f"{id}: `status` tells why"):
        def told():
            text = json.dumps(status()[id])
            return text if any(word in text for word in words) else None

        until(f"one of {words} in {json.dumps(status()[id])}", told, 60)
with check("a tool of many servers works, each beside the others"):

    async def together():
        asked = [(f"{id}__echo", {"message": id}) for id, names in offered.items() if "echo" in names and id.startswith("everything")]
        asked += [(f"{id}__get_current_time", {"timezone": "Etc/UTC"}) for id, names in offered.items() if "get_current_time" in names]
        asked += [(f"{id}__list_directory", {"path": context["work"] + "/files"}) for id in ("filesystem", "filesystem-0-5-1")]
        failed = []
        async with through() as session:

            async def one(name, arguments):
                try:
                    result = await session.call_tool(name, arguments)
                    if result.isError:
                        failed.append((name, result.content))
                except McpError as error:
                    failed.append((name, str(error)))

            async with anyio.create_task_group() as group:
                for name, arguments in asked:
                    group.start_soon(one, name, arguments)
        equal(failed, [])
        print(f"# {len(asked)} calls at once", flush=True)

    anyio.run(together)
finish()
