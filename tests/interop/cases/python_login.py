"""The Python SDK through the life of a login: discovery, registration, the person, calls, a refresh, a revocation, and the new
login that follows. One script for 1.x and 2.x, which differ in how a client is opened. With `clientDocument` in the context it
does not register: that URL is its id."""

import contextlib
import urllib.parse
import urllib.request
from urllib.parse import parse_qs, urlsplit

import anyio
import leaks
import mcp
from case import check, context, equal, finish, walk
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientMetadata

TWO = hasattr(mcp, "Client")
LINE = "2.x" if TWO else "1.x"
IS_KNOWN = "is known by its document" if "clientDocument" in context else "registers"
URL, CALLBACK = f"{context['url']}/mcp", "http://127.0.0.1:7780/callback"


class Person(TokenStorage):
    """Keeps the tokens, opens the authorization URL, and comes back with the answer."""

    def __init__(self):
        self.tokens = self.client = self.end = None
        self.logins = 0

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        leaks.record(tokens.access_token, tokens.refresh_token)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info

    async def open(self, url):
        self.logins += 1
        self.end = await anyio.to_thread.run_sync(walk, url)

    async def answer(self):
        given = {name: values[0] for name, values in parse_qs(urlsplit(self.end).query).items()}
        if not TWO:
            return given["code"], given.get("state")
        # it checks `iss` too, and refuses an answer without
        from mcp.shared.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


def provider(person):
    metadata = OAuthClientMetadata(
        client_name=f"Interop Python {LINE}", redirect_uris=[CALLBACK], token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )
    document = {"client_metadata_url": context["clientDocument"]} if "clientDocument" in context else {}
    return OAuthClientProvider(URL, metadata, person, person.open, person.answer, **document)


@contextlib.asynccontextmanager
async def session(person):
    """A client that is ready for calls."""
    if TWO:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async with httpx2.AsyncClient(auth=provider(person), timeout=60) as http:
            async with mcp.Client(streamable_http_client(URL, http_client=http)) as client:
                yield client
        return
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL, auth=provider(person)) as (read, write, _):
        async with mcp.ClientSession(read, write) as client:
            await client.initialize()
            yield client


async def visit(person):
    with anyio.fail_after(120):
        async with session(person) as client:
            equal((await client.call_tool("everything__echo", {"message": LINE})).content[0].text, f"Echo: {LINE}")


def revoke(person):
    form = urllib.parse.urlencode({"token": person.tokens.refresh_token, "client_id": person.client.client_id}).encode()
    equal(urllib.request.urlopen(f"{context['url']}/oauth/revoke", form, timeout=20).status, 200)


person = Person()
with check(f"Python {LINE} {IS_KNOWN}, logs in through the browser, and calls"):
    anyio.run(visit, person)
    equal(person.logins, 1)
with check(f"Python {LINE} comes back with what it kept, without a person"):
    anyio.run(visit, person)
    equal(person.logins, 1)
with check(f"Python {LINE} goes on with tokens that were refreshed beside it"):
    before = person.tokens.refresh_token
    form = {"grant_type": "refresh_token", "refresh_token": before, "client_id": person.client.client_id, "resource": URL}
    with urllib.request.urlopen(f"{context['url']}/oauth/token", urllib.parse.urlencode(form).encode(), timeout=20) as answer:
        person.tokens = type(person.tokens).model_validate_json(answer.read())
    leaks.record(person.tokens.access_token, person.tokens.refresh_token)
    assert person.tokens.refresh_token != before, "not rotated"
    anyio.run(visit, person)
    equal(person.logins, 1)
with check(f"Python {LINE} logs in again after its grant was revoked"):
    revoke(person)
    anyio.run(visit, person)
    equal(person.logins, 2)
finish()
