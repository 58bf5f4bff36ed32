"""A simulated client: reads events as the Java SDK up to 0.11 does over WebFlux. An event of another type than `endpoint` and
`message` ends its stream, and Spring's reader makes an event without a type of a comment. It has no OAuth."""

import http.client
import json
import queue
import socket
import threading
from urllib.parse import urlsplit

import frame

AGENT = {"User-Agent": "ReactorNetty/1.2.6"}


class WebFlux:
    logins = 0

    def __init__(self):
        self.calls, self.port = 0, urlsplit(frame.URL).port

    def connect(self):
        self.answers, self.endpoint, self.error = queue.Queue(), queue.Queue(), None
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        parts = urlsplit(frame.URL)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self.connection.request("GET", target, headers={**AGENT, **frame.HEADERS, "Accept": "text/event-stream"})
        self.socket, response = self.connection.sock, self.connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read()[:200].decode()}")
        threading.Thread(target=self.read, args=(response, self.answers), daemon=True).start()
        self.messages = self.endpoint.get(timeout=frame.SECONDS)
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old-java", "version": "1"}}
        self.request("initialize", hello)
        self.post({"method": "notifications/initialized"})

    def read(self, response, answers):
        block = []
        try:
            for line in response:
                if line := line.decode().rstrip("\r\n"):
                    block.append(line)
                    continue
                event = next((part[6:].strip() for part in block if part.startswith("event:")), None)
                data = "\n".join(part[5:].strip() for part in block if part.startswith("data:"))
                block = []
                if event == "endpoint":
                    self.endpoint.put(data)
                elif event == "message":
                    self.message(json.loads(data), answers)
                else:
                    self.error = f"Received unrecognized SSE event type: {event}"
                    break
        except OSError as error:
            self.error = str(error)
        answers.put(None)

    def message(self, message, answers):
        if message.get("method") == "ping":
            refusal = {"id": message["id"], "error": {"code": -32601, "message": "Method not found: ping"}}
            threading.Thread(target=self.post, args=(refusal,), daemon=True).start()
        elif "method" not in message:
            answers.put(message)

    def post(self, message):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=frame.SECONDS)
        headers = {**AGENT, **frame.HEADERS, "Content-Type": "application/json"}
        connection.request("POST", self.messages, json.dumps({"jsonrpc": "2.0", **message}), headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        if response.status >= 300:
            raise RuntimeError(f"HTTP {response.status}: {body[:200]}")

    def request(self, method, params):
        self.calls += 1
        self.post({"id": self.calls, "method": method, "params": params})
        message = self.answer()
        while message.get("id") != self.calls:
            message = self.answer()
        if "error" in message:
            raise RuntimeError(json.dumps(message["error"]))
        return message["result"]

    def answer(self):
        try:
            message = self.answers.get(timeout=frame.SECONDS)
        except queue.Empty:
            raise TimeoutError(f"no answer within {frame.SECONDS} s") from None
        if message is None:
            raise frame.Ended(self.error or "the stream ended")
        return message

    def call(self, text):
        return self.request("tools/call", {"name": frame.TOOL, "arguments": {"text": text}})["content"][0]["text"]

    def leave(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


frame.serve_blocking(WebFlux())
