#!/usr/bin/env python3
"""What clients of three replicas see while those are killed, restarted and cut off, and their database restarts or freezes: a table
of calls that were answered rightly, clearly refused, answered wrongly, never answered, or run twice, and of sessions lost.

    tests/replicas/load.py [calm|kills|rolling|restarts|frozen|cut]…      all, or those given

nginx hands requests out in turn, whatever the session. Servers write every execution into a file. Ends with 1 if a call was wrong,
hung or run twice, or a session lost. `--odd N` prints so many of the refusals too. Needs PostgreSQL, nginx and nft (as root). Uses
`$LOCKKEEPER_BIN`, else `target/release/lockkeeper`.
"""

import argparse
import collections
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time

from scenarios import network
from scenarios.load_clients import KINDS
from scenarios.place import Broken, replicas

CONFIG = """
[limits]
shutdown = "10s"
shutdown_delay = "0s"
"""
HOME = """
[servers.one]
command = {python}
args = [{server}, {record}]
share = "all"
home = "one"
"""
COLUMNS = ("right", "refused", "wrong", "hung", "twice", "lost")


class Load:
    """Clients, each on a thread. `counts` are outcomes; `odd` what was seen of those that are not right."""

    def __init__(self, place, seed, keeps_tasks):
        # a task of a replica that was killed is gone with it
        self.keeps_tasks = keeps_tasks
        self.place, self.over, self.lock = place, threading.Event(), threading.Lock()
        self.counts, self.odd, self.not_run, self.began = collections.Counter(), [], {}, time.monotonic()
        self.gaps, self.serial = {}, itertools.count()
        users = [place.key, place.create_key("other", "--direct", "--user", "other")]
        clients = [kind(self, user, random.Random(f"{seed}/{index}")) for index, kind in enumerate(KINDS) for user in users]
        self.threads = [threading.Thread(target=client.run, daemon=True) for client in clients]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(90)

    def nonce(self, user):
        return f"{user[4:12]}-{next(self.serial)}"

    def count(self, outcome, client, nonce="", evidence="", ran=None):
        """Notes how a call ended; `ran` is False for one that was told not to have run."""
        now = time.monotonic()
        with self.lock:
            self.counts[outcome] += 1
            if ran is False:
                self.not_run[nonce] = f"{client}: {evidence}"
            if outcome == "right":
                self.gaps[client] = max(self.gaps.get(client, 0), now - getattr(client, "last_right", now))
                client.last_right = now
            else:
                self.odd.append((outcome, f"{now - self.began:6.1f} s {client} {nonce}: {evidence}"))

    def judged(self):
        """The counts, with what the servers wrote."""
        ran = collections.Counter(line.split()[1] for line in self.place.record.read_text().splitlines() if line.startswith("ran "))
        for nonce, evidence in self.not_run.items():
            if ran[nonce]:
                self.counts["wrong"] += 1
                self.odd.append(("wrong", f"{nonce} ran, and its client was told that it did not: {evidence}"))
        for nonce, times in ran.items():
            if times > 1:
                self.counts["twice"] += 1
                self.odd.append(("twice", f"{nonce} ran {times} times"))
        return self.counts


def revive(place, index):
    """Starts a replica again, as whatever runs gateways does."""
    for _ in range(20):
        with contextlib.suppress(RuntimeError):
            place.start_member(index)
            return
        time.sleep(0.5)
    raise Broken(f"replica {index} does not start again")


def calm(place, dice):
    time.sleep(30)


def kills(place, dice):
    for _ in range(10):
        index = dice.randrange(place.count)
        place.members[index].kill()
        time.sleep(1)
        revive(place, index)
        time.sleep(dice.uniform(11, 14))


def rolling(place, dice):
    for turn in range(10):
        index = turn % place.count
        place.members[index].stop()
        revive(place, index)
        place.members[index].ready()
        time.sleep(1)


def restarts(place, dice):
    for _ in range(2):
        place.database.control("-m", "immediate", "stop")
        time.sleep(3)
        place.database.start()
        time.sleep(25)


def frozen(place, dice):
    with open(place.database.folder / "data" / "postmaster.pid") as file:
        postmaster = int(file.readline())

    def everyone(what):
        children = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True).stdout.split()
        for pid in [postmaster, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)

    everyone(signal.SIGSTOP)
    try:
        time.sleep(30)
    finally:
        everyone(signal.SIGCONT)
    time.sleep(25)


def cut(place, dice):
    for index in (0, 1):
        with network.dropped(place.replica_address(index)):
            time.sleep(20)
        time.sleep(20)


SCENARIOS = {function.__name__: function for function in (calm, kills, rolling, restarts, frozen, cut)}


def run(name, options):
    """One row of the table, and what was odd."""
    with replicas(config=CONFIG, servers=HOME) as place:
        load, dice = Load(place, options.seed, name != "kills"), random.Random(f"{options.seed}/{name}")
        load.start()
        time.sleep(5)

        def keep_alive():
            # a replica that was deposed ends, and is started anew
            while not load.over.wait(1):
                if name in ("restarts", "frozen", "cut"):
                    for index in range(place.count):
                        if not place.is_running(index):
                            print(f"{name}: replica {index} had ended with {place.exit_code(index)}", flush=True)
                            revive(place, index)

        keeper = threading.Thread(target=keep_alive, daemon=True)
        keeper.start()
        SCENARIOS[name](place, dice)
        time.sleep(5)
        load.stop()
        keeper.join(30)
        time.sleep(1)
        return load.judged(), load.odd, max(load.gaps.values(), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS], default=[])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--odd", type=int, default=0, help="refusals to print, of each scenario")
    options = parser.parse_args()
    rows, bad = [], 0
    for name in options.scenarios or SCENARIOS:
        counts, odd, gap = run(name, options)
        faults = [text for text in odd if text[0] != "refused"]
        for outcome, evidence in faults[:40] + [text for text in odd if text[0] == "refused"][: options.odd]:
            print(f"{outcome}: {evidence[:600]}", flush=True)
        calls = sum(counts[one] for one in ("right", "refused", "wrong", "hung"))
        rows.append(f"| {name} | {calls} | " + " | ".join(str(counts[one]) for one in COLUMNS) + f" | {gap:.1f} s |")
        print(rows[-1], flush=True)
        bad += sum(counts[one] for one in COLUMNS[2:])
    print("\n| scenario | calls | " + " | ".join(COLUMNS) + " | longest gap |\n|---|" + "---|" * (len(COLUMNS) + 2))
    print("\n".join(rows))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
