"""A protected server of the Python SDK, with the SDK's own authorization server: `server.py PORT`. One script for 1.x (sessions)
and 2.x (2026-07-28 too).

Anybody logs in there by writing a name. Each line on standard input is a command, which prints one line of JSON:

    expire     every access token ends
    forget     every token ends, refresh tokens too, as if the account had taken the app's access back
    log        what the authorization server has done since it was last asked
    strangers  how many requests came with tokens that were never issued here
"""

import json
import logging
import secrets
import sys
import threading
import time
import warnings
from html import escape

import leaks
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthToken
from starlette.responses import HTMLResponse, RedirectResponse

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

HOUR = 3600
SCOPE = "notes:read"
PAGE = '<form method="post" action="/login"><input type="hidden" name="request" value="{}"><input name="login"><button>Log in</button></form>'


class Provider:
    """The authorization server's state, in memory."""

    def __init__(self, url):
        self.url, self.log, self.strangers = url, [], 0
        self.clients, self.requests, self.codes, self.access, self.refresh, self.ended = {}, {}, {}, {}, {}, set()

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.log.append("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        request = secrets.token_urlsafe(32)
        self.requests[request] = client, params
        return f"{self.url}/login?request={request}"

    def log_in(self, request, name):
        """The way back to the client, with a code for this person."""
        client, params = self.requests.pop(request)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32), client_id=client.client_id, subject=name, scopes=params.scopes or [SCOPE],
            expires_at=time.time() + HOUR, code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource,
        )
        self.codes[code.code] = code
        leaks.record(code.code)
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        self.codes.pop(authorization_code.code)
        self.log.append(f"code {authorization_code.subject}")
        return self.issue(authorization_code)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        self.refresh.pop(refresh_token.token)
        self.log.append(f"refresh {refresh_token.subject}")
        return self.issue(refresh_token)

    def issue(self, grant):
        """Tokens on a code or a refresh token, for the same person and resource."""
        same = {name: getattr(grant, name) for name in ("client_id", "scopes", "resource", "subject")}
        access = AccessToken(token=secrets.token_urlsafe(32), expires_at=int(time.time()) + HOUR, **same)
        refresh = RefreshToken(token=secrets.token_urlsafe(32), **same)
        self.access[access.token], self.refresh[refresh.token] = access, refresh
        leaks.record(access.token, refresh.token)
        scope = " ".join(access.scopes)
        return OAuthToken(access_token=access.token, refresh_token=refresh.token, expires_in=HOUR, scope=scope)

    async def load_access_token(self, token):
        self.strangers += token not in self.access and token not in self.ended
        return self.access.get(token)

    async def revoke_token(self, token):
        self.log.append(f"revoke {token.subject}")
        self.end(self.access, token.subject)
        self.end(self.refresh, token.subject)

    def end(self, tokens, subject=None):
        """Ends the tokens of one person, or of everybody."""
        for token in [token for token, grant in tokens.items() if subject in (None, grant.subject)]:
            del tokens[token]
            self.ended.add(token)

    def command(self, line):
        """What a command of the case prints."""
        if line == "log":
            log, self.log = self.log, []
            return log
        if line == "strangers":
            return self.strangers
        self.end(self.access)
        if line == "forget":
            self.end(self.refresh)
        return line


def build(url):
    provider = Provider(url)
    auth = AuthSettings(
        issuer_url=url, resource_server_url=f"{url}/mcp", validate_token_resource=True, required_scopes=[SCOPE],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]),
        revocation_options=RevocationOptions(enabled=True),
    )
    server = MCPServer("protected", auth_server_provider=provider, auth=auth, log_level="WARNING")

    @server.tool()
    def whoami() -> str:
        return get_access_token().subject

    @server.custom_route("/login", methods=["GET", "POST"])
    async def login(request):
        if request.method == "GET":
            return HTMLResponse(PAGE.format(escape(request.query_params["request"])))
        form = await request.form()
        return RedirectResponse(provider.log_in(form["request"], form["login"]), 303)

    return provider, server.streamable_http_app()


def main():
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING)
    port = int(sys.argv[1])
    provider, app = build(f"http://127.0.0.1:{port}")
    listening = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=listening.run, daemon=True)
    thread.start()
    while not listening.started and thread.is_alive():
        time.sleep(0.02)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(provider.command(line.strip())), flush=True)


if __name__ == "__main__":
    main()
