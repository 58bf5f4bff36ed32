"""Login at a real OpenID provider: a person who has no API key connects an app, and logs out at the provider."""

import base64
import hashlib
import json
import os
import subprocess
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


client = post(f"{gateway.url}/oauth/register", {"client_name": "Rover", "redirect_uris": [CALLBACK]}, as_json=True)["client_id"]
browser, wire = Browser(), None
with check("a person logs in at the provider, and the app gets its code after the gateway's own consent"):
    end, seen = walk(browser, authorize(client), "ann")
    contains(end, f"{CALLBACK}?code=")
    consent = next(text for _, path, text in seen if path.startswith("/oauth/consent/"))
    contains(consent, "Rover")
    contains(consent, "ann@example.com")
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(end).query)["code"][0]
    form = {"grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
    token = post(f"{gateway.url}/oauth/token", form)["access_token"]
    wire = Wire(f"{gateway.url}/mcp", token)
    wire.initialize()
with check("`keys list` shows the account and the provider"):
    [account] = [key for key in json.loads(gateway.cli("keys", "list", "--json")) if key["kind"] == "login"]
    equal((account["name"], account["issuer"], account["subject"]), ("ann@example.com", issuer, "ann"))
with check("a person whose address is not verified is told so by a page, and no account is made"):
    end, seen = walk(Browser(), authorize(client), "mallory")
    status, _, text = seen[-1]
    equal(status, 403)
    contains(text, "Your account has no access here")
    equal(len(json.loads(gateway.cli("keys", "list", "--json"))), 2)
with check("a logout at the provider ends the app's access and the browser's login at the gateway"):
    url = f"{issuer}/session/end"
    status, _, text = browser.send(url)
    [form] = page(text)
    browser.send(urllib.parse.urljoin(url, form.action), [*form.values, ("logout", "yes")])
    request = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
    until("the token ends", lambda: wire.post(request)[0] == 401)
    equal(browser.send(f"{gateway.url}/account")[1], f"{gateway.url}/login")
if Path("/usr/bin/chromium").exists():
    with check("a browser with the provider on another site goes through all of it"):
        walked = [HARNESS / "provider_browser.mjs", gateway.url, issuer, authorize(client)]
        equal(subprocess.run(["node", *map(str, walked)], timeout=300).returncode, 0)
with check("the log has no secret of the provider"):
    log = gateway.log_text()
    assert "a secret" not in log and VERIFIER not in log, "a secret is logged"
provider.kill()
gateway.stop()
finish()
