"""The Python SDK's client of HTTP+SSE, on the release of the interpreter."""

import contextlib

import frame
from mcp import ClientSession
from mcp.client.sse import sse_client

options, person = {}, None
if frame.WAY == "login":
    import login

    person = login.Person()
    # one provider for all connections of a program, as in the SDK's examples: it alone knows when its token expires
    options = {"auth": login.provider(person)}


@contextlib.asynccontextmanager
async def connected():
    async with sse_client(frame.URL, headers=frame.HEADERS, **options) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()

            async def call(text):
                return (await session.call_tool(frame.TOOL, {"text": text})).content[0].text

            yield call


frame.serve(connected, lambda: person.logins if person else 0)
