"""Several gateways on one PostgreSQL database, behind nginx that hands requests out in turn: as one gateway to who uses it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "interop" / "harness")]
from disturb import Cable
from gateway import Gateway, free_port

NGINX = HERE / "nginx.conf"


class Postgres:
    """A server of its own in a folder that is deleted at the end. `environment` is for the server alone."""

    def __init__(self, environment=None):
        self.environment = environment or {}
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="lockkeeper-postgres-")), free_port()
        self.programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        # the server refuses to run as root
        self.prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.prefix:
            shutil.chown(self.folder, "postgres")
        self.run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "lockkeeper")
        self.start()
        self.url = f"postgres://lockkeeper@127.0.0.1:{self.port}/postgres"

    def run(self, program, *arguments):
        command = [*self.prefix, str(self.programs / program), *arguments]
        return subprocess.run(command, cwd="/", check=True, capture_output=True, text=True).stdout

    def control(self, *arguments):
        with contextlib.suppress(subprocess.CalledProcessError):
            command = [*self.prefix, str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), *arguments]
            nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(command, cwd="/", check=True, env={**os.environ, **self.environment}, **nowhere)

    def start(self):
        options = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=300"
        self.control("-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def restart(self):
        """As at a failover: connections end at once."""
        self.control("-m", "immediate", "stop")
        self.start()

    def query(self, text):
        return self.run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "lockkeeper", "-At", "-c", text, "postgres")

    def dump(self):
        return self.run("pg_dump", "-h", "127.0.0.1", "-p", str(self.port), "-U", "lockkeeper", "postgres").encode()

    def stop(self):
        self.control("-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster(Gateway):
    """Answers to everything that one gateway answers to; `members` are the replicas."""

    def __init__(self, binary, config, folder, port, count=3):
        super().__init__(binary, config, folder, port)
        self.count, self.members, self.database, self.proxy = count, [], None, None
        self.arguments, self.cables = [], []
        self.toml = Path(config).read_text() if config else ""

    def start(self, *arguments):
        self.arguments = arguments
        self.database = self.database or Postgres()
        for index in range(len(self.members), self.count):
            self.members.append(self.member(index))
        for index in range(self.count):
            if not self.is_running(index):
                self.start_member(index)
        if self.proxy is None or self.proxy.poll() is not None:
            self.start_proxy()
        self.process = self.proxy

    def member(self, index):
        folder = self.folder / f"replica-{index}"
        (folder / "data").mkdir(parents=True)
        self.cables.append(Cable(self.database.port))
        url = f"postgres://lockkeeper@127.0.0.1:{self.cables[index].port}/postgres"
        text = f'database = "{url}"\n{self.toml}\n[replica]\nlisten = "127.0.0.1:{free_port()}"\n'
        text += "" if "[servers." in text else '[servers.demo]\nbuiltin = "demo"\n'
        text += "" if "[http]" in text else '[http]\ntrusted_proxies = ["127.0.0.1/32"]\n'
        config = Path(self.configured[1]).parent / f"replica-{index}.toml" if self.configured else folder / "replica.toml"
        config.write_text(text)
        member = Gateway(self.binary, config, folder, free_port())
        member.environment, member.log = self.environment, self.folder / f"replica-{index}.log"
        return member

    def start_member(self, index):
        member, first = self.members[index], self.members[0]
        key = "master.key"
        if index and not (member.data / key).exists():
            shutil.copy(first.data / key, member.data / key)
        member.start("--public-url", self.url, *self.arguments)

    def start_proxy(self):
        servers = " ".join(f"server 127.0.0.1:{member.port} max_fails=1 fail_timeout=1s;" for member in self.members)
        text = NGINX.read_text()
        for name, value in {"folder": self.folder, "servers": servers, "port": self.port, "count": self.count}.items():
            text = text.replace(f"@{name}@", str(value))
        file = self.folder / "nginx.conf"
        file.write_text(text)
        self.proxy = subprocess.Popen(["/usr/sbin/nginx", "-p", str(self.folder), "-c", str(file), "-g", "daemon off;"])
        end = time.monotonic() + 10
        while not self.answers():
            if time.monotonic() > end:
                raise RuntimeError("nginx does not answer")
            time.sleep(0.02)

    def is_running(self, index):
        process = self.members[index].process
        return process is not None and process.poll() is None

    def ready(self):
        for member in self.members:
            member.ready()

    def commands(self):
        return self.members[0].commands()

    def statuses(self):
        return [status for member in self.members for status in member.statuses()]

    def cli(self, *arguments):
        return self.members[0].cli(*arguments)

    def kill(self):
        for index, member in enumerate(self.members):
            if self.is_running(index):
                member.kill()

    def pids(self):
        return [member.process.pid for index, member in enumerate(self.members) if self.is_running(index)]

    def pause(self, index):
        self.members[index].process.send_signal(signal.SIGSTOP)

    def resume(self, index):
        self.members[index].process.send_signal(signal.SIGCONT)

    def stop(self):
        codes = [member.stop() for member in self.members]
        if self.proxy:
            self.proxy.terminate()
            self.proxy.wait()
        return next((code for code in codes if code != 0), 0)

    def stored(self):
        return {"database": self.database.dump()}

    def end(self):
        """Ends everything, the database too."""
        self.stop()
        if self.database:
            self.database.stop()

    def log_text(self):
        return "".join(member.log_text() for member in self.members)
