#!/usr/bin/env python3
"""What is promised of replicas, each promise in a scenario of its own on real PostgreSQL: lost, stopped and cut-off replicas,
clocks that differ or step, a database that restarts or is read-only, dropped packets, drains, rows that nobody can read.

    tests/replicas/promises.py [NAME…] [--list] [--jobs N]

Names may be patterns. Prints `ok NAME (N s)` or `FAILED NAME: why`, and ends with 1 if any failed. Needs PostgreSQL, nginx, nft
(as root) and libfaketime (Debian: postgresql, nginx-light, nftables, libfaketime). Uses `$LOCKKEEPER_BIN`, else
`target/release/lockkeeper`. With `--keep FOLDER` the logs of replicas are copied there.
"""

import argparse
import concurrent.futures
import fnmatch
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from scenarios import network
from scenarios.place import SCENARIOS, Broken, binary

# a scenario that hangs is ended after this
SECONDS = 300
MODULES = ("sessions", "clocks", "answers", "fences", "losses", "network", "leaving", "rights", "rows")


def scenarios():
    for name in MODULES:
        importlib.import_module(f"scenarios.{name}")
    return SCENARIOS


def alone(name):
    """Runs a scenario in this process; its last line says why it failed. What it started ends with it, also at SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"it has not ended after {SECONDS} s"))
    try:
        scenarios()[name]()
    except Broken as error:
        sys.exit(f"{error}")
    except Exception as error:
        frame = [one for one in traceback.extract_tb(error.__traceback__) if "scenarios" in one.filename][-1]
        sys.exit(f"{error!r} at {Path(frame.filename).name}:{frame.lineno}")


def run(name):
    """Why a scenario failed, or nothing, and how long it took."""
    began = time.monotonic()
    command = [sys.executable, __file__, "--alone", name]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        errors = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        process.terminate()
        errors = process.communicate()[1]
    finally:
        network.remove_table(process.pid)
    why = "" if process.returncode == 0 else (errors.strip() or f"ended with {process.returncode}")
    return why, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--jobs", type=int, default=2, help="scenarios at once")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy logs there")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        return alone(options.alone)
    all_names = list(scenarios())
    given = options.names or ["*"]
    names = [name for name in all_names if any(fnmatch.fnmatch(name, pattern) for pattern in given)]
    if options.list or not names:
        print("\n".join(all_names if options.list else ["no such scenario; --list prints all"]))
        sys.exit(0 if options.list else 2)
    if not os.access(binary(), os.X_OK):
        sys.exit(f"there is no program at {binary()}")
    if options.keep:
        os.environ["PROMISES_KEEP"] = str(options.keep.resolve())
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, name): name for name in names}
        for done in concurrent.futures.as_completed(running):
            why, seconds = done.result()
            failed += bool(why)
            print(f"FAILED {running[done]}: {why}" if why else f"ok {running[done]} ({seconds:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
