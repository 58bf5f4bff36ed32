"""A client of the Python SDK of the interpreter, for a server that asks each user for a login: `client.py URL KEY`.

Each line on standard input is a command, which prints one line of JSON:

    list          the names of the tools
    call NAME     the text of the answer, or the page that the user has to visit first, by the means of the version

Where the SDK goes on with a call after the page, the next line says that the user was there.
"""

import contextlib
import json
import re
import sys

import anyio
import mcp
import mcp.types as types

TWO = hasattr(mcp, "Client")
URL, KEY = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {KEY}"}
IN_WORDS = re.compile(r"https?://\S+/connect/\S+")


async def line():
    return (await anyio.to_thread.run_sync(sys.stdin.readline)).strip()


def say(value):
    print(json.dumps(value), flush=True)


async def show_page(_, params):
    """2026-07-28: the question of the call, which goes on by itself."""
    say({"page": params.url, "by": "input_required"})
    await line()
    return types.ElicitResult(action="accept")


@contextlib.asynccontextmanager
async def session():
    if TWO:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
            async with mcp.Client(streamable_http_client(URL, http_client=http), elicitation_callback=show_page) as client:
                yield client, client.protocol_version
        return
    from mcp.client.streamable_http import streamablehttp_client

    # 1.22 knows no pages, and must not say that it does
    pages = {"elicitation_callback": show_page} if hasattr(mcp, "UrlElicitationRequiredError") else {}
    async with streamablehttp_client(URL, headers=HEADERS) as (read, write, _):
        async with mcp.ClientSession(read, write, **pages) as client:
            yield client, (await client.initialize()).protocolVersion


async def call(client, name):
    try:
        result = await client.call_tool(name, {})
    except Exception as error:
        # 2025-11-25: an error with the page
        if getattr(getattr(error, "error", None), "code", None) != -32042:
            raise
        [elicitation] = mcp.UrlElicitationRequiredError.from_error(error.error).elicitations
        return {"page": elicitation.url, "by": "-32042"}
    text = result.content[0].text
    page = IN_WORDS.search(text)
    return {"page": page[0], "by": "words"} if page else {"text": text}


async def main():
    async with session() as (client, version):
        say(version)
        while command := await line():
            kind, _, name = command.partition(" ")
            if kind == "list":
                say(sorted(tool.name for tool in (await client.list_tools()).tools))
            else:
                say(await call(client, name))


anyio.run(main)
