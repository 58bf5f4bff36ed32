"""Login at a real OpenID provider: a person who has no API key connects an app, logs out at the provider, and leaves it."""

import base64
import hashlib
import json
import os
import subprocess
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
[login.corp]
issuer = "{issuer}"
client_id = "lockkeeper"
client_secret = "a secret: + and %"
label = "Example Corp"
domains = ["example.com"]
trust = "1m"
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


def authorize(client):
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code", "client_id": client, "redirect_uri": CALLBACK, "state": "xyz",
        "code_challenge": challenge, "code_challenge_method": "S256", "resource": f"{gateway.url}/mcp",
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
    [account] = [key for key in json.loads(gateway.cli("keys", "list", "--json")) if key["kind"] == "login"]
    equal((account["name"], account["issuer"], account["subject"]), ("ann@example.com", issuer, "ann"))
with check("a person whose address is not verified is told so by a page, and no account is made"):
    end, seen = walk(Browser(), authorize(client), "mallory")
    status, _, text = seen[-1]
    equal(status, 403)
    contains(text, "Your account has no access here")
    equal(len(json.loads(gateway.cli("keys", "list", "--json"))), 1)
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
with check("who leaves the provider loses the apps at the gateway when the provider is asked next"):
    leaver, other = (connected(walk(Browser(), authorize(client), name)[0]) for name in ("dora", "eve"))
    urllib.request.urlopen(f"{issuer}/leave?name=dora").close()
    assert works(leaver), "it is asked at intervals"
    until("the token ends", lambda: not works(leaver))
    contains(gateway.cli("audit", "--event", "grants_revoked"), f'by="provider {issuer}"')
with check("what the provider confirms goes on for longer than `trust`; one that is down ends nothing before it is over"):
    begun = time.monotonic()
    while time.monotonic() < begun + 70:
        assert works(other), f"after {time.monotonic() - begun:.0f} s"
        time.sleep(1)
    provider.kill()
    provider.wait()
    down = time.monotonic()
    until("the token ends", lambda: not works(other), seconds=100)
    assert 30 < time.monotonic() - down < 90, f"after {time.monotonic() - down:.0f} s"
with check("the log has no secret of the provider"):
    log = gateway.log_text()
    assert "a secret" not in log and VERIFIER not in log, "a secret is logged"
provider.kill()
gateway.stop()
finish()
