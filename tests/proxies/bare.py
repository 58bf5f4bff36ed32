"""Proxies that add no forwarding header: nginx that passes only the name, and HAProxy in tcp mode and without `option forwardfor`.
The gateway cannot tell their requests from those of a process on this machine, except by the name."""

from checks import Report, equal
from client import Line
from gateway import Gateway, free_port
from proxy import DEPLOY, NAME, Nginx, Proxy


class BareNginx(Nginx):
    name = "nginx-bare"

    def site(self):
        return (
            f"server {{ listen 127.0.0.1:{self.port} ssl; server_name {NAME};\n"
            f"ssl_certificate {self.certificate}; ssl_certificate_key {self.key}; access_log {self.log};\n"
            f"location / {{ proxy_pass http://127.0.0.1:{self.upstream}; proxy_http_version 1.1; proxy_set_header Host $host; }} }}\n"
        )


class HAProxy(Proxy):
    def command(self):
        pair = self.folder / "pair.pem"
        pair.write_text(self.certificate.read_text() + self.key.read_text())
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(
            f"defaults\n mode {self.mode}\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
            f"listen gateway\n bind 127.0.0.1:{self.port} ssl crt {pair}\n server one 127.0.0.1:{self.upstream}\n"
        )
        return ["haproxy", "-db", "-f", str(configuration)]


class HAProxyTcp(HAProxy):
    name, mode = "haproxy-tcp", "tcp"


class HAProxyHttp(HAProxy):
    name, mode = "haproxy-http", "http"


def check(binary, work, out):
    """The report of one gateway behind each of them."""
    report = Report("without a forwarding header")
    folder = work / "bare"
    folder.mkdir()
    gateway = Gateway(binary, DEPLOY / "lockkeeper.toml", folder, free_port())
    gateway.log = out / "bare-gateway.log"
    try:
        gateway.start()
        gateway.ready()
        for kind in (BareNginx, HAProxyTcp, HAProxyHttp):
            with report.check(f"{kind.name}: a stranger gets no metrics, an administrator does"):
                behind(kind, gateway, work, out)
    except Exception as error:
        report.broke(error)
    finally:
        gateway.stop()
    return report


def behind(kind, gateway, work, out):
    (work / kind.name).mkdir()
    running = kind(gateway.port, work / "certificate.pem", work / "key.pem", out)
    key = gateway.create_key(kind.name, "--direct", "--admin")
    try:
        running.start()
        line = Line(running)
        refused = line.send("GET", "/metrics")
        equal(refused.status, 401)
        equal("lockkeeper_" in refused.read().decode(), False)
        equal(line.send("GET", "/metrics", headers={"Authorization": f"Bearer {key}"}).status, 200)
    finally:
        running.stop()
