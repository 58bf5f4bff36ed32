"""Attacks with whole requests and without a right credential: authorize, register, token, revoke, wrong keys, discovery."""

import asyncio
import secrets
import urllib.parse

import mcp
import walk
from attack import Flood, plain
from http1 import Gone
from login import CALLBACK, FORM, Browser, authorization, registration

JSON = {"Content-Type": "application/json"}


def form(context, source, path, **values):
    return plain(context, source, "POST", path, {"Content-Type": FORM}, urllib.parse.urlencode(values).encode())


class Authorize(Flood):
    name, what, rate = "authorize", "authorization requests that nobody continues; more than 10,240", 1500
    seconds = 8

    def request(self, context, source, number):
        return plain(context, source, "GET", authorization(context.credentials["client"], "v" * 50), {"Accept": "text/html"})


class LoginPages(Flood):
    name, what, rate = "login-pages", "login pages that nobody continues", 500
    short = ("network", "many")

    def request(self, context, source, number):
        return plain(context, source, "GET", "/login", {"Accept": "text/html"})


class Register(Flood):
    name, what, rate, disk = "register", "registrations, each of a different client; more than 6,000", 1000, 24
    # up to 6,400 at once
    connections, depth, seconds = 64, 100, 7

    def request(self, context, source, number):
        return plain(context, source, "POST", "/oauth/register", JSON, registration(f"Flood {secrets.token_hex(6)}"))


class Token(Flood):
    name, what, rate = "token", "token requests with wrong codes, refresh tokens, clients and secrets", 500

    def request(self, context, source, number):
        known, wrong = context.credentials["client"], secrets.token_urlsafe(32)
        kinds = (
            {"client_id": known, "grant_type": "authorization_code", "code": wrong, "code_verifier": "v" * 50, "redirect_uri": CALLBACK},
            {"client_id": known, "grant_type": "refresh_token", "refresh_token": wrong},
            {"client_id": wrong[:22], "grant_type": "authorization_code", "code": wrong, "code_verifier": "v" * 50},
            {"client_id": known, "client_secret": wrong, "grant_type": "refresh_token", "refresh_token": wrong},
        )
        return form(context, source, "/oauth/token", **kinds[number % len(kinds)])


class Revoke(Flood):
    name, what, rate = "revoke", "revocations of tokens that do not exist", 500
    short = ("network", "one")

    def request(self, context, source, number):
        return form(context, source, "/oauth/revoke", client_id=context.credentials["client"], token=secrets.token_urlsafe(32))


class WrongBearers(Flood):
    name, what, rate = "wrong-bearers", "calls with wrong keys and tokens, also with the id of the right key", 500
    short = ("proxy", "one")
    shared_address = True

    def request(self, context, source, number):
        secret, check = secrets.token_urlsafe(32)[:43].replace("-", "a").replace("_", "b"), secrets.token_hex(3)
        right = context.credentials["key"].split("_")
        kinds = (
            f"lkk_{right[1]}_{secret}_{right[3]}",
            f"lkk_{secrets.token_hex(4)}_{secret}_{check}",
            f"lkk_{secret}",
            f"eyJhbGciOiJFUzI1NiJ9.{secrets.token_urlsafe(90)}.{secrets.token_urlsafe(64)}",
        )
        return plain(context, source, "POST", mcp.PATH, mcp.headers(kinds[number % len(kinds)]), mcp.initialize())


class WrongLogins(Flood):
    name, what, rate = "wrong-logins", "wrong keys at the login page, as a browser sends them", 100
    short = ("proxy", "one")
    shared_address = True

    async def run(self, context):
        """Each connection has a browser of its own, which continues with the page that refused it."""
        turns = asyncio.Queue()
        tasks = [asyncio.ensure_future(self.browse(context, number, turns)) for number in range(self.connections)]
        async for number in context.paced():
            if turns.qsize() < self.connections:
                turns.put_nowait(number)
            else:
                context.outcomes["skipped"] += 1
        for task in tasks:
            task.cancel()

    async def browse(self, context, own, turns):
        browser, form = Browser(context.target, context.source(own), 5), None
        while True:
            number = await turns.get()
            browser.source = context.source(number if context.kind == "proxy" else own)
            context.sent += 1
            try:
                form = await self.guess(context, browser, form)
            except (Gone, OSError):
                context.outcomes["no answer"] += 1

    async def guess(self, context, browser, form):
        """Sends a wrong key with a form; the form of the answer."""
        if form is None:
            answer = await browser.send("/login")
        else:
            answer = await browser.send("/login", [*form.values, (form.password, "lkk_" + secrets.token_urlsafe(32))])
        context.outcomes[str(answer.status)] += 1
        form, _ = walk.choose(walk.page(answer.text))
        return form if form and form.password else None


class Discovery(Flood):
    name, what, rate = "discovery", "metadata documents, signing keys, pages, and paths that do not exist", 1000
    paths = (
        "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration",
        "/oauth/jwks", "/.well-known/oauth-protected-resource/mcp/nothing", "/", "/nothing", "/mcp", "/healthz",
    )

    def request(self, context, source, number):
        return plain(context, source, "GET", self.paths[number % len(self.paths)])


ATTACKS = (Authorize, LoginPages, Register, Token, Revoke, WrongBearers, WrongLogins, Discovery)
