"""`deploy/nginx.replicas.conf` and `deploy/haproxy.cfg` at work, each in front of three replicas: all checks of a single gateway,
and that requests of a session reach the replica that has it. Each hop that a request takes to another replica is counted."""

import concurrent.futures
import http.client
import json
import re
import sys
import urllib.parse
from pathlib import Path

import checks
from checks import Report, equal
from client import Client, Line, Stream, text
from gateway import free_port
from proxy import NAME, Nginx, Proxy, exchanged

sys.path.append(str(Path(__file__).resolve().parent.parent / "replicas"))
from cluster import Cluster

COUNT = 3
# so many that each replica gets some by chance
SESSIONS, CALLS, STRANGERS = 36, 5, 120
ADDRESSES = ("10.0.0.5:8080", "10.0.0.6:8080", "10.0.0.7:8080")
WEBSOCKET = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "mcp",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Members(Cluster):
    """Replicas for a proxy of `deploy/`; none of their own is in front."""

    def __init__(self, binary, folder):
        super().__init__(binary, None, folder, free_port(), COUNT)
        self.url = f"https://{NAME}"

    def start_proxy(self):
        pass

    def counted(self, name):
        """The sum of a counter over its labels, for each running replica."""
        return [total(self.members[index].port, name) for index in range(self.count) if self.is_running(index)]

    def hops(self):
        return sum(self.counted("lockkeeper_replica_hops_total"))


def total(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


class NginxReplicas(Nginx):
    """`upstream` is a list of ports here."""

    name = "nginx-replicas"
    # nginx 1.22 sends a session by its login, wherever it went meanwhile
    learns = False

    def site(self):
        servers = {here: f"127.0.0.1:{port}" for here, port in zip(ADDRESSES, self.upstream)}
        return exchanged("nginx.replicas.conf", {**self.places(), **servers})


class HAProxyReplicas(Proxy):
    """`upstream` is a list of ports here."""

    name, learns, down = "haproxy-replicas", True, 503

    def command(self):
        pair = self.folder / "pair.pem"
        pair.write_text(self.certificate.read_text() + self.key.read_text())
        exchanged("haproxy.cfg", {here: "" for here in ADDRESSES}, times=2)
        places = {
            "bind :443 ssl crt /etc/haproxy/mcp.example.com.pem": f"bind 127.0.0.1:{self.port} ssl crt {pair}",
            "log /dev/log local0": "log stdout format raw local0", "    user haproxy\n": "", "    group haproxy\n": "",
            "127.0.0.1:10001": f"127.0.0.1:{free_port()}",
        }
        site = exchanged("haproxy.cfg", places)
        for here, port in zip(ADDRESSES, self.upstream):
            site = site.replace(here, f"127.0.0.1:{port}")
        (self.folder / "haproxy.cfg").write_text(site)
        # what it writes to standard output is its access log
        self.log = self.output
        return ["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")]


KINDS = [NginxReplicas, HAProxyReplicas]


def behind(kind, built, work, out):
    """The report of three replicas behind one proxy."""
    folder = work / kind.name
    (folder / "gateway").mkdir(parents=True)
    report, running = Report(kind.name), None
    gateway = Members(built, folder / "gateway")
    try:
        gateway.start()
        gateway.ready()
        for index, member in enumerate(gateway.members):
            (out / f"{kind.name}-gateway-{index}.log").symlink_to(member.log)
        running = kind([member.port for member in gateway.members], work / "certificate.pem", work / "key.pem", out)
        running.start()
        stay(report, gateway, running)
        checks.run(report, gateway, running)
    except Exception as error:
        report.broke(error)
    finally:
        if running:
            running.stop()
        gateway.end()
        for index, member in enumerate(gateway.members):
            keep(out / f"{kind.name}-gateway-{index}.log", member.log)
    return report


def keep(link, log):
    link.unlink(missing_ok=True)
    link.write_bytes(log.read_bytes())


def stay(report, gateway, proxy):
    """Requests of a session stay at its replica, and replicas share the work."""
    line = Line(proxy)
    keys = [gateway.create_key(f"session-{index}", "--direct") for index in range(SESSIONS)]
    clients = [Client(line, key) for key in keys]
    with report.check("calls of a session go to its replica, and each replica has sessions"):
        before = gateway.counted("lockkeeper_http_requests_total")
        equal(hops(gateway, lambda: begin(clients)), 0)
        equal(hops(gateway, lambda: call(clients, CALLS)), 0)
        after = gateway.counted("lockkeeper_http_requests_total")
        equal([index for index in range(COUNT) if after[index] - before[index] < CALLS], [])
    with report.check("messages of HTTP+SSE go to the replica of their stream, by header and by query"):
        for by_query in (False, True):
            equal(hops(gateway, lambda: [over_sse(line, key, by_query) for key in keys[:6]]), 0)
    with report.check("requests without a login are shared"):
        before = gateway.counted("lockkeeper_http_requests_total")
        for _ in range(STRANGERS):
            line.json("/.well-known/oauth-authorization-server")
        after = gateway.counted("lockkeeper_http_requests_total")
        equal([index for index in range(COUNT) if after[index] - before[index] < STRANGERS // 8], [])
    with report.check("a WebSocket opens"):
        equal(line.send("GET", "/ws", headers={**WEBSOCKET, "Authorization": f"Bearer {keys[0]}"}).status, 101)
    with report.check("sessions of a replica that is killed go on at others, and stay there"):
        gateway.members[0].kill()
        call(clients, 1)
        equal(hops(gateway, lambda: call(clients, CALLS)), 0)
    with report.check("they go on when the replica is back"):
        gateway.start_member(0)
        gateway.ready()
        taken = hops(gateway, lambda: call(clients, CALLS))
        if proxy.learns:
            equal(taken, 0)


def hops(gateway, action):
    """How many requests replicas carried to each other meanwhile."""
    before = gateway.hops()
    action()
    return gateway.hops() - before


def begin(clients):
    for client in clients:
        client.begin({})


def call(clients, times):
    def one(client):
        for _ in range(times):
            equal(text(client.ask("tools/call", name="demo__echo", arguments={"message": "here"})), "here")

    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(one, clients))


def over_sse(line, key, by_query):
    """A session over HTTP+SSE with a few requests."""
    login = {} if by_query else {"Authorization": f"Bearer {key}"}
    path = f"/sse?api_key={key}" if by_query else "/sse"
    stream = Stream(line.send("GET", path, headers={"Accept": "text/event-stream", **login}))
    address = urllib.parse.urlsplit(stream.next()[1])
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "proxies", "version": "1"}}
    for number, (method, params) in enumerate([("initialize", hello), *[("ping", {})] * 4]):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        headers = {"Content-Type": "application/json", **login}
        equal(line.send("POST", f"{address.path}?{address.query}", json.dumps(message), headers).status, 202)
        stream.message(lambda answer: answer.get("id") == number)
    stream.close()
