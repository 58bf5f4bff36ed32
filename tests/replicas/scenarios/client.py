"""MCP clients by hand: each request has a connection of its own and goes to the port that the scenario says, so that it is
known which replica gets it. Streams are read on threads."""

import contextlib
import http.client
import json
import threading
import time

from .place import Broken, expect, within

LEGACY, NEWER = "2025-06-18", "2025-11-25"
ACCEPT = "application/json, text/event-stream"


class Answer:
    """A whole response. `messages` are the JSON-RPC messages in it."""

    def __init__(self, response, text, seconds):
        self.status, self.headers, self.text, self.seconds = response.status, response.headers, text, seconds
        if (self.headers.get("Content-Type") or "").startswith("text/event-stream"):
            lines = [line[5:] for line in text.splitlines() if line.startswith("data:")]
        else:
            lines = [text] if text.startswith("{") else []
        self.messages = [json.loads(line) for line in lines if line.strip()]

    def __str__(self):
        return f"{self.status} {self.text[:300]!r} after {self.seconds:.1f} s"

    def is_retry(self):
        """503 that says when to come again."""
        return self.status == 503 and "Retry-After" in self.headers

    def result(self):
        """The result of the call that this answers; an error of the tool is none."""
        last = self.messages[-1] if self.status == 200 and self.messages else {}
        good = "result" in last and not last["result"].get("isError")
        return last["result"] if good else None


class Stream:
    """A response as events, read as they come on a thread of its own."""

    def __init__(self, client, method, port, path=None, body=None, headers=None, seconds=120):
        self.events, self.failure, self.over, self.began, self.lines = [], None, threading.Event(), time.monotonic(), []
        self.connection, self.response = client.send(method, port, path, body, headers, seconds)
        self.status, self.chunk, next_chunk = self.response.status, None, self.response._read_next_chunk_size

        def noted():
            # `readline` takes the end of the connection for the end of the body, which only an empty chunk is
            self.chunk = "broken off"
            self.chunk = next_chunk()
            return self.chunk

        self.response._read_next_chunk_size = noted
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        ident, event = None, "message"
        try:
            while line := self.response.readline():
                self.lines += [line] if self.status != 200 else []
                name, _, value = line.decode().rstrip("\r\n").partition(":")
                value = value.removeprefix(" ")
                if name == "id":
                    ident = value
                elif name == "event":
                    event = value
                elif name == "data" and value:
                    self.events.append((ident, event, value))
                    event = "message"
            if self.response.chunked and self.chunk:
                self.failure = ConnectionAbortedError("the body broke off")
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            self.failure = error
        self.ended_at = time.monotonic()
        self.over.set()

    def text(self):
        """The body of an error, when it is over."""
        self.over.wait(5)
        return b"".join(self.lines).decode(errors="replace")

    def messages(self):
        return [json.loads(data) for _, event, data in list(self.events) if event == "message" and data.startswith("{")]

    def last_id(self):
        return next((ident for ident, _, _ in reversed(list(self.events)) if ident), None)

    def question(self, seconds=10):
        """The first request of the server on this stream."""
        asked = lambda: next((one for one in self.messages() if "method" in one and "id" in one), None)
        return within(seconds, asked, "the server's question comes")

    def response_to(self, ident, seconds):
        def found():
            over = self.over.is_set()
            there = next((one for one in self.messages() if one.get("id") == ident and "method" not in one), None)
            if over and not there:
                raise Broken(f"the stream ended without an answer to call {ident}: {self.status} {self.events} {self.failure!r}")
            return there

        return within(seconds, found, f"call {ident} is answered")

    def ends(self, seconds, what):
        """Waits for its end, and returns when that was."""
        expect(self.over.wait(seconds), f"{what}: it is still open after {seconds} s, with {self.events[-2:]}")
        return self.ended_at

    def close(self):
        with contextlib.suppress(OSError):
            # another thread reads: a close alone would wait for it
            self.connection.sock and self.connection.sock.shutdown(2)


class Client:
    def __init__(self, key, path="/mcp/demo", revision=LEGACY, capabilities=None):
        self.key, self.path, self.revision, self.session = key, path, revision, None
        self.capabilities = capabilities or {}

    def send(self, method, port, path=None, body=None, headers=None, seconds=60):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        given = {"Authorization": f"Bearer {self.key}", "Accept": ACCEPT if method == "POST" else "text/event-stream"}
        if body is not None:
            given["Content-Type"] = "application/json"
        if self.session:
            given |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.revision}
        connection.request(method, path or self.path, None if body is None else json.dumps(body), given | (headers or {}))
        return connection, connection.getresponse()

    def post(self, port, body, path=None, seconds=60):
        began = time.monotonic()
        connection, response = self.send("POST", port, path, body, None, seconds)
        with contextlib.closing(connection):
            return Answer(response, response.read().decode(), time.monotonic() - began)

    def get(self, port, headers=None, seconds=60):
        """The standalone stream, or the rest of one."""
        return Stream(self, "GET", port, None, None, headers, seconds)

    def initialize(self, port, ident=1, path=None):
        about = {"name": "promises", "version": "1"}
        params = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": about}
        return self.post(port, request(ident, "initialize", params), path)

    def open(self, port):
        answer = self.initialize(port)
        expect(answer.result(), f"initialize is answered {answer}")
        self.session = answer.headers["Mcp-Session-Id"]
        self.post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def ask(self, port, method, params=None, ident=2, seconds=60):
        return self.post(port, request(ident, method, params or {}), seconds=seconds)

    def echo(self, port, text="hello", seconds=60):
        return self.ask(port, "tools/call", {"name": "echo", "arguments": {"message": text}}, seconds=seconds)

    def call(self, port, tool, arguments=None, ident=5, progress=False, seconds=120):
        """A call whose answer is read as a stream."""
        params = {"name": tool, "arguments": arguments or {}}
        if progress:
            params["_meta"] = {"progressToken": f"p{ident}"}
        return Stream(self, "POST", port, None, request(ident, "tools/call", params), None, seconds)


class OldClient(Client):
    """HTTP+SSE (2024-11-05): one stream for everything that comes, and POSTs at the URL that its first event names."""

    def __init__(self, key, path="/sse/demo"):
        super().__init__(key, path, "2024-11-05")

    def open(self, port):
        self.stream = Stream(self, "GET", port)
        named = lambda: next((data for _, event, data in self.stream.events if event == "endpoint"), None)
        self.messages = within(10, named, "the event with the URL for messages comes")
        answer = self.initialize(port, path=self.messages)
        expect(answer.status == 202, f"initialize is answered {answer}")
        self.stream.response_to(1, 10)
        self.post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self.messages)
        return self

    def message(self, port, method, params=None, ident=2, seconds=30):
        return self.post(port, request(ident, method, params or {}), self.messages, seconds)


def request(ident, method, params):
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
