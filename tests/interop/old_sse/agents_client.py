"""The OpenAI Agents SDK's client of HTTP+SSE."""

import contextlib

import frame
from agents.mcp import MCPServerSse

options, person = {}, None
if frame.WAY == "login":
    import login

    person = login.Person()
    options = {"auth": login.provider(person)}


@contextlib.asynccontextmanager
async def connected():
    # its own bound of five seconds is for an answer; a login takes longer on a busy machine
    async with MCPServerSse({"url": frame.URL, "headers": frame.HEADERS, **options}, client_session_timeout_seconds=frame.SECONDS) as server:

        async def call(text):
            return (await server.call_tool(frame.TOOL, {"text": text})).content[0].text

        yield call


frame.serve(connected, lambda: person.logins if person else 0)
