"""An OAuth client and its user's browser: register, authorize, log in, consent, token, refresh, revoke.

Each step raises Refused if the gateway does not do what it is asked. Knows HTML forms, and nothing of how the pages look.
"""

import base64
import hashlib
import json
import secrets
import urllib.parse

import walk
from http1 import Connection, Gone, fetch, request
from sources import PUBLIC

CALLBACK = "http://127.0.0.1:7779/callback"
ORIGIN = f"https://{PUBLIC}"
FORM = "application/x-www-form-urlencoded"
MOST_PAGES = 8


class Refused(Exception):
    """The gateway refused a step."""

    def __init__(self, what, answer):
        super().__init__(f"{what}: {answer.status} {walk.summary(answer.text)[:160]}")
        self.status = answer.status


def registration(name):
    return json.dumps({"client_name": name, "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}).encode()


def authorization(client, verifier):
    """The path and query of an authorization request."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code", "client_id": client, "redirect_uri": CALLBACK, "state": "s7",
        "code_challenge": challenge, "code_challenge_method": "S256", "resource": f"{ORIGIN}/mcp",
    }
    return f"/oauth/authorize?{urllib.parse.urlencode(query)}"


class Browser:
    """A browser with one keep-alive connection, opened again if the server closed it, and cookies."""

    def __init__(self, target, source, seconds=20):
        self.target, self.source, self.seconds = target, source, seconds
        self.cookies, self.connection = {}, None

    async def send(self, path, form=None):
        headers = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = b""
        if form is not None:
            headers |= {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin", "Content-Type": FORM}
            body = urllib.parse.urlencode(form).encode()
        verb = "GET" if form is None else "POST"
        message = request(self.target, self.source, verb, path, headers, body)
        if self.connection is None or self.connection.closed:
            self.connection = await Connection.open(self.target, self.source, self.seconds)
        answer = await self.connection.ask(message, self.seconds)
        self.keep_cookies(answer)
        return answer

    def keep_cookies(self, answer):
        for line in answer.head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "set-cookie":
                cookie, _, content = value.strip().split(";")[0].partition("=")
                self.cookies[cookie] = content

    def close(self):
        if self.connection:
            self.connection.close()

    async def approve(self, path, key):
        """Logs in and approves an authorization request; the query of the redirect to the client."""
        form, logins = None, 0
        for _ in range(MOST_PAGES):
            answer = await self.send(path, form)
            goal = answer.headers.get("location")
            if goal:
                if goal.startswith(CALLBACK):
                    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(goal).query))
                path, form = goal.removeprefix(ORIGIN), None
                continue
            chosen, button = walk.choose(walk.page(answer.text))
            if chosen is None or answer.status != 200:
                raise Refused("authorize", answer)
            form = list(chosen.values)
            if chosen.password:
                logins += 1
                if logins > 1:
                    raise Refused("login", answer)
                form.append((chosen.password, key))
            if button and button.name:
                form.append((button.name, button.value))
            path = chosen.action.removeprefix(ORIGIN) or path
        raise Gone(f"no end after {MOST_PAGES} pages")


class App:
    """An OAuth client. Keeps its client id, and no token."""

    def __init__(self, target, source, client=None):
        self.target, self.source, self.client = target, source, client

    async def register(self):
        headers = {"Content-Type": "application/json"}
        answer = await fetch(self.target, self.source, "POST", "/oauth/register", headers, registration(f"App {secrets.token_hex(6)}"))
        if answer.status != 201:
            raise Refused("register", answer)
        self.client = json.loads(answer.body)["client_id"]
        return self.client

    async def code(self, key):
        """A code of an approved request, and its verifier."""
        verifier, browser = secrets.token_urlsafe(48), Browser(self.target, self.source)
        try:
            return (await browser.approve(authorization(self.client, verifier), key))["code"], verifier
        finally:
            browser.close()

    async def token(self, **form):
        answer = await self.post("/oauth/token", **form)
        if answer.status != 200:
            raise Refused("token", answer)
        return json.loads(answer.body)

    async def redeem(self, code, verifier):
        return await self.token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK, code_verifier=verifier)

    async def refresh(self, token):
        return await self.token(grant_type="refresh_token", refresh_token=token)

    async def revoke(self, token):
        answer = await self.post("/oauth/revoke", token=token)
        if answer.status != 200:
            raise Refused("revoke", answer)

    async def post(self, path, **form):
        body = urllib.parse.urlencode({"client_id": self.client, **form}).encode()
        return await fetch(self.target, self.source, "POST", path, {"Content-Type": FORM}, body)
