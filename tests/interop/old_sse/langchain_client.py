"""LangChain's MCP adapters, which open a session for each call."""

import contextlib

import frame
from langchain_mcp_adapters.client import MultiServerMCPClient

options, person = {}, None
if frame.WAY == "login":
    import login

    person = login.Person()
    options = {"auth": login.provider(person)}


@contextlib.asynccontextmanager
async def connected():
    client = MultiServerMCPClient({"gateway": {"transport": "sse", "url": frame.URL, "headers": frame.HEADERS, **options}})
    [tool] = [found for found in await client.get_tools() if found.name == frame.TOOL]

    async def call(text):
        found = await tool.ainvoke({"text": text})
        return found if isinstance(found, str) else found[0]["text"]

    yield call


frame.serve(connected, lambda: person.logins if person else 0)
