"""The Python SDK 2.x (dual-era): asks first whether the gateway is modern, and goes on in 2025-11-25 where it is not."""

import anyio
import httpx2
from case import check, contains, context, equal, finish
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = f"{context['url']}/mcp"


async def visit(mode):
    headers = {"Authorization": f"Bearer {context['directKey']}"}
    with anyio.fail_after(30):
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            async with Client(streamable_http_client(URL, http_client=http), mode=mode) as client:
                contains([tool.name for tool in (await client.list_tools()).tools], "everything__echo")
                result = await client.call_tool("everything__echo", {"message": mode})
                equal(result.content[0].text, f"Echo: {mode}")


for mode in ("auto", "legacy"):
    with check(f"the Python client 2.x lists and calls in its mode `{mode}`"):
        anyio.run(visit, mode)
finish()
