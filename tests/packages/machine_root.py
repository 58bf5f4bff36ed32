"""A fresh Debian with systemd as its first process, in namespaces of its own."""

import contextlib
import shutil
import signal
import subprocess
import time
from pathlib import Path

import machine

RELEASE = "bookworm"
INCLUDED = "systemd,systemd-sysv,ca-certificates,man-db,curl,procps"
BOOT_SECONDS = 60
# Only what the host's systemd would have to allow.
NSPAWN = ("systemd-nspawn", "--register=no", "--keep-unit", "--private-network", "--boot", "--quiet")
KEPT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")


def base():
    """The file system of a fresh Debian, as an archive that is made once."""

    def make(folder):
        machine.run("mmdebstrap", "--variant=minbase", f"--include={INCLUDED}", RELEASE, folder / "root.tar")

    return machine.kept(f"debian-{RELEASE}", [Path(__file__)], make) / "root.tar"


class Debian:
    def __init__(self, folder, log):
        self.folder, self.log = folder, log
        folder.mkdir()
        machine.run("tar", "-xf", base(), "-C", folder)

    def __enter__(self):
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*NSPAWN, "-D", str(self.folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + BOOT_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(RuntimeError, IndexError, FileNotFoundError):
                self.run("systemctl is-system-running --wait | grep -E 'running|degraded'")
                return self
            time.sleep(0.2)
        self.end()
        raise RuntimeError(f"Debian does not boot in systemd-nspawn:\n{self.log.read_text(errors='replace')[-2000:]}")

    def __exit__(self, *_):
        with contextlib.suppress(RuntimeError, IndexError, FileNotFoundError, subprocess.TimeoutExpired):
            self.run("systemctl poweroff")
            self.process.wait(20)
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self):
        """The first process of the namespace takes everything in it along."""
        with contextlib.suppress(IndexError, FileNotFoundError, ProcessLookupError):
            subprocess.run(["kill", "-KILL", self.leader()], check=False)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def leader(self):
        pid = self.process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]

    def run(self, script, **options):
        """What a shell of root prints there."""
        inside = ["nsenter", "--target", self.leader(), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        command = [*inside, "env", "-i", *KEPT, "sh", "-euc", script]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **options
        )
        if done.returncode:
            raise RuntimeError(f"`{script}` ended with {done.returncode}: {done.stdout[-1500:]}")
        return done.stdout

    def put(self, file, at, mode="0644"):
        machine.run("install", "-D", "-m", mode, file, self.folder / at.lstrip("/"))
