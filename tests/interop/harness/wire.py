"""MCP and OAuth by hand, over the standard library's HTTP: what a case needs that looks at the wire itself."""

import base64
import contextlib
import hashlib
import http.client
import json
import secrets
import time
import urllib.parse

CALLBACK = "http://127.0.0.1:7779/callback"


class Wire:
    """One endpoint of the gateway as one client sees it. Its session, if any, goes along with each request."""

    def __init__(self, url, token=None):
        self.url, self.token, self.session = urllib.parse.urlsplit(url), token, None

    def send(self, method, path, body=None, headers=None, timeout=120):
        """The response, its body not yet read. Each request has a connection of its own."""
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        given = {"Accept": "application/json, text/event-stream", **(headers or {})}
        if self.token:
            given.setdefault("Authorization", f"Bearer {self.token}")
        if self.session:
            given["Mcp-Session-Id"] = self.session
        connection.request(method, path, body, given)
        return connection.getresponse()

    def post(self, message):
        """Status, headers and every JSON-RPC message of the answer to one posted message."""
        response = self.send("POST", self.url.path, json.dumps(message), {"Content-Type": "application/json"})
        text = response.read().decode()
        if (response.headers.get("Content-Type") or "").startswith("text/event-stream"):
            messages = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
        else:
            messages = [json.loads(text)] if text.strip() else []
        return response.status, response.headers, messages

    def initialize(self, revision="2025-06-18", ident=0):
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "interop-wire", "version": "1"}}
        status, headers, messages = self.post({"jsonrpc": "2.0", "id": ident, "method": "initialize", "params": hello})
        if status != 200:
            raise AssertionError(f"initialize: {status} {messages}")
        self.session = headers.get("Mcp-Session-Id")
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return messages[-1]["result"]

    def call(self, ident, tool, arguments):
        """The answer to a tool call: its JSON-RPC response."""
        params = {"name": tool, "arguments": arguments}
        status, _, messages = self.post({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params})
        if status != 200:
            raise AssertionError(f"tools/call: {status} {messages}")
        return messages[-1]

    def open(self, ident, tool, arguments):
        """The answer to a tool call as a stream, its progress asked for."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p{ident}"}}
        message = {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}
        return Stream(self.send("POST", self.url.path, json.dumps(message), {"Content-Type": "application/json"}))

    def echo(self, ident, text):
        return self.call(ident, "everything__echo", {"message": text})["result"]["content"][0]["text"]


class Stream:
    """A server's stream of events, read as it comes."""

    def __init__(self, response):
        self.response = response

    def next_event(self):
        """The data of the next event; '' at the end."""
        for line in iter(self.response.readline, b""):
            if line.startswith(b"data:") and line[5:].strip():
                return line[5:].decode().strip()
        return ""

    def until_end(self, seconds=60):
        """Reads to the end of the stream, however it ends."""
        end = time.monotonic() + seconds
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            while self.response.readline():
                if time.monotonic() > end:
                    raise AssertionError(f"the stream goes on after {seconds} s")


class Login:
    """A registered client with its tokens, come by through every step of OAuth."""

    def __init__(self, url):
        # a person is in a case alone
        from case import walk

        self.wire, self.resource = Wire(url), f"{url}/mcp"
        registration = {"client_name": "Interop wire", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        response = self.wire.send("POST", "/oauth/register", json.dumps(registration), {"Content-Type": "application/json"})
        self.client = json.loads(response.read())["client_id"]
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.client, "redirect_uri": CALLBACK, "state": "s7",
            "code_challenge": challenge, "code_challenge_method": "S256", "resource": self.resource,
        }
        end = urllib.parse.parse_qs(urllib.parse.urlsplit(walk(f"{url}/oauth/authorize?{urllib.parse.urlencode(query)}")).query)
        self.tokens = self.token(grant_type="authorization_code", code=end["code"][0], redirect_uri=CALLBACK, code_verifier=verifier)

    def token(self, **form):
        body = urllib.parse.urlencode({"client_id": self.client, "resource": self.resource, **form})
        response = self.wire.send("POST", "/oauth/token", body, {"Content-Type": "application/x-www-form-urlencoded"})
        answer = json.loads(response.read())
        if response.status != 200:
            raise AssertionError(f"token: {response.status} {answer}")
        return answer

    def refresh(self):
        self.tokens = self.token(grant_type="refresh_token", refresh_token=self.tokens["refresh_token"])
        return self.tokens["access_token"]
