"""The suite's client scenarios of authorization (`auth/*`), with the gateway as the client of a protected server (UP-3). Each runs
in every version that it is for. Scenarios that do not pass are in `upstream_not_passed.toml`."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_PASSED = tomllib.loads((HERE / "upstream_not_passed.toml").read_text())
CLIENT = f"{sys.executable} {HERE / 'upstream_client.py'}"
LISTED = re.compile(r"^ *- (auth/\S+) \[(.+)\]$", re.MULTILINE)
TIMEOUT_SECONDS = 90


def scenarios(program):
    """Each scenario with a version; those of extensions have none."""
    listed = subprocess.run([*program, "list", "--client"], capture_output=True, text=True, check=True).stdout
    return [(name, version) for name, versions in LISTED.findall(listed) for version in versions.split(",")]


def passes(program, scenario, version, binary, out):
    """Runs one scenario: True if all of its checks passed, and what the suite says."""
    place = out / f"{scenario.replace('/', '-')}-{version}"
    wanted = [] if version == "extension" else ["--spec-version", version]
    given = ["--command", CLIENT, "--scenario", scenario, *wanted, "--timeout", str(TIMEOUT_SECONDS * 1000), "-o", place]
    # the suite's servers are on this machine
    environment = {**os.environ, "LOCKKEEPER_BIN": binary, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(part) for part in (*program, "client", *given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * TIMEOUT_SECONDS, env=environment)
    Path(f"{place}.log").write_text(done.stdout + done.stderr)
    return done.returncode == 0


def lost(program, binary, out, pool):
    """What was lost of all scenarios."""
    runs = scenarios(program)
    passed = dict(zip(runs, pool.map(lambda run: passes(program, *run, binary, out), runs)))
    # as the suite of servers: what a machine with other things to do loses is tried again, alone
    for run in [run for run, good in passed.items() if not good and run[0] not in NOT_PASSED]:
        print(f"# again: {' '.join(map(str, run))}", flush=True)
        passed[run] = passes(program, *run, binary, out)
    print(f"client of protected servers: {sum(passed.values())} of {len(runs)} scenarios passed", flush=True)
    found = [f"{name} {version}: see {out}" for (name, version), good in passed.items() if not good and name not in NOT_PASSED]
    return found + [f"{name} {version} passes, and is listed as one that does not" for (name, version), good in passed.items() if good and name in NOT_PASSED]
