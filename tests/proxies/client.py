"""A client and a browser in front of a proxy: HTTPS for the public name, at the proxy's port. Knows MCP by hand."""

import base64
import http.client
import json
import os
import socket
import ssl
import struct
import urllib.request

from proxy import NAME

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
SECONDS = 30


class Connection(http.client.HTTPSConnection):
    """A connection for NAME that goes to the port of the proxy."""

    def __init__(self, line, timeout=SECONDS):
        super().__init__(NAME, timeout=timeout)
        self.line = line

    def connect(self):
        raw = socket.create_connection(("127.0.0.1", self.line.port), self.timeout, source_address=(self.line.source, 0))
        self.sock = self.line.context.wrap_socket(raw, server_hostname=NAME)


class Line:
    """The way to a proxy, from one address of this machine."""

    def __init__(self, proxy, source="127.0.0.1"):
        self.port, self.source = proxy.port, source
        self.context = ssl.create_default_context(cafile=proxy.certificate)

    def send(self, method, path, body=None, headers=None):
        """The response, its body not yet read. Each request has a connection of its own."""
        connection = Connection(self)
        connection.request(method, path, body, headers or {})
        return connection.getresponse()

    def json(self, path):
        """The document at a path or URL of the gateway."""
        response = self.send("GET", path.removeprefix(f"https://{NAME}"))
        if response.status != 200:
            raise AssertionError(f"{path}: {response.status}")
        return json.loads(response.read())

    def handler(self):
        """What makes a urllib opener go this way."""
        line = self

        class Handler(urllib.request.HTTPSHandler):
            def https_open(self, request):
                return self.do_open(lambda host, **options: Connection(line, options["timeout"]), request)

        return Handler()


class Client:
    """An MCP client with a credential. Its session, if any, goes along with each request."""

    def __init__(self, line, token):
        self.line, self.token, self.session, self.count = line, token, None, 0

    def post(self, message, headers=None):
        given = {
            "Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json", **(headers or {}),
        }
        if self.session:
            given["Mcp-Session-Id"] = self.session
        return self.line.send("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), given)

    def begin(self, capabilities):
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "proxies", "version": "1"}}
        response = self.post({"id": 0, "method": "initialize", "params": hello})
        result(response)
        self.session = response.headers["Mcp-Session-Id"]
        self.post({"method": "notifications/initialized"}).read()

    def ask(self, method, **params):
        """The response to a request, not yet read."""
        self.count += 1
        return self.post({"id": self.count, "method": method, "params": params})

    def modern(self, method, **params):
        """The response to a request without session."""
        meta = {
            f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientInfo": {"name": "proxies", "version": "1"},
            f"{PREFIX}clientCapabilities": {},
        }
        self.count += 1
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": params["name"]}
        return self.post({"id": self.count, "method": method, "params": {**params, "_meta": meta}}, headers)

    def stream(self):
        """The session's own stream."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "text/event-stream", "Mcp-Session-Id": self.session}
        return Stream(self.line.send("GET", "/mcp", headers=headers))


class WebSocket:
    """A client at `/ws`, with a credential. Its messages are short."""

    def __init__(self, line, token):
        raw = socket.create_connection(("127.0.0.1", line.port), SECONDS)
        self.socket = line.context.wrap_socket(raw, server_hostname=NAME)
        key = base64.b64encode(os.urandom(16)).decode()
        head = [
            "GET /ws HTTP/1.1", f"Host: {NAME}", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Protocol: mcp", f"Sec-WebSocket-Key: {key}", f"Authorization: Bearer {token}",
        ]
        self.socket.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.stream = self.socket.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline().strip():
            pass

    def ask(self, method, **params):
        """The result of a request."""
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        # a mask of zeros leaves the text as it is
        self.socket.sendall(struct.pack("!BBH4x", 0x81, 0x80 | 126, len(text)) + text)
        while (frame := self.frame())[0] != 0x81 or json.loads(frame[1]).get("id") != 1:
            pass
        return json.loads(frame[1])["result"]

    def frame(self):
        kind, length = struct.unpack("!BB", self.stream.read(2))
        if length > 125:
            [length] = struct.unpack("!H" if length == 126 else "!Q", self.stream.read(2 if length == 126 else 8))
        return kind, self.stream.read(length)

    def close(self):
        self.socket.close()


class Stream:
    """A stream of events, read as it comes. What does not come within SECONDS raises TimeoutError."""

    def __init__(self, response):
        if response.status != 200 or not response.headers["Content-Type"].startswith("text/event-stream"):
            raise AssertionError(f"no stream: {response.status} {response.headers['Content-Type']} {response.read()[:300]}")
        self.response = response

    def next(self):
        """The event type and data of the next event that has data."""
        kind = "message"
        for line in iter(self.response.readline, b""):
            name, _, value = line.decode().rstrip("\n").partition(":")
            if name == "event":
                kind = value.strip()
            if name == "data" and value.strip():
                return kind, value.strip()
        raise AssertionError("the stream ended")

    def message(self, wanted):
        """The next message for which `wanted` holds."""
        while not wanted(message := json.loads(self.next()[1])):
            pass
        return message

    def comment(self):
        """Waits for a comment, which keeps idle streams open."""
        while (line := self.response.readline()) and not line.startswith(b":"):
            pass
        if not line:
            raise AssertionError("the stream ended")

    def close(self):
        self.response.close()


def result(response):
    """The result in a response, be it JSON or a stream."""
    if response.status != 200:
        raise AssertionError(f"{response.status}: {response.read()[:300]}")
    if response.headers["Content-Type"].startswith("text/event-stream"):
        message = Stream(response).message(lambda message: "id" in message and "method" not in message)
        response.close()
    else:
        message = json.loads(response.read())
    if "result" not in message:
        raise AssertionError(f"no result: {message}")
    return message["result"]


def text(response):
    """The text of a tool's result."""
    return result(response)["content"][0]["text"]
