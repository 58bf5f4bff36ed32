"""The Python SDK over HTTP+SSE with an API key, by header and in the URL."""

import anyio
from case import check, contains, context, equal, finish
from mcp import ClientSession
from mcp.client.sse import sse_client

BEARER = {"Authorization": f"Bearer {context['key']}"}
WAYS = {
    "the key as bearer": ("/sse", BEARER),
    "the key in the URL": (f"/sse?api_key={context['key']}", None),
}


async def visit(path, headers):
    # A refused message is only logged by this client, which then waits without end.
    with anyio.fail_after(120):
        async with sse_client(context["url"] + path, headers=headers) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                contains([tool.name for tool in (await session.list_tools()).tools], "everything__echo")
                result = await session.call_tool("everything__echo", {"message": "over SSE"})
                equal(result.content[0].text, "Echo: over SSE")


for way, (path, headers) in WAYS.items():
    with check(f"the Python client lists and calls over SSE with {way}"):
        anyio.run(visit, path, headers)
finish()
