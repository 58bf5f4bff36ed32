"""The Python SDK over Streamable HTTP with its own OAuth provider. Serves 1.x and 2.x alike."""

import anyio
import httpx
import leaks
from case import check, contains, context, equal, finish, walk
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata
from urllib.parse import parse_qs, urlsplit

CALLBACK = "http://127.0.0.1:7778/callback"


class Memory(TokenStorage):
    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        leaks.record(tokens.access_token, tokens.refresh_token)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


class Person:
    """Opens the authorization URL and comes back with the code."""

    def __init__(self):
        self.logins = 0

    async def redirect(self, url):
        self.logins += 1
        self.end = await anyio.to_thread.run_sync(walk, url)

    async def callback(self):
        given = parse_qs(urlsplit(self.end).query)
        return given["code"][0], given.get("state", [None])[0]


def provider(storage, person):
    metadata = OAuthClientMetadata(
        client_name="Interop Python", redirect_uris=[CALLBACK], token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )
    return OAuthClientProvider(f"{context['url']}/mcp", metadata, storage, person.redirect, person.callback)




async def main():
    storage, person = Memory(), Person()
    async with streamablehttp_client(f"{context['url']}/mcp", auth=provider(storage, person)) as (read, write, _):
        async with ClientSession(read, write) as session:
            with check("the Python client registers, logs in through the browser, and connects"):
                hello = await session.initialize()
                equal(hello.protocolVersion, "2025-11-25")
                equal(person.logins, 1)
            await use(session)
    with check("a second visit with the stored tokens needs no login"):
        async with streamablehttp_client(f"{context['url']}/mcp", auth=provider(storage, person)) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                await session.list_tools()
        equal(person.logins, 1)
    with check("the refresh token buys a new access token by hand, and works once"):
        await refresh(storage)


async def use(session):
    with check("the Python client lists every server's tools"):
        names = {tool.name for tool in (await session.list_tools()).tools}
        for name in ("everything__echo", "time__convert_time", "git__git_log", "memory__read_graph"):
            contains(names, name)
    with check("a tool answers the Python client"):
        result = await session.call_tool("everything__echo", {"message": "hoi"})
        equal(result.content[0].text, "Echo: hoi")
    with check("progress reaches the Python client"):
        steps = []

        async def progress(done, total, message):
            steps.append((done, total))

        await session.call_tool(
            "everything__trigger-long-running-operation", {"duration": 0.6, "steps": 3}, progress_callback=progress,
        )
        equal(steps, [(1, 3), (2, 3), (3, 3)])
    with check("the Python client reads a resource and a prompt"):
        listed = (await session.list_resources()).resources
        uri = next(entry.uri for entry in listed if str(entry.uri).startswith("everything+"))
        equal(str((await session.read_resource(uri)).contents[0].uri), str(uri))
        prompt = await session.get_prompt("everything__simple-prompt")
        equal(prompt.messages[0].role, "user")


async def refresh(storage):
    form = {
        "grant_type": "refresh_token", "refresh_token": storage.tokens.refresh_token,
        "client_id": storage.client.client_id, "resource": f"{context['url']}/mcp",
    }
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{context['url']}/oauth/token", data=form)
        equal(answer.status_code, 200)
        assert answer.json()["refresh_token"] != form["refresh_token"], "not rotated"
        equal(answer.headers["cache-control"], "no-store")


anyio.run(main)
finish()
