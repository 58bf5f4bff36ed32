#!/usr/bin/env python3
"""The part of the suite that runs where programs are kept in: behind a seccomp profile, or in a unit.

    inside.py prepare USER DATA     as root: the files of the servers, a configuration and a data folder as the package has them
    inside.py run DATA NAME         as that user: the servers of `tests/peers` behind one gateway, and how long a program takes to start

Prints the lines of a report.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "interop" / "harness"), str(ROOT / "tests" / "peers")]
sys.dont_write_bytecode = True
import machine
import peers
import servers
from gateway import Gateway, free_port

WORK = Path("/srv/peers")
CONFIG = Path("/etc/lockkeeper/peers.toml")
BINARY = "/usr/local/bin/lockkeeper"
CASES = ("at_once", "two_browsers")
LAUNCHES = 30
# What a launcher may add to the start of a program.
MOST = 0.015
TIMES = ("2026.1.26", "2025.9.25", "0.6.2")


def installed():
    """npm packages and interpreters that `tests/peers/run` has installed before: here is no network."""
    folder = lambda name: next(path for path in sorted(machine.cache().glob(f"{name}-*")) if (path / ".complete").exists())
    python = lambda name: folder(f"python-{name}") / "bin" / "python"
    names = ("servers", "client-1", "client-old", "mcp-1.6.0", "mcp-1.22.0", "mcp-1.26.0", "serena")
    pythons = {name: python(name) for name in names} | {f"time-{release}": folder(f"python-time-{release}") for release in TIMES}
    return folder("npm-peers") / "node_modules", pythons


def prepare(user, data):
    WORK.mkdir(parents=True, exist_ok=True)
    npm, pythons = installed()
    servers.files(WORK)
    (WORK / "project").mkdir()
    (WORK / "project" / "boats.py").write_text("def count(boats):\n    return len(boats)\n")
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text("\n".join(peer.toml() for peer in peers.piped(npm, pythons, WORK)))
    Path(data).mkdir(parents=True, exist_ok=True)
    os.chmod(data, 0o700)
    for folder in (WORK, Path(data)):
        subprocess.run(["chown", "-R", f"{user}:", folder], check=True)


def run(data, name):
    npm, pythons = installed()
    healthy = peers.piped(npm, pythons, WORK)
    folder = Path(data).parent
    gateway = Gateway(BINARY, str(CONFIG), folder, free_port())
    gateway.data, gateway.log = Path(data), WORK / "gateway.log"
    failed = 0
    try:
        started = time.monotonic()
        os.chdir(WORK)
        gateway.folder = WORK
        gateway.start()
        context = {
            "url": gateway.url, "binary": BINARY, "config": str(CONFIG), "work": str(WORK), "started": started,
            "commands": {"config": str(CONFIG), "folder": str(WORK)},
            "directKey": gateway.create_key("peers-direct", "--direct"),
            "peers": [{**vars(peer), "command": [str(part) for part in peer.command]} for peer in healthy], "sick": [],
        }
        # the cases look for the data in the folder of the gateway
        with contextlib.suppress(FileExistsError):
            (WORK / "data").symlink_to(data)
        environment = {**os.environ, "INTEROP": json.dumps(context), "PYTHONPATH": str(ROOT / "tests" / "interop" / "harness")}
        for case in CASES:
            done = subprocess.run([pythons["client-1"], ROOT / "tests" / "peers" / "cases" / f"{case}.py"], env=environment, timeout=900)
            failed += done.returncode != 0
        text = gateway.cli("status")
        print("\n".join(f"# {line}" for line in text[text.index("PROGRAM ") :].split("\n\n")[0].splitlines()))
        means = plan(gateway)
        failed += not quick(means)
    finally:
        code = gateway.stop()
    print(f"{'ok' if code == 0 else 'not ok'} - it ended by itself when asked ({code})", flush=True)
    return failed + (code != 0)


def plan(gateway):
    """What a launcher gives up here, by what `status` says."""
    rows = {}
    for server in json.loads(gateway.cli("status", "--json"))["servers"]:
        if server["id"] == "everything":
            rows = {state["protection"]: state.get("by") for state in server["containment"]["protections"]}
    places = {"folder": str(gateway.data), "handed": [], "files": [str(CONFIG)]}
    off = {"run_as": None, "unprivileged": False, "hidden": None, "domain": None, "open_files": None, "core": None, "group": None}
    by = rows.get("data-folder")
    print(f"# {rows}")
    if by == "namespace":
        return off, off | {"unprivileged": True, "hidden": places, "domain": "Scopes"}
    if by == "landlock":
        return off, off | {"unprivileged": True, "domain": {"Around": places}}
    return off, off | {"unprivileged": True, "domain": "Scopes"}


def quick(plans):
    """Launches the same program with both plans in turns, and compares the medians."""
    took = ([], [])
    for _ in range(LAUNCHES):
        for times, plan in zip(took, plans):
            before = time.perf_counter()
            subprocess.run([BINARY, "\x01launch", str(os.getpid()), json.dumps(plan), "/bin/true"], check=True)
            times.append(time.perf_counter() - before)
    off, keys = map(statistics.median, took)
    print(f"# a launch: {off * 1000:.1f} ms off, {keys * 1000:.1f} ms contained")
    print(f"{'ok' if keys - off <= MOST else 'not ok'} - a contained program starts {(keys - off) * 1000:.1f} ms later, {MOST * 1000:.0f} ms at most")
    return keys - off <= MOST


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(*sys.argv[2:])
    else:
        sys.exit(1 if run(*sys.argv[2:]) else 0)
