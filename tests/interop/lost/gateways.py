"""The gateways of the suite: one that clients reach directly, and others that are restarted behind the nginx of `deploy/`."""

import importlib.util
import json
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import machine
from gateway import Gateway, free_port
from recorder import Recorder

HERE = Path(__file__).parent
HOLDER = machine.ROOT / "tests" / "it" / "cli" / "passed_socket.py"
CONFIG = """
public_url = {url}
[limits]
server_sessions = 1000
[servers.lost]
command = {python}
args = [{server}]
env = {{ LOST_STARTS = {starts} }}
"""


def deploy():
    """`tests/proxies/proxy.py`; a module `proxy` is beside this suite too."""
    spec = importlib.util.spec_from_file_location("deploy_proxy", machine.ROOT / "tests" / "proxies" / "proxy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Plain(Gateway):
    # seconds between its end and its next start
    pause = 0


class PassedSocket(Gateway):
    """A gateway whose listening socket is held by a service manager, so that connections wait while it restarts: here for longer
    than a client tries that gives up after two refusals."""

    pause = 3

    def hold(self):
        serve = [self.binary, "serve", *self.configured, "--data-dir", str(self.data)]
        command = [sys.executable, str(HOLDER), "local", str(self.folder), *serve]
        pipe = subprocess.PIPE
        self.holder = subprocess.Popen(command, cwd=self.folder, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self.port = int(self.holder.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, *_):
        self.holder.stdin.write("start\n")
        end = time.monotonic() + 60
        while not self.answers():
            if time.monotonic() > end:
                raise RuntimeError("the gateway with a passed socket does not answer")

    def stop(self):
        """SIGTERM; gives the exit code."""
        self.holder.stdin.write("stop\n")
        return int(self.holder.stdout.readline())

    def end(self):
        if self.holder.poll() is None:
            self.stop()
            self.holder.stdin.close()
            self.holder.wait(10)


class Place:
    """A gateway and the way to it; each cell has a recorder of its own in front."""

    def __init__(self, name, binary, work, logs, kind=Plain):
        self.name, self.logs, self.folder = name, logs, work / name
        self.folder.mkdir()
        self.starts = self.folder / "starts"
        config = self.folder / "lockkeeper.toml"
        self.gateway = kind(binary, config, self.folder, free_port())
        if kind is PassedSocket:
            self.gateway.hold()
        values = {"url": self.gateway.url, "python": sys.executable, "server": str(HERE / "server.py")}
        values["starts"] = str(self.starts)
        config.write_text(CONFIG.format(**{key: json.dumps(value) for key, value in values.items()}))
        self.nginx, self.since = None, None

    def start(self):
        self.gateway.log = self.logs / f"gateway-{self.name}.log"
        self.gateway.start()
        self.gateway.ready()

    def recorder(self):
        """The way of one client: to the gateway, or by TLS to nginx if that is in front."""
        if not self.nginx:
            return Recorder(free_port(), self.gateway.port)
        context = ssl.create_default_context(cafile=self.nginx.certificate)
        return Recorder(free_port(), self.nginx.port, (context, self.proxies.NAME))

    def put_behind_nginx(self):
        """nginx with the file of `deploy/`."""
        self.proxies = deploy()
        self.proxies.certificate(self.folder)
        kind = type("Nginx", (self.proxies.Nginx,), {"name": f"nginx-{self.name}"})
        (self.folder / kind.name).mkdir()
        self.nginx = kind(self.gateway.port, self.folder / "certificate.pem", self.folder / "key.pem", self.logs)
        self.nginx.start()

    def restart(self):
        """SIGTERM, and another start at the same port and data folder. `since`: from when on clients may expect an answer."""
        asked = time.time()
        code = self.gateway.stop()
        stopped = time.time()
        time.sleep(self.gateway.pause)
        self.gateway.start()
        started = time.time()
        self.since = asked if self.gateway.pause else started
        times = f"ended with {code} after {stopped - asked:.1f} s, answers after {started - asked:.1f} s"
        print(f"# {self.name}: {times}", file=sys.stderr, flush=True)

    def started(self, nonces):
        """How often each of these calls was started."""
        lines = self.starts.read_text().split() if self.starts.exists() else []
        return {nonce: lines.count(nonce) for nonce in nonces}

    def end(self):
        if self.nginx:
            self.nginx.stop()
        self.gateway.end()
        if self.starts.exists():
            shutil.copy(self.starts, self.logs / f"starts-{self.name}")
