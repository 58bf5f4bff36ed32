"""Checks of the gateway behind a proxy, as a client, a user and an operator see it."""

import base64
import contextlib
import hashlib
import json
import secrets
import subprocess
import time
import traceback
import urllib.parse

import walk
from client import SECONDS, Client, Line, Stream, WebSocket, result, text
from proxy import NAME

PUBLIC = f"https://{NAME}"
CALLBACK = "http://127.0.0.1:7779/callback"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# under `request_body` and the proxies' own bounds
LARGE = "x" * (8 << 20)
# a proxy that cuts streams off does so now and then
ROUNDS = 60


class Report:
    """The lines of one suite, and how many checks passed."""

    def __init__(self, name):
        self.name, self.lines, self.passed, self.failed = name, [], 0, 0

    @contextlib.contextmanager
    def check(self, sentence):
        """One check that a user would notice. A failure is reported, and the suite goes on."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            self.lines.append(f"not ok - {self.name}: {sentence}")
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.lines += [f"# {line[:600]}" for line in [f"{where.filename}:{where.lineno}", *repr(error).splitlines()[:12]]]
        else:
            self.passed += 1
            self.lines.append(f"ok - {self.name}: {sentence}")

    def broke(self, error):
        with self.check("the suite runs to its end"):
            raise error


class Secrets:
    """Everything that may not stand in a log, by what it is."""

    def __init__(self, **known):
        self.known = known

    def found(self, logs):
        return [f"{what} in {name}" for name, log in logs.items() for what, secret in self.known.items() if secret in log]


def run(report, gateway, proxy):
    """All checks. The last stop the gateway and the proxy."""
    line = Line(proxy)
    hidden = Secrets(key=gateway.create_key("person"), direct=gateway.create_key("program", "--direct"))
    with report.check("discovery leads to the login by the public URL"):
        discovery(line)
    with report.check("a person logs in with an API key and approves, and the app gets a token"):
        log_in(line, hidden)
    token = hidden.known.get("access_token", hidden.known["direct"])
    streams(report, Client(line, token))
    with report.check("a client of HTTP+SSE calls with a key in the query, and a ticket"):
        over_sse(line, hidden)
    with report.check("a client of WebSocket calls"):
        over_websocket(line, hidden)
    with report.check("HTTP/2 passes, and an event of a stream that stays open"):
        over_http2(proxy, hidden.known["direct"])
    with report.check("the gateway sees the address of the client, not one that the client claims"):
        addresses(Line(proxy, "127.0.0.2"), gateway)
    with report.check("metrics are not for the public"):
        equal(line.send("GET", "/metrics").status, 404)
    with report.check("clients hear when the gateway is down"):
        gateway.stop()
        equal(line.send("GET", f"/sse?api_key={hidden.known['direct']}").status, proxy.down)
    with report.check("no key, token, code, ticket or cookie is in a log, of errors neither"):
        # what it logs of a stream, it logs at its end
        proxy.stop()
        equal(sorted(hidden.known), ["access_token", "code", "cookie", "direct", "key", "refresh_token", "ticket"])
        logged(proxy, "/sse", "/messages", "/oauth/authorize", "/oauth/token", "/mcp")
        equal(hidden.found(proxy.logs()), [])


def streams(report, client):
    """Calls and event streams of a client with a session, and calls without."""
    with report.check("calls pass with a session and without, small and large"):
        client.begin({"elicitation": {}})
        equal(text(client.ask("tools/call", name="demo__echo", arguments={"message": "with"})), "with")
        equal(text(client.modern("tools/call", name="demo__echo", arguments={"message": "without"})), "without")
        equal(text(client.ask("tools/call", name="demo__echo", arguments={"message": LARGE})), LARGE)
    with report.check("a server asks in the middle of a call, and gets the answer"):
        for _ in range(ROUNDS):
            asked(client)
    with report.check("a change is told on an open stream, and again after it was idle"):
        [uri] = [found["uri"] for found in result(client.ask("resources/list"))["resources"] if found["uri"].endswith("counter")]
        stream = client.stream()
        changed(client, stream, uri)
        stream.comment()
        changed(client, stream, uri)
        stream.close()


def asked(client):
    """Calls a tool that asks. Its question can be answered only if it arrives before the call ends."""
    stream = Stream(client.ask("tools/call", name="demo__survey", arguments={}))
    question = stream.message(lambda message: message.get("method") == "elicitation/create")
    answer = {"action": "accept", "content": {"name": "Ada"}}
    equal(client.post({"id": question["id"], "result": answer}).status, 202)
    contains(stream.message(lambda message: "result" in message)["result"]["content"][0]["text"], "Ada answered")
    stream.close()


def changed(client, stream, uri):
    """Changes a resource, and reads of it on the stream."""
    result(client.ask("resources/subscribe", uri=uri))
    result(client.ask("tools/call", name="demo__count_up", arguments={}))
    told = stream.message(lambda message: message.get("method") == "notifications/resources/updated")
    equal(told["params"]["uri"], uri)
    result(client.ask("resources/unsubscribe", uri=uri))


def discovery(line):
    response = line.send("POST", "/mcp", "{}", {"Content-Type": "application/json"})
    equal(response.status, 401)
    challenge = response.headers["WWW-Authenticate"]
    resource = line.json(challenge.split('resource_metadata="')[1].split('"')[0])
    equal(resource["resource"], f"{PUBLIC}/mcp")
    equal(resource["authorization_servers"], [PUBLIC])
    server = line.json("/.well-known/oauth-authorization-server")
    equal(server["issuer"], PUBLIC)
    for name, value in server.items():
        if name.endswith("_endpoint"):
            contains(value, f"{PUBLIC}/")


def log_in(line, hidden):
    """Registers an app, has a person log in and approve, and redeems the code."""
    server = line.json("/.well-known/oauth-authorization-server")
    about = {"client_name": "Behind a proxy", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    app = posted(line, server["registration_endpoint"], json.dumps(about), {"Content-Type": "application/json"}, 201)
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code", "client_id": app["client_id"], "redirect_uri": CALLBACK, "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), "code_challenge_method": "S256",
        "resource": f"{PUBLIC}/mcp",
    }
    browser = walk.Browser(line.handler())
    end = walk.walk(f"{server['authorization_endpoint']}?{urllib.parse.urlencode(query)}", hidden.known["key"], browser)
    given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(end).query))
    equal((given["state"], given["iss"]), (state, PUBLIC))
    for cookie in browser.cookies:
        equal((cookie.secure, cookie.domain), (True, NAME))
    # the others are its visits of the last ten minutes
    [session] = [cookie for cookie in browser.cookies if "-visit-" not in cookie.name]
    hidden.known |= {"code": given["code"], "cookie": session.value}
    form = {"grant_type": "authorization_code", "code": given["code"], "redirect_uri": CALLBACK, "code_verifier": verifier}
    form |= {"client_id": app["client_id"], "resource": f"{PUBLIC}/mcp"}
    tokens = posted(line, server["token_endpoint"], urllib.parse.urlencode(form), FORM, 200)
    hidden.known |= {name: tokens[name] for name in ("access_token", "refresh_token")}


def posted(line, url, body, headers, status):
    """The document in answer to a POST."""
    response = line.send("POST", url.removeprefix(PUBLIC), body, headers)
    answer = response.read()
    if response.status != status:
        raise AssertionError(f"{url}: {response.status} {answer[:300]}")
    return json.loads(answer)


def over_sse(line, hidden):
    stream = Stream(line.send("GET", f"/sse?api_key={hidden.known['direct']}", headers={"Accept": "text/event-stream"}))
    kind, address = stream.next()
    equal(kind, "endpoint")
    [hidden.known["ticket"]] = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["ticket"]
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "proxies", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    response = line.send("POST", address.removeprefix(PUBLIC), json.dumps(message), {"Content-Type": "application/json"})
    equal(response.status, 202)
    contains(stream.message(lambda message: message.get("id") == 1)["result"], "protocolVersion")
    stream.close()


def over_websocket(line, hidden):
    client = WebSocket(line, hidden.known["direct"])
    equal(client.status, 101)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "proxies", "version": "1"}}
    contains(client.ask("initialize", **hello), "protocolVersion")
    called = client.ask("tools/call", name="demo__echo", arguments={"message": "over a WebSocket"})
    contains(called["content"][0]["text"], "over a WebSocket")
    client.close()


def over_http2(proxy, key):
    """curl, since Python's own HTTP has no version 2."""
    command = ["curl", "--silent", "--no-buffer", "--http2", "--max-time", "30", "--cacert", proxy.certificate, "--config", "-"]
    command += ["--resolve", f"{NAME}:{proxy.port}:127.0.0.1", "--dump-header", "-", f"https://{NAME}:{proxy.port}/sse"]
    curl = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        # a command line can be read by others
        curl.stdin.write(f'header = "Authorization: Bearer {key}"\n')
        curl.stdin.close()
        contains(curl.stdout.readline(), "HTTP/2 200")
        while not (line := curl.stdout.readline()).startswith("event"):
            if not line:
                raise AssertionError("the stream ended")
        contains(line, "endpoint")
        equal(curl.poll(), None)
    finally:
        curl.kill()
        curl.wait()


def addresses(line, gateway):
    claimed = {"X-Forwarded-For": "203.0.113.7", "Authorization": "Bearer nobody"}
    response = line.send("POST", "/mcp", "{}", {"Content-Type": "application/json", **claimed})
    equal(response.status, 401)
    # the log is written in the background
    end = time.monotonic() + SECONDS
    while not (written := [part for part in gateway.log_text().splitlines() if response.headers["X-Request-Id"] in part]):
        if time.monotonic() > end:
            raise AssertionError("the request is not in the log")
        time.sleep(0.02)
    equal([part for part in written if f"client_ip={line.source}" not in part], [])
    contains(" ".join(written), "status=401")


def logged(proxy, *paths):
    log = proxy.log.read_text()
    missing = [path for path in paths if path not in log]
    if missing:
        raise AssertionError(f"not in the access log: {missing}")


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"expected {str(expected)[:300]!r}, found {str(found)[:300]!r}")


def contains(found, part):
    if part not in found:
        raise AssertionError(f"expected {part!r} in {str(found)[:600]!r}")
