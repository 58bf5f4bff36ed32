"""An authority: Pebble, with a door in front of it that counts what comes, and can be told to wait, to refuse, to be away, and to
advise when to renew (RFC 9773, which Debian's Pebble does not know)."""

import http.client
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from certificates import certificate
from gateway import free_port

EXTERNAL_ID, EXTERNAL_KEY = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"


class QuietServer(http.server.ThreadingHTTPServer):
    """Clients that are killed are no faults of the server."""

    allow_reuse_address, daemon_threads = True, True

    def handle_error(self, *_):
        pass


class Hold:
    """Requests that wait: for one that never came, the connection ends."""

    def __init__(self, part):
        self.part, self.passes, self.reached, self.released = part, True, threading.Event(), threading.Event()

    def lets_pass(self):
        if self.released.is_set():
            return True
        self.reached.set()
        self.released.wait(60)
        return self.passes

    def end(self, passes):
        self.passes = passes
        self.released.set()


class Authority:
    """Validates at `tls_port` and `http_port`, where the names of `dns` lead to 127.0.0.1."""

    def __init__(self, folder, tls_port, http_port, external=False):
        self.folder, self.tls_port, self.http_port, self.external = Path(folder), tls_port, http_port, external
        self.folder.mkdir(parents=True)
        self.pem, self.key = certificate(self.folder)
        self.port, self.behind, self.management, self.dns, self.dns_management = (free_port() for _ in range(5))
        self.directory = f"https://localhost:{self.port}/dir"
        self.processes, self.door = [], None
        self.requests, self.taken, self.lock = [], 0, threading.Lock()
        # the requests that wait, the answer that orders get instead of their own, when to renew, and a delay in seconds
        self.held, self.refusal, self.advice, self.delay = None, None, None, 0

    def start(self):
        config = {"listenAddress": f"127.0.0.1:{self.behind}", "managementListenAddress": f"127.0.0.1:{self.management}"}
        config |= {"certificate": str(self.pem), "privateKey": str(self.key), "httpPort": self.http_port, "tlsPort": self.tls_port}
        config |= {"externalAccountBindingRequired": self.external, "externalAccountMACKeys": {EXTERNAL_ID: EXTERNAL_KEY}}
        (self.folder / "pebble.json").write_text(json.dumps({"pebble": config}))
        log = (self.folder / "pebble.log").open("ab")
        dns = ["pebble-challtestsrv", "-defaultIPv6", "", "-dns01", f"127.0.0.1:{self.dns}", "-http01", "", "-https01", "", "-tlsalpn01", ""]
        dns += ["-management", f"127.0.0.1:{self.dns_management}"]
        pebble = ["pebble", "-config", str(self.folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{self.dns}", "-strict"]
        environment = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "20"}
        for command in [dns, pebble]:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment | {"PATH": "/usr/bin:/bin"}))
        self.open()
        self.root()

    def open(self):
        """Opens the door; it may have been closed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem, self.key)
        self.door = QuietServer(("127.0.0.1", self.port), handler(self))
        self.door.socket = context.wrap_socket(self.door.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.door.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        if self.door:
            self.door.shutdown()
            self.door.server_close()
            self.door = None

    def stop(self):
        self.close()
        for process in self.processes:
            process.kill()
            process.wait()

    def hold(self, part):
        """Lets requests whose path has this part wait."""
        self.held = Hold(part)
        return self.held

    def count(self, part):
        """The requests so far whose path has this part."""
        with self.lock:
            return sum(part in path for path in self.requests)

    def orders(self):
        """The orders so far: not the requests for them that Pebble refuses at random for their nonce."""
        with self.lock:
            return self.taken

    def root(self):
        """The certificate that its own are signed with, as a file."""
        context = ssl._create_unverified_context()
        end = time.monotonic() + 20
        while True:
            try:
                url = f"https://127.0.0.1:{self.management}/roots/0"
                text = urllib.request.urlopen(url, context=context, timeout=5).read()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        file = self.folder / "root.pem"
        file.write_bytes(text)
        return file

    def lead(self, name, address):
        """Gives a name another address."""
        for kind, value in [("clear-a", {"host": f"{name}."}), ("add-a", {"host": f"{name}.", "addresses": [address]})]:
            request = urllib.request.Request(f"http://127.0.0.1:{self.dns_management}/{kind}", json.dumps(value).encode())
            urllib.request.urlopen(request, timeout=5).read()


def handler(authority):
    class Door(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.pass_on()

        do_HEAD = do_POST = do_GET

        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with authority.lock:
                authority.requests.append(f"{self.command} {self.path}")
            held = authority.held
            if held and held.part in self.path and not held.lets_pass():
                self.close_connection = True
                return None
            if authority.refusal and "order-plz" in self.path:
                return self.give(*authority.refusal)
            if self.path.startswith("/renewal-info/"):
                if not authority.advice:
                    return self.give(404, {}, b"{}")
                window = dict(zip(["start", "end"], authority.advice))
                return self.give(200, {"Retry-After": "21600"}, json.dumps({"suggestedWindow": window}).encode())
            time.sleep(authority.delay)
            line = http.client.HTTPSConnection("127.0.0.1", authority.behind, context=ssl._create_unverified_context(), timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "content-length")}
            line.request(self.command, self.path, body or None, headers)
            answer = line.getresponse()
            text = answer.read()
            if "order-plz" in self.path and answer.status == 201:
                with authority.lock:
                    authority.taken += 1
            if self.path == "/dir" and authority.advice:
                text = json.dumps({**json.loads(text), "renewalInfo": f"https://localhost:{authority.port}/renewal-info"}).encode()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in ("connection", "content-length", "transfer-encoding")}
            self.give(answer.status, kept, text)

        def give(self, status, headers, body):
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return Door
