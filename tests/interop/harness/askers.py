"""Two servers with one tool that asks for a name and greets it: one in sessions (2025-11-25), one in which every request
stands alone (2026-07-28). Both run in this process, so that they outlive a gateway that is killed, and note every call."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = {"mode": "form", "message": "Your name?", "requestedSchema": FORM}
TOOL = {"name": "greet", "inputSchema": {"type": "object"}}
INFO = {"name": "asker", "version": "1"}


class Asker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, status, message=None, session=None):
        body = json.dumps(message).encode() if message is not None else b""
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def result(self, message, result):
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def refuse(self, message, code):
        self.answer(400, {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": "no"}})

    def do_GET(self):
        self.answer(405)

    def do_DELETE(self):
        self.answer(204)


class Session(Asker):
    """2025-11-25: the question comes on the stream of the call."""

    def do_POST(self):
        message, server = self.read(), self.server
        method = message.get("method")
        if method == "server/discover":
            self.refuse(message, -32000)
        elif method == "initialize":
            greeting = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
            server.sessions += 1
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": greeting}, f"s{server.sessions}")
        elif method == "tools/list":
            self.result(message, {"tools": [TOOL]})
        elif method == "tools/call":
            self.call(message)
        elif method is None:
            server.answers[message["id"]] = message.get("result")
            server.answered.set()
            self.answer(202)
        else:
            self.answer(202)

    def call(self, message):
        server = self.server
        server.calls.append(message["params"])
        ask = f"q{len(server.calls)}"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.event({"jsonrpc": "2.0", "id": ask, "method": "elicitation/create", "params": QUESTION})
        while ask not in server.answers:
            server.answered.wait()
            server.answered.clear()
        name = server.answers[ask]["content"]["name"]
        self.event({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": f"Hello {name}"}]}})

    def event(self, message):
        self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()


class Alone(Asker):
    """2026-07-28: the question ends the call."""

    def do_POST(self):
        message, server = self.read(), self.server
        method, params = message.get("method"), message.get("params", {})
        complete = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        hints = {"ttlMs": 0, "cacheScope": "private"}
        if "io.modelcontextprotocol/protocolVersion" not in params.get("_meta", {}):
            self.refuse(message, -32602)
        elif method == "server/discover":
            self.result(message, {**complete, **hints, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        elif method == "tools/list":
            self.result(message, {**complete, **hints, "tools": [TOOL]})
        elif "inputResponses" in params:
            server.calls.append(params)
            name = params["inputResponses"]["who"]["content"]["name"]
            state = params["requestState"]
            self.result(message, {**complete, "content": [{"type": "text", "text": f"Hello {name} ({state})"}]})
        else:
            server.calls.append(params)
            questions = {"who": {"method": "elicitation/create", "params": QUESTION}}
            self.result(message, {**complete, "resultType": "input_required", "inputRequests": questions, "requestState": "mine"})


def start(handler):
    """A server of this kind on a port of its own: `url`, and the `calls` that it got."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.calls, server.answers, server.sessions, server.answered = [], {}, 0, threading.Event()
    server.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
