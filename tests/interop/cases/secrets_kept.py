"""A gateway that logs everything, through every way in which a secret reaches it, good and bad: none is in its database, its
log, its metrics or its answers about other people's matters (OA-117, OA-142, N-118)."""

import base64
import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request

import leaks
from case import check, context, equal, finish
from gateway import Gateway
from walk import Stay, walk

CALLBACK = "http://127.0.0.1:7779/callback"
VERIFIER = "a-verifier-of-the-suite-that-nobody-else-uses-at-all"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
OPENER = urllib.request.build_opener(Stay)
issued = {VERIFIER}


def send(method, path, body=None, **headers):
    """Status and text of one exchange."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(gateway.url + path, body and body.encode(), headers, method=method)
    try:
        response = OPENER.open(request, timeout=20)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        stream = "event-stream" in response.headers.get("Content-Type", "")
        return response.status, "" if stream else response.read().decode()


def form(path, basic=None, **fields):
    headers = {"Authorization": f"Basic {base64.b64encode(basic.encode()).decode()}"} if basic else {}
    status, text = send("POST", path, urllib.parse.urlencode(fields), Content_Type="application/x-www-form-urlencoded", **headers)
    return status, json.loads(text or "{}")


def register(method):
    metadata = json.dumps({"client_name": f"Leaks {method}", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": method})
    status, text = send("POST", "/oauth/register", metadata, Content_Type="application/json")
    equal(status, 201)
    client = json.loads(text)
    issued.update(filter(None, [client.get("client_secret")]))
    return client


def authorize(client, **changes):
    query = {
        "response_type": "code", "client_id": client["client_id"], "redirect_uri": CALLBACK, "state": "a-state-of-the-suite",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": f"{gateway.url}/mcp", **changes,
    }
    end = walk(f"{gateway.url}/oauth/authorize?{urllib.parse.urlencode(query)}", key)
    [code] = urllib.parse.parse_qs(urllib.parse.urlsplit(end).query)["code"]
    issued.add(code)
    return code


def whole_flow(method):
    """Login, tokens, calls, refreshes, and the mistakes that carry secrets along."""
    client = register(method)
    secret = client.get("client_secret", "")
    proof = {"client_id": client["client_id"]} if method != "client_secret_basic" else {"basic": f"{client['client_id']}:{secret}"}
    if method == "client_secret_post":
        proof["client_secret"] = secret
    code = authorize(client)
    form("/oauth/token", grant_type="authorization_code", code=code, code_verifier="x" * 43, **proof)
    form("/oauth/token", grant_type="authorization_code", code=code, code_verifier=VERIFIER, client_id="nobody", client_secret=secret)
    status, tokens = form("/oauth/token", grant_type="authorization_code", code=code, code_verifier=VERIFIER, **proof)
    equal(status, 200)
    for _ in range(2):
        issued.update([tokens["access_token"], tokens["refresh_token"]])
        call(tokens["access_token"])
        status, tokens = form("/oauth/token", grant_type="refresh_token", refresh_token=tokens["refresh_token"], **proof)
        equal(status, 200)
    issued.update([tokens["access_token"], tokens["refresh_token"]])
    form("/oauth/token", grant_type="authorization_code", code=code, code_verifier=VERIFIER, **proof)
    form("/oauth/introspect", token=tokens["access_token"], **proof)
    form("/oauth/revoke", token=tokens["refresh_token"], **proof)
    equal(call(tokens["access_token"]), 401)


def call(token):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "leaks", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    headers = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    return send("POST", "/mcp", body, Authorization=f"Bearer {token}", **headers)[0]


def misplaced(direct):
    """Secrets where they do not belong."""
    quoted = urllib.parse.quote(direct)
    for method, path, headers in (
        ("GET", f"/sse?api_key={quoted}", {}),
        ("GET", f"/mcp?api_key={quoted}&access_token={quoted}", {}),
        ("GET", f"/oauth/authorize?client_id=x&key={quoted}", {"Accept": "text/html"}),
        ("GET", f"/sse?api_key={quoted}", {"Authorization": f"Bearer {direct}"}),
        ("GET", f"/nowhere/{quoted}", {}),
        ("GET", "/mcp", {"Authorization": f"Bearer {direct[:-1]}0"}),
        ("GET", "/mcp", {"Authorization": f"Basic {base64.b64encode(direct.encode()).decode()}"}),
        ("GET", "/account", {"Cookie": f"session={direct}"}),
        ("POST", "/mcp", {"Authorization": f"Bearer {direct}", "Content-Type": "application/json", "X-Forwarded-For": direct}),
    ):
        send(method, path, "{" if method == "POST" else None, **headers)


gateway = Gateway.alone(context, "secrets-kept", None)
gateway.start("--log", "trace")
key, direct = gateway.create_key("leaks-person"), gateway.create_key("leaks-direct", "--direct")
issued.update([key, direct])
for method in ("none", "client_secret_basic", "client_secret_post"):
    with check(f"{method}: a client comes through login, calls, refreshes, mistakes and revocation"):
        whole_flow(method)
with check("an answer to a secret in a wrong place comes"):
    misplaced(direct)
with check("what the gateway counts is read"):
    counted = gateway.metrics()
status = gateway.cli("status", "--json") + gateway.cli("clients", "list", "--json") + gateway.cli("grants", "list", "--json")
gateway.stop()
leaks.record(*issued)


def oa_142_nothing_that_was_issued_is_kept_or_told():
    texts = {"metrics": counted, "status, clients and grants": status.encode(), **leaks.kept(gateway.folder)}
    assert any(name.endswith(".sqlite3") for name in texts), list(texts)
    assert b" TRACE " in texts["gateway.log"], "it logs everything"
    equal(leaks.found(texts, issued), [])


with check("none of it is in the database, the log with every line, or the metrics"):
    oa_142_nothing_that_was_issued_is_kept_or_told()
finish()
