"""An app that an enterprise manages (ID-JAG): the SDKs bring an assertion of the identity provider, and nobody sees a page
(OA-145, UP-15, UP-16)."""

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import anyio
import httpx2
from case import HARNESS, check, context, equal, finish
from gateway import Gateway, free_port
from mcp import Client
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client

config = Path(context["work"]) / "identity_assertions.toml"
gateway = Gateway.alone(context, "identity_assertions", config)
port = free_port()
issuer = f"http://localhost:{port}"
config.write_text(
    f"""
[servers.demo]
builtin = "demo"
[login.corp]
issuer = "{issuer}"
client_id = "lockkeeper"
domains = ["example.com"]
identity_assertions = true
"""
)
provider = subprocess.Popen(["node", HARNESS / "identity_provider.mjs", str(port)], stdout=subprocess.PIPE, text=True)
equal(provider.stdout.readline(), "ready\n")
gateway.start()
gateway.ready()
created = json.loads(gateway.cli("clients", "create", "chat", "--identity-assertions", "--json"))


def connect(secret):
    """The SDK connects: its exit code, and what it prints."""
    given = [gateway.url, issuer, created["id"], secret]
    done = subprocess.run(["node", HARNESS / "managed_client.mjs", *given], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout or done.stderr


class Kept(TokenStorage):
    """Keeps the tokens in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def fetch(path, **form):
    """One answer of the identity provider."""
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(f"{issuer}{path}", body, timeout=20) as response:
        return json.load(response)


async def exchange(audience, resource):
    """The id token of the person for an assertion, as an app does it at the provider."""
    kind = "urn:ietf:params:oauth:token-type:id-jag"
    asked = {"requested_token_type": kind, "audience": audience, "resource": resource, "scope": "mcp:use"}
    return fetch("/token", subject_token=fetch("/id-token")["id_token"], client_id=f"{created['id']}@provider", **asked)["access_token"]


async def python_sdk():
    """What the Python SDK gets, and the names of the tools."""
    url, kept = f"{gateway.url}/mcp", Kept()
    auth = IdentityAssertionOAuthProvider(
        url, kept, created["id"], created["secret"], gateway.url, exchange, token_endpoint_auth_method="client_secret_basic",
    )
    async with httpx2.AsyncClient(auth=auth) as http, Client(streamable_http_client(url, http_client=http)) as client:
        return kept.tokens, [tool.name for tool in (await client.list_tools()).tools]


with check("the Python SDK gets a token for its person without a page, and no refresh token"):
    tokens, tools = anyio.run(python_sdk)
    equal((bool(tools), tokens.refresh_token), (True, None))
with check("the TypeScript SDK gets a token for its person without a page, and no refresh token"):
    code, text = connect(created["secret"])
    equal((code, text if code else ""), (0, ""))
    said = json.loads(text)
    equal(bool(said["tools"]), True)
    equal("refresh_token" in said["tokens"], False)
with check("the person is the account of the provider, and the app is in the list of grants"):
    [account] = [key for key in json.loads(gateway.cli("keys", "list", "--json"))["keys"] if key["kind"] == "login"]
    equal((account["name"], account["subject"]), ("ann@example.com", "ann"))
    [grant] = json.loads(gateway.cli("grants", "list", "--json"))["grants"]
    equal(grant["client_name"], "chat")
with check("another secret gets nothing"):
    equal(connect("another")[0] != 0, True)
provider.kill()
gateway.stop()
finish()
