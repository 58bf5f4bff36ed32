"""Eight sick servers, each with the words by which `lockkeeper status` tells a person why."""

import http.server
import threading
from dataclasses import dataclass

from gateway import free_port
from peers import Peer

NEWER = '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}'


@dataclass
class Sick:
    peer: Peer
    # one of these is in the reason, or in the lines that the server wrote
    words: tuple


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers each request with the status in the port's server."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        if self.server.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def answering(status):
    """A server that answers everything with this status; its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.status = status
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/mcp"


def script(text):
    return ["sh", "-c", text]


def eight():
    short = {"start_timeout": "20s"}
    return [
        Sick(Peer("sick-missing", ["lockkeeper-peers-no-such-program"]), ("No such file", "not found")),
        Sick(Peer("sick-exits", script("echo 'the licence has ended' >&2; exit 3")), ("the licence has ended",)),
        Sick(Peer("sick-banner", script("echo 'Welcome to my server'; exec sleep 600"), options=short), ("Welcome to my server", "standard output")),
        Sick(Peer("sick-silent", script("exec sleep 600"), options=short), ("20 s", "did not answer", "no answer")),
        Sick(Peer("sick-version", script('read -r line; id=$(printf %s "$line" | sed "s/.*\\"id\\":\\([^,}]*\\).*/\\1/"); printf \'' + NEWER + '\\n\' "$id"; exec sleep 600')), ("1999-01-01",)),
        Sick(Peer("sick-refused", address=f"http://127.0.0.1:{free_port()}/mcp"), ("refused", "connect")),
        Sick(Peer("sick-unauthorized", address=answering(401)), ("401",)),
        Sick(Peer("sick-broken", address=answering(500)), ("500",)),
    ]
