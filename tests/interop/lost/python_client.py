"""The Python SDK, on the release of the interpreter: `python_client.py TRANSPORT ERA`.

TRANSPORT is `http` or `sse`. ERA is `classic` for the class `ClientSession`, which 1.x and 2.x have, or `modern` for the class
`Client` of 2.x with 2026-07-28. There an application listens for changes, and listens again after it lost that stream.
"""

import contextlib
import sys
from datetime import timedelta

import anyio
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

try:
    import httpx2 as httpx
except ImportError:
    import httpx

from program import BASE, HEADERS, serve

TRANSPORT, ERA = sys.argv[1:]
CHANGED = "notifications/tools/list_changed"
# 1.x takes a timedelta where 2.x takes seconds
FIRST = httpx.__name__ == "httpx"
HTTP_SECONDS, LISTEN_AGAIN_SECONDS = 300, 1


@contextlib.asynccontextmanager
async def over_http():
    """What opens Streamable HTTP, with bounds as the SDK sets them."""
    bounds = httpx.Timeout(30, read=HTTP_SECONDS)
    async with httpx.AsyncClient(headers=HEADERS, timeout=bounds, follow_redirects=True) as http:
        yield streamable_http_client(f"{BASE}/mcp", http_client=http)


@contextlib.asynccontextmanager
async def streams():
    """The two streams of messages; what 1.x gives beside them is left out."""
    if TRANSPORT == "sse":
        async with sse_client(f"{BASE}/sse", headers=HEADERS) as found:
            yield found[:2]
        return
    async with over_http() as transport, transport as found:
        yield found[:2]


def calls(target):
    """The function that calls a tool, as an application does."""

    async def noted(*_):
        pass

    async def call(name, arguments, timeout=None, abort=None, progress=False):
        options = {"progress_callback": noted} if progress else {}
        if timeout:
            options["read_timeout_seconds"] = timedelta(seconds=timeout) if FIRST else timeout
        with anyio.move_on_after(abort) as scope:
            return (await target.call_tool(name, arguments, **options)).content[0].text
        assert scope.cancelled_caught
        raise RuntimeError("stopped")

    return call


@contextlib.asynccontextmanager
async def classic(heard):
    async def told(message):
        heard.changes += getattr(getattr(message, "root", message), "method", None) == CHANGED

    async with streams() as (read, write):
        async with ClientSession(read, write, message_handler=told) as session:
            await session.initialize()
            yield calls(session)


async def listen(client, heard):
    """Listens for as long as the client lives."""
    while True:
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    heard.changes += 1
        await anyio.sleep(LISTEN_AGAIN_SECONDS)


@contextlib.asynccontextmanager
async def modern(heard):
    from mcp import Client

    async with over_http() as transport, Client(transport, mode="auto") as client:
        if client.protocol_version != "2026-07-28":
            raise AssertionError(client.protocol_version)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, client, heard)
            yield calls(client)
            tasks.cancel_scope.cancel()


serve({"classic": classic, "modern": modern}[ERA])
