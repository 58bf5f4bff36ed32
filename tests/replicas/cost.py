#!/usr/bin/env python3
"""What a hop to another replica costs, and how calls per second grow with replicas on this machine, as ratios.

    tests/replicas/cost.py [--calls N] [--rounds N]

A call of a session at the replica that has it, beside the same call at another one: the median of its time, and the CPU time
of all replicas, in interleaved rounds. Then calls of clients without sessions behind nginx, with one, two and three replicas.
Uses `$LOCKKEEPER_BIN`, else `target/release/lockkeeper`.
"""

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from cluster import Cluster, free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
LEGACY = "2025-06-18"
MODERN = "2026-07-28"
ARGUMENTS = {"message": "x" * 100}


class Caller:
    """A client on one connection."""

    def __init__(self, port, key, path="/mcp/demo", tool="echo"):
        self.path, self.tool = path, tool
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(self, body, headers={}):
        self.connection.request("POST", self.path, json.dumps(body), {**self.headers, **headers})
        response = self.connection.getresponse()
        text = response.read()
        is_good = response.status == 202 or response.status == 200 and b'"result":' in text and b'"isError":true' not in text
        assert is_good, (response.status, text)
        return response

    def open(self):
        client = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}}
        session = self.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).headers["mcp-session-id"]
        self.join(session)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return session

    def join(self, session):
        self.headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}

    def call(self):
        self.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": self.tool, "arguments": ARGUMENTS}})

    def modern_call(self):
        prefix = "io.modelcontextprotocol/"
        meta = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}, f"{prefix}clientInfo": {"name": "cost", "version": "1"}}
        params = {"name": self.tool, "arguments": ARGUMENTS, "_meta": meta}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": self.tool}
        self.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, headers)


def cpu(pids):
    """Seconds of CPU time that these processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / TICKS


def timed(caller, calls, pids):
    """The median time of a call in microseconds, and its CPU time."""
    before, times = cpu(pids), []
    for _ in range(calls):
        began = time.perf_counter()
        caller.call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6, (cpu(pids) - before) / calls * 1e6


def hop(cluster, key, options):
    owner, other = Caller(cluster.members[0].port, key), Caller(cluster.members[1].port, key)
    other.join(owner.open())
    for caller in (owner, other):
        timed(caller, 200, cluster.pids())
    rounds = [(timed(owner, options.calls, cluster.pids()), timed(other, options.calls, cluster.pids())) for _ in range(options.rounds)]
    for index, what in enumerate(("time", "CPU time")):
        own, hopped = [[one[way][index] for one in rounds] for way in (0, 1)]
        ratios = sorted(there / here for here, there in zip(own, hopped))
        print(f"{what} of a call: {statistics.median(own):.0f} us at its replica, {statistics.median(hopped):.0f} us at another: {statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def throughput(cluster, key, seconds=5, clients=32):
    count, until = [0] * clients, time.monotonic() + seconds

    def run(index):
        caller = Caller(cluster.port, key)
        while time.monotonic() < until:
            caller.modern_call()
            count[index] += 1

    threads = [threading.Thread(target=run, args=(index,)) for index in range(clients)]
    before = cpu(cluster.pids())
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return sum(count) / seconds, (cpu(cluster.pids()) - before) / sum(count) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    binary = str(Path(os.environ.get("LOCKKEEPER_BIN") or ROOT / "target/release/lockkeeper").resolve())
    first = None
    for count in (1, 2, 3):
        with tempfile.TemporaryDirectory(prefix="lockkeeper-cost-") as folder:
            config = Path(folder) / "lockkeeper.toml"
            config.write_text('[servers.demo]\nbuiltin = "demo"\n')
            cluster = Cluster(binary, config, folder, free_port(), count)
            try:
                cluster.start()
                cluster.ready()
                key = cluster.create_key("cost", "--direct")
                if count == 3:
                    hop(cluster, key, options)
                rate, each = throughput(cluster, key)
                first = first or (rate, each)
                print(f"{count} replicas: {rate / first[0]:.2f} times the calls per second of one, {each / first[1]:.2f} times the CPU time of a call")
            finally:
                cluster.end()


if __name__ == "__main__":
    main()
