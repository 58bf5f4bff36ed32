"""The Python SDK 2.x (dual-era): of 2026-07-28 where the gateway is asked for it, and of 2025-11-25 where it is not.

As a client of 2026-07-28 it meets servers that have sessions and ask in mid-call.
"""

import contextlib
import os
import sys

import anyio
import httpx2
import mcp.types as types
from case import check, contains, context, equal, finish
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

HEADERS = {"Authorization": f"Bearer {context['directKey']}"}
LOCAL = StdioServerParameters(command=context["binary"], args=["stdio", "--config", context["config"]], env=dict(os.environ))
# a path of the gateway, or none for a client that starts its own
WAYS = {
    "stdio": ("/mcp/everything", ""),
    "http": ("/mcp/everything-http", ""),
    "merged": ("/mcp", "everything__"),
    "lockkeeper stdio": (None, "everything__"),
}


async def sampling(_, params):
    return types.CreateMessageResult(role="assistant", model="interop", content=types.TextContent(type="text", text="a model answers"))


async def elicitation(_, params):
    return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})


async def roots(_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///interop", name="interop")])


@contextlib.asynccontextmanager
async def reached(path):
    if path is None:
        yield stdio_client(LOCAL, errlog=sys.stderr)
        return
    async with httpx2.AsyncClient(headers=HEADERS, timeout=120) as http:
        yield streamable_http_client(context["url"] + path, http_client=http)


async def visit(path, mode, converse):
    with anyio.fail_after(120):
        async with reached(path) as transport:
            callbacks = {"sampling_callback": sampling, "elicitation_callback": elicitation, "list_roots_callback": roots}
            async with Client(transport, mode=mode, **callbacks) as client:
                await converse(client)


def text(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


def first(version):
    async def converse(client):
        equal(client.protocol_version, version)
        contains([tool.name for tool in (await client.list_tools()).tools], "everything__echo")
        equal(text(await client.call_tool("everything__echo", {"message": version})), f"Echo: {version}")

    return converse


def asked(prefix):
    async def converse(client):
        equal(client.protocol_version, "2026-07-28")
        for _ in range(2):
            contains(text(await client.call_tool(f"{prefix}trigger-sampling-request", {"prompt": "a lock", "maxTokens": 20})), "a model answers")
            contains(text(await client.call_tool(f"{prefix}trigger-elicitation-request", {})), "Ada")

    return converse


def heard(prefix):
    async def converse(client):
        steps = []

        async def progress(step, total, message):
            # the gateway reports the start of a server, and the client announces its answer
            if not message:
                steps.append(step)

        arguments = {"duration": 1, "steps": 4}
        contains(text(await client.call_tool(f"{prefix}trigger-long-running-operation", arguments, progress_callback=progress)), "4")
        # each is handed on by a task of its own
        while len(steps) < 4:
            await anyio.sleep(0.05)
        equal(steps, [1, 2, 3, 4])

    return converse



for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
    with check(f"the Python client 2.x lists and calls in its mode `{mode}`, which is {version}"):
        for path in ("/mcp", None):
            anyio.run(visit, path, mode, first(version))
for way, (path, prefix) in WAYS.items():
    with check(f"{way}: a server with sessions asks the Python client of 2026-07-28 in mid-call"):
        anyio.run(visit, path, "auto", asked(prefix))
    with check(f"{way}: progress of a server with sessions comes to the Python client of 2026-07-28"):
        anyio.run(visit, path, "auto", heard(prefix))
finish()
