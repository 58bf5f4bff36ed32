#!/usr/bin/env python3
"""A rolling restart of all replicas behind Caddy, which asks `/readyz`, with calls all the while: none may fail, and no session
may be lost.

    tests/replicas/rolling.py [--rounds N]

Clients with sessions and without, at a server that every replica has and at one that one replica has for all, call without a
pause. Each replica in turn is asked to stop, and started again. Uses `$LOCKKEEPER_BIN`, else `target/release/lockkeeper`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import Cluster, free_port
from cost import ROOT, Caller

CADDY = """
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    reverse_proxy {members} {{
        lb_policy round_robin
        health_uri /readyz
        health_interval 200ms
        lb_try_duration 2s
        flush_interval -1
    }}
}}
"""
CONFIG = """
[limits]
shutdown_delay = "1s"
[servers.each]
builtin = "demo"
[servers.one]
command = "{binary}"
args = ["stdio"]
share = "all"
home = "one"
"""
# the server of all is a gateway of its own, with the same demonstration
TOOLS = {"each": "echo", "one": "demo__echo"}


class RollingCluster(Cluster):
    def start_proxy(self):
        members = " ".join(f"127.0.0.1:{member.port}" for member in self.members)
        file = self.folder / "Caddyfile"
        file.write_text(CADDY.format(port=self.port, members=members))
        log = open(self.folder / "caddy.log", "wb")
        self.proxy = subprocess.Popen(["/usr/bin/caddy", "run", "--config", file, "--adapter", "caddyfile"], stdout=log, stderr=log)
        end = time.monotonic() + 10
        while not self.answers():
            if time.monotonic() > end:
                raise RuntimeError("Caddy does not answer")
            time.sleep(0.02)


class Load:
    """Callers, each on a thread: what they did, and what failed."""

    def __init__(self, port, key):
        self.port, self.key, self.over, self.began = port, key, threading.Event(), time.monotonic()
        self.calls, self.longest, self.failed, self.lock = 0, 0, [], threading.Lock()
        kinds = [(server, has_session) for server in ("each", "one") for has_session in (True, True, False, False)]
        self.threads = [threading.Thread(target=self.run, args=kind) for kind in kinds]

    def run(self, server, has_session):
        caller = Caller(self.port, self.key, f"/mcp/{server}", TOOLS[server])
        act = caller.open if has_session else caller.modern_call
        while not self.over.is_set():
            began = time.monotonic()
            try:
                act()
                act, failure = caller.call if has_session else caller.modern_call, None
            except Exception as error:
                when = f"{time.monotonic() - self.began:.2f} s, after {time.monotonic() - began:.2f} s"
                failure = f"{when}: {server}, {'session' if has_session else 'no session'}: {error!r}"
                caller.connection.close()
            with self.lock:
                self.calls += 1
                self.longest = max(self.longest, time.monotonic() - began)
                self.failed += [failure] if failure else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    binary = str(Path(os.environ.get("LOCKKEEPER_BIN") or ROOT / "target/release/lockkeeper").resolve())
    with tempfile.TemporaryDirectory(prefix="lockkeeper-rolling-") as folder:
        config = Path(folder) / "lockkeeper.toml"
        config.write_text(CONFIG.format(binary=binary))
        cluster = RollingCluster(binary, config, folder, free_port())
        try:
            cluster.start()
            cluster.ready()
            load = Load(cluster.port, cluster.create_key("rolling", "--direct"))
            [thread.start() for thread in load.threads]
            for index in [*range(cluster.count)] * options.rounds:
                before, times = load.calls, [time.monotonic() - load.began]
                code = cluster.members[index].stop()
                times.append(time.monotonic() - load.began)
                cluster.start_member(index)
                cluster.members[index].ready()
                stopped = f"asked to stop at {times[0]:.2f} s, ended with {code} at {times[1]:.2f} s"
                print(f"replica {index} {stopped}, and is back; {load.calls - before} calls meanwhile", flush=True)
            time.sleep(1)
            load.over.set()
            [thread.join() for thread in load.threads]
        finally:
            cluster.end()
    for failure in load.failed[:20]:
        print(f"FAILED: {failure}")
    print(f"{load.calls} calls, the longest {load.longest:.1f} s, {len(load.failed)} failed")
    sys.exit(1 if load.failed or not load.calls else 0)


if __name__ == "__main__":
    main()
