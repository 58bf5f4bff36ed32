"""Login at a real OpenID provider: a person who has no API key connects an app, logs out at the provider, and leaves it."""

import base64
import hashlib
import json
import os
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

from case import HARNESS, check, contains, context, equal, finish, until
from gateway import Gateway, free_port
from walk import Browser, page, summary
from wire import Wire

CALLBACK = "http://127.0.0.1:7777/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

config = Path(context["work"]) / "provider_login.toml"
gateway = Gateway.alone(context, "provider_login", config)
port = free_port()
issuer = f"http://localhost:{port}"
config.write_text(
    f"""
[servers.demo]
builtin = "demo"
[servers.notes]
builtin = "demo"
[login.corp]
issuer = "{issuer}"
client_id = "lockkeeper"
client_secret = "a secret: + and %"
label = "Example Corp"
domains = ["example.com"]
trust = "1m"
[login.corp.rights.staff]
groups = ["staff"]
servers = ["demo"]
[login.corp.rights.writers]
groups = ["writers"]
servers = ["notes"]
"""
)
provider = subprocess.Popen(
    ["node", HARNESS / "openid_provider.mjs", str(port), gateway.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
)
equal(provider.stdout.readline(), "ready\n")
gateway.start()
gateway.ready()


def post(url, form, as_json=False):
    kind = "application/json" if as_json else "application/x-www-form-urlencoded"
    data = json.dumps(form) if as_json else urllib.parse.urlencode(form)
    with urllib.request.urlopen(urllib.request.Request(url, data.encode(), {"Content-Type": kind}), timeout=20) as response:
        return json.load(response)


def press(browser, url, form, name):
    """Fills the form in as this person and presses its button."""
    values = [(field, name if field == "login" else value) for field, value in form.values]
    if form.password and not url.startswith(gateway.url):
        values.append((form.password, "any"))
    button = form.buttons[0] if form.buttons else None
    if button and button.name:
        values.append((button.name, button.value))
    return urllib.parse.urljoin(url, form.action), values


def walk(browser, url, name):
    """Walks from an authorization request to the redirect to the app, or to a page without a way on: URL and text."""
    form, seen = None, []
    for _ in range(24):
        status, target, text = browser.send(url, form)
        if target and target.startswith(CALLBACK):
            return target, seen
        if target:
            url, form = target, None
            continue
        seen.append((status, urllib.parse.urlsplit(url).path, text))
        forms = [found for found in page(text) if not found.action.endswith(("/logout", "/abort"))]
        chosen = [found for found in forms if found.action.endswith("/oauth/login/start")] or forms
        if not chosen:
            return url, seen
        url, form = press(browser, url, chosen[0], name)
    raise AssertionError(f"no end, now at {url}: {summary(text)}")


def authorize(client, **more):
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code", "client_id": client, "redirect_uri": CALLBACK, "state": "xyz",
        "code_challenge": challenge, "code_challenge_method": "S256", "resource": f"{gateway.url}/mcp", **more,
    }
    return f"{gateway.url}/oauth/authorize?{urllib.parse.urlencode(asked)}"


def connected(end):
    """The app of whoever approved: the code at the end of the walk is redeemed."""
    contains(end, f"{CALLBACK}?code=")
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(end).query)["code"][0]
    form = {"grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
    wire = Wire(f"{gateway.url}/mcp", post(f"{gateway.url}/oauth/token", form)["access_token"])
    wire.initialize()
    return wire


def joins(name, **more):
    """The app of a person who logs in for it."""
    return connected(walk(Browser(), authorize(client, **more), name)[0])


def at_provider(command, **query):
    urllib.request.urlopen(f"{issuer}/{command}?{urllib.parse.urlencode(query)}", timeout=20).close()


def opened(name):
    """The servers that the account of a person opens."""
    [rights] = [key["rights"]["servers"] for key in json.loads(gateway.cli("keys", "list", "--json"))["keys"] if key.get("subject") == name]
    return sorted(rights["only"])


def seen_by(wire):
    """The servers whose tools an app sees in a session of its own; an error if it is not let in any more."""
    app = Wire(wire.url.geturl(), wire.token)
    app.initialize()
    tools = app.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[2][-1]["result"]["tools"]
    return sorted({tool["name"].split("__")[0] for tool in tools})


def is_refused(name, heading):
    """Whoever comes to log in is told so by a page of the gateway."""
    status, path, text = walk(Browser(), authorize(client), name)[1][-1]
    equal((status, path), (403, "/oauth/login/callback/corp"))
    contains(text, heading)


class Counting(threading.Thread):
    """A call of a minute, what comes of it, and whether it has ended."""

    def __init__(self, wire, tool):
        super().__init__(daemon=True)
        self.stream, self.events, self.ended = wire.open(7, tool, {"from": 60}), [], False
        self.events.append(self.stream.next_event())
        self.start()

    def run(self):
        self.events += iter(self.stream.next_event, "")
        self.ended = True


def works(wire):
    status = wire.post({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})[0]
    assert status in (200, 401), status
    return status == 200


client = post(f"{gateway.url}/oauth/register", {"client_name": "Rover", "redirect_uris": [CALLBACK]}, as_json=True)["client_id"]
browser, wire = Browser(), None
with check("a person logs in at the provider, and the app gets its code after the gateway's own consent"):
    end, seen = walk(browser, authorize(client), "ann")
    consent = next(text for _, path, text in seen if path.startswith("/oauth/consent/"))
    contains(consent, "Rover")
    contains(consent, "ann@example.com")
    wire = connected(end)
with check("`keys list` shows the account and the provider"):
    [account] = [key for key in json.loads(gateway.cli("keys", "list", "--json"))["keys"] if key["kind"] == "login"]
    equal((account["name"], account["issuer"], account["subject"]), ("ann@example.com", issuer, "ann"))
with check("a person whose address is not verified is told so by a page, and no account is made"):
    end, seen = walk(Browser(), authorize(client), "mallory")
    status, _, text = seen[-1]
    equal(status, 403)
    contains(text, "Your account has no access here")
    equal(len(json.loads(gateway.cli("keys", "list", "--json"))["keys"]), 1)
with check("a logout at the provider ends the app's access and the browser's login at the gateway"):
    url = f"{issuer}/session/end"
    status, _, text = browser.send(url)
    [form] = page(text)
    browser.send(urllib.parse.urljoin(url, form.action), [*form.values, ("logout", "yes")])
    until("the token ends", lambda: not works(wire))
    equal(browser.send(f"{gateway.url}/account")[1], f"{gateway.url}/login")
if Path("/usr/bin/chromium").exists():
    with check("a browser with the provider on another site goes through all of it"):
        walked = [HARNESS / "provider_browser.mjs", gateway.url, issuer, authorize(client)]
        equal(subprocess.run(["node", *map(str, walked)], timeout=300).returncode, 0)
# the people of the checks that follow, each with an app; whoever is of no listed domain is let in by groups
groups = {"fay@partner.example": "staff,writers", "gil@partner.example": "staff", "hal@partner.example": "staff", "ida@partner.example": "staff"}
for person, of in groups.items():
    at_provider("groups", name=person, of=of)
dora, dan, eve, fay, gil, hal, ida = (joins(name) for name in ("dora", "dan", "eve", *groups))
narrow = {"fay": joins("fay@partner.example", scope="mcp:notes"), "hal": joins("hal@partner.example", scope="mcp:demo")}
calls = {"fay": Counting(fay, "notes__countdown"), "gil": Counting(gil, "demo__countdown")}
equal([seen_by(app) for app in (fay, gil, hal, narrow["fay"])], [["demo", "notes"], ["demo"], ["demo"], ["notes"]])
at_provider("leave", name="dora")
at_provider("disable", name="dan")
for person, of in zip(groups, ("staff", "", "staff,writers"), strict=False):
    at_provider("groups", name=person, of=of)
at_provider("groups", name="ida@partner.example")
assert all(works(app) for app in (dora, dan, gil)), "the provider is asked at intervals"
with check("who leaves the provider loses the apps at the gateway when the provider is asked next"):
    until("the token ends", lambda: not works(dora))
    contains(gateway.cli("audit", "--event", "grants_revoked"), f'by="provider {issuer}"')
with check("so does who is disabled there, who is not let in meanwhile, and connects anew once enabled again"):
    until("the token ends", lambda: not works(dan))
    is_refused("dan", "You are not logged in")
    at_provider("enable", name="dan")
    assert works(joins("dan")), "the same account is let in again"
    assert not works(dan), "what ended stays ended"
with check("who leaves a group at the provider loses its servers, running calls included, and keeps the app"):
    until("the account opens less", lambda: opened("fay@partner.example") == ["demo"])
    until("the call ends", lambda: calls["fay"].ended, seconds=3)
    assert "Lift-off" not in calls["fay"].events[-1], calls["fay"].events[-1]
    equal(seen_by(fay), ["demo"])
    equal(seen_by(narrow["fay"]), [])
    contains(json.dumps(Wire(f"{gateway.url}/mcp", fay.token).initialize()), "serverInfo")
with check("who is in no group any more loses the apps, and is not let in"):
    until("the token ends", lambda: not works(gil))
    until("the call ends", lambda: calls["gil"].ended, seconds=3)
    is_refused("gil@partner.example", "Your account has no access here")
with check("who joins a group has its servers in connected apps, but for those that chose single servers"):
    until("the account opens more", lambda: opened("hal@partner.example") == ["demo", "notes"])
    until("the app sees them", lambda: seen_by(hal) == ["demo", "notes"], seconds=5)
    equal(seen_by(narrow["hal"]), ["demo"])
with check("what the provider confirms goes on for longer than `trust`, and what it does not say ends; one that is down ends nothing before it is over"):
    begun = time.monotonic()
    while time.monotonic() < begun + 70:
        assert works(eve), f"after {time.monotonic() - begun:.0f} s"
        time.sleep(1)
    assert not works(ida), "an account is not confirmed by an answer that leaves out what let the person in"
    is_refused("ida@partner.example", "Your account has no access here")
    provider.kill()
    provider.wait()
    down = time.monotonic()
    until("the token ends", lambda: not works(eve), seconds=100)
    assert 30 < time.monotonic() - down < 90, f"after {time.monotonic() - down:.0f} s"
with check("the log has no secret of the provider"):
    log = gateway.log_text()
    assert "a secret" not in log and VERIFIER not in log, "a secret is logged"
provider.kill()
gateway.stop()
finish()
