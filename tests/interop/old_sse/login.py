"""The login of a client on the Python SDK, with its own OAuth."""

from urllib.parse import parse_qs, urlsplit

import anyio
from case import walk
from frame import URL
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientMetadata

CALLBACK = "http://127.0.0.1:7780/callback"


class Person(TokenStorage):
    """Keeps the tokens, opens the authorization URL, and comes back with the answer."""

    def __init__(self):
        self.tokens = self.client = self.end = None
        self.logins = 0

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info

    async def open(self, url):
        self.logins += 1
        self.end = await anyio.to_thread.run_sync(walk, url)

    async def answer(self):
        given = {name: values[0] for name, values in parse_qs(urlsplit(self.end).query).items()}
        try:
            from mcp.shared.auth import AuthorizationCodeResult
        except ImportError:
            return given["code"], given.get("state")
        # 2.x checks `iss` too, and refuses an answer without
        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


def provider(person):
    metadata = OAuthClientMetadata(
        client_name="Old Python", redirect_uris=[CALLBACK], token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )
    return OAuthClientProvider(URL, metadata, person, person.open, person.answer)
