"""Puts a server on stdio behind Streamable HTTP. `http_bridge.py COMMAND…` listens on loopback and prints its port. A server with
sessions has a process for each of them; one of 2026-07-28 has one, and another after that has ended."""
import json, queue, subprocess, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMAND = sys.argv[1:]
CHUNK = 1 << 16
lock, sessions = threading.Lock(), {}
END = object()


class Process:
    """A process, and the streams that wait for its lines."""

    def __init__(self):
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.waiting, self.aside, self.lives = {}, None, True
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        begun = b""
        while chunk := self.process.stdout.read(CHUNK):
            *whole, begun = (begun + chunk).split(b"\n")
            for line in whole:
                self.heard(line)
            if len(begun) > 1 << 22:
                *whole, begun = self.flood(begun).split(b"\n")
                for line in whole:
                    self.heard(line)
        with lock:
            self.lives = False
            for stream in [*self.waiting.values(), self.aside]:
                if stream is not None:
                    stream.put(END)
        self.process.kill()

    def flood(self, begun):
        """Passes on a long line as it comes; returns what follows it."""
        to = next(reversed(self.waiting.values()), None)
        part = b"data: " + begun
        while part and b"\n" not in part:
            if to is not None:
                to.put(part)
            part = self.process.stdout.read(CHUNK)
        return part.partition(b"\n")[2]

    def heard(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        message = message if isinstance(message, dict) else {}
        meta = (message.get("params") or {}).get("_meta") or {}
        of = message.get("id", meta.get("io.modelcontextprotocol/subscriptionId"))
        with lock:
            is_answer = "method" not in message and of in self.waiting
            to = self.waiting.pop(of) if is_answer else self.stream_of(of)
        if to is not None:
            to.put(b"data: " + line + b"\n\n")
            if is_answer:
                to.put(END)

    def stream_of(self, of):
        """The stream of this request; else the standalone one, else that of the latest request."""
        if of in self.waiting:
            return self.waiting[of]
        return self.aside or next(reversed(self.waiting.values()), None)

    def say(self, body):
        try:
            self.process.stdin.write(body + b"\n")
        except OSError:
            pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def short(self, status, session=None):
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def process(self, begins):
        """The process of this request, if it has one."""
        name = self.headers.get("Mcp-Session-Id")
        with lock:
            if begins == "session":
                name = str(len(sessions))
            if begins == "session" or begins == "request" and not (name in sessions and sessions[name].lives):
                sessions[name] = Process()
            found = sessions.get(name)
            return name, found if found is not None and found.lives else None

    def stream(self, session, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b": open\n\n")
        is_open = True
        while (event := events.get()) is not END:
            try:
                if is_open:
                    self.wfile.write(event)
                    self.wfile.flush()
            except OSError:
                # the process goes on, and is read
                is_open = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        modern = self.headers.get("Mcp-Method") is not None
        begins = "request" if modern else "session" if message.get("method") == "initialize" else "nothing"
        name, process = self.process(begins)
        if process is None:
            return self.short(404)
        if "method" not in message or "id" not in message:
            process.say(body)
            return self.short(202)
        events = queue.Queue(1000)
        with lock:
            process.waiting[message["id"]] = events
            if not process.lives:
                events.put(END)
        process.say(body)
        self.stream(None if modern else name, events)

    def do_GET(self):
        name, process = self.process("nothing")
        if process is None:
            return self.short(404 if name else 405)
        events = queue.Queue(1000)
        with lock:
            process.aside = events
            if not process.lives:
                events.put(END)
        self.stream(name, events)

    def do_DELETE(self):
        _, process = self.process("nothing")
        if process is not None:
            process.process.kill()
        self.short(200)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
