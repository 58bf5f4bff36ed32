"""nginx and Caddy with the files of `deploy/`, on free ports of this machine. Knows nothing of what passes through them."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

from gateway import free_port

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
# the name that all files of `deploy/` use
NAME = "mcp.example.com"
START_SECONDS = 20
STOP_SECONDS = 10


def certificate(folder):
    """A certificate for NAME that signs itself, and its key, in `folder`."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
         "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
        check=True, capture_output=True,
    )


def exchanged(name, places, times=1):
    """A file of `deploy/` with each of these texts, which it has so many times, replaced."""
    text = (DEPLOY / name).read_text()
    for here, there in places.items():
        if text.count(here) != times:
            raise RuntimeError(f"deploy/{name} has `{here}` {text.count(here)} times")
        text = text.replace(here, str(there))
    return text


class Proxy:
    """A proxy in front of the gateway at `upstream`. Its logs are in `out` and begin with its name."""

    # status of a request while the gateway is down
    down = 502

    def __init__(self, upstream, certificate, key, out):
        self.upstream, self.certificate, self.key, self.out = upstream, certificate, key, out
        self.port, self.process, self.folder = free_port(), None, certificate.parent / self.name
        self.log, self.output = out / f"{self.name}.access.log", out / f"{self.name}.output.log"

    def start(self):
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)},
            )
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not answer:\n{self.output.read_text()[-2000:]}")
            time.sleep(0.02)

    def answers(self):
        context = ssl.create_default_context(cafile=self.certificate)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as raw:
                context.wrap_socket(raw, server_hostname=NAME).close()
            return True
        except OSError:
            return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def logs(self):
        """Everything that it wrote, by file."""
        return {path.name: path.read_text(errors="replace") for path in self.out.glob(f"{self.name}.*")}


class Nginx(Proxy):
    name = "nginx"

    def command(self):
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        (self.folder / "site.conf").write_text(self.site())
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\npid {self.folder}/nginx.pid;\nerror_log {self.out}/{self.name}.main.log warn;\n"
            f"events {{ worker_connections 512; }}\nhttp {{ include {self.folder}/site.conf; }}\n"
        )
        return [program, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]

    def site(self):
        """`deploy/nginx.conf` for this machine."""
        return exchanged("nginx.conf", {**self.places(), "server 127.0.0.1:8080;": f"server 127.0.0.1:{self.upstream};"})

    def places(self):
        """The texts of any file for nginx that differ on this machine."""
        certificates = f"/etc/letsencrypt/live/{NAME}"
        return {
            "listen 443 ssl http2;": f"listen 127.0.0.1:{self.port} ssl http2;",
            f"{certificates}/fullchain.pem": self.certificate,
            f"{certificates}/privkey.pem": self.key,
            "/var/log/nginx/mcp.access.log": self.log,
            "/var/log/nginx/mcp.error.log": self.out / f"{self.name}.error.log",
        }


class Caddy(Proxy):
    name = "caddy"

    def command(self):
        adapted = subprocess.run(
            ["caddy", "adapt", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")],
            check=True, capture_output=True, text=True, env={**os.environ, "LOCKKEEPER_UPSTREAM": f"127.0.0.1:{self.upstream}"},
        )
        (self.folder / "caddy.json").write_text(json.dumps(self.config(json.loads(adapted.stdout))))
        return ["caddy", "run", "--config", str(self.folder / "caddy.json")]

    def config(self, config):
        """`deploy/Caddyfile`, adapted, for this machine."""
        config["admin"] = {"disabled": True}
        [server] = config["apps"]["http"]["servers"].values()
        server |= {"listen": [f"127.0.0.1:{self.port}"], "automatic_https": {"disable": True}, "tls_connection_policies": [{}]}
        pair = {"certificate": str(self.certificate), "key": str(self.key)}
        config["apps"]["tls"] = {"certificates": {"load_files": [pair]}}
        for name, log in config["logging"]["logs"].items():
            path = self.out / "caddy.error.log" if name == "default" else self.log
            log["writer"] = {"output": "file", "filename": str(path)}
        return config


KINDS = [Nginx, Caddy]
