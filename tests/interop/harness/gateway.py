"""The gateway as an operator runs it: the built binary, its configuration, its data folder, its command line."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import leaks

KEY = re.compile(r"lkk_[0-9A-Za-z]{8,}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")
START_SECONDS = 60
READY_SECONDS = 180
STOP_SECONDS = 60


def free_port():
    """A free port, below those that the system assigns to connections: it is still free when it is used."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class Gateway:
    def __init__(self, binary, config, folder, port):
        """`config` is a file, or None where the command line says it all."""
        self.binary, self.folder, self.port = binary, Path(folder), port
        self.configured = ["--config", str(config)] if config else []
        self.data, self.log, self.process = self.folder / "data", self.folder / "gateway.log", None
        self.url, self.address = f"http://127.0.0.1:{port}", "127.0.0.1"
        # it speaks TLS itself, so that it is asked by its socket
        self.secured = False
        # what starts the binary, such as `prlimit`; it must become the binary
        self.launcher = []
        self.environment = {}

    @classmethod
    def at(cls, context):
        """The gateway that the driver runs."""
        commands = context["commands"]
        return cls(context["binary"], commands["config"], commands["folder"], int(context["url"].rsplit(":", 1)[1]))

    @classmethod
    def alone(cls, context, name, config):
        """A gateway of a case's own."""
        folder = Path(context["work"]) / name
        folder.mkdir()
        return cls(context["binary"], config, folder, free_port())

    @classmethod
    def of_suite(cls, binary, config, folder, port):
        """The gateway of a suite: one, or as many replicas behind nginx as LOCKKEEPER_REPLICAS says."""
        count = int(os.environ.get("LOCKKEEPER_REPLICAS") or 1)
        if count == 1:
            return cls(binary, config, folder, port)
        sys.path.append(str(Path(__file__).resolve().parents[2] / "replicas"))
        import cluster
        return cluster.Cluster(binary, config, folder, port, count)

    def pids(self):
        return [self.process.pid]

    def statuses(self):
        """What `status` tells of each process."""
        return [json.loads(self.cli("status", "--json"))]

    def commands(self):
        """By which configuration and folder the command line finds it."""
        return {"config": self.configured[1], "folder": str(self.folder)}

    def stored(self):
        """What it stored outside of its folder."""
        return {}

    def end(self):
        """Ends it, and what was started for it."""
        self.stop()

    def start(self, *arguments):
        """Starts and waits until it answers. It is in the group of who starts it, and ends with that."""
        own = ["--data-dir", str(self.data), "--listen", f"{self.address}:{self.port}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.launcher, self.binary, "serve", *self.configured, *own, *arguments],
                cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment},
            )
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the gateway ended with {self.process.returncode}:\n{self.log_text()[-3000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"the gateway does not answer after {START_SECONDS} s:\n{self.log_text()[-3000:]}")
            time.sleep(0.02)

    def ready(self):
        """Waits until every server has done its handshake."""
        end = time.monotonic() + READY_SECONDS
        while True:
            backends = json.loads(self.cli("status", "--json"))["servers"]
            waiting = [f"{backend['id']}: {backend['state']}" for backend in backends if backend["state"] not in ("ready", "elsewhere")]
            if not waiting:
                return
            if time.monotonic() > end:
                raise RuntimeError("not ready: " + "; ".join(waiting))
            time.sleep(0.2)

    def answers(self):
        if self.secured:
            command = [self.binary, "healthcheck", "--data-dir", str(self.data)]
            return subprocess.run(command, cwd=self.folder, capture_output=True, check=False).returncode == 0
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def kill(self):
        """As a power cut would. Its children find their input closed."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Asks it to end; gives its exit code, or None where it had to be killed."""
        if self.process is None or self.process.poll() is not None:
            return self.process and self.process.returncode
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def cli(self, *arguments):
        """What a subcommand prints."""
        command = [self.binary, *arguments, *self.configured, "--data-dir", str(self.data)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"})
        if done.returncode != 0:
            raise RuntimeError(f"`lockkeeper {' '.join(arguments)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def create_key(self, name, *options):
        found = KEY.search(self.cli("keys", "create", name, *options, "--json"))
        if not found:
            raise RuntimeError("`lockkeeper keys create --json` printed no key")
        leaks.record(found.group())
        return found.group()

    def metrics(self):
        """What it counts, as Prometheus reads it."""
        key = self.create_key("metrics", "--direct", "--admin")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().read()

    @staticmethod
    def key_id(key):
        return key.split("_")[1]

    def log_text(self):
        return self.log.read_text(errors="replace")

    def keys_printed(self):
        """The keys that it has shown since its first start."""
        return sorted(set(KEY.findall(self.log_text())))
