"""The Python SDK 1.9.4 (2025-03-26): over Streamable HTTP with a direct key, and over HTTP+SSE."""

import anyio
from case import check, contains, context, equal, finish
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client


async def use(session):
    hello = await session.initialize()
    equal(hello.protocolVersion, "2025-03-26")
    contains([tool.name for tool in (await session.list_tools()).tools], "time__convert_time")
    result = await session.call_tool("everything__echo", {"message": "from 2025-03"})
    equal(result.content[0].text, "Echo: from 2025-03")


async def http():
    headers = {"Authorization": f"Bearer {context['directKey']}"}
    async with streamablehttp_client(f"{context['url']}/mcp", headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            await use(session)


async def sse():
    headers = {"Authorization": f"Bearer {context['key']}"}
    async with sse_client(f"{context['url']}/sse", headers=headers) as (read, write):
        async with ClientSession(read, write) as session:
            await use(session)


with check("Python 1.9.4 lists and calls over Streamable HTTP with a direct key"):
    anyio.run(http)
with check("Python 1.9.4 lists and calls over SSE"):
    anyio.run(sse)
finish()
