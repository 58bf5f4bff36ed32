"""One attack on one gateway: latency of other clients without and with it, memory, descriptors and disk, and the verdict."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from pathlib import Path

from gateway import Gateway, free_port
from usage import Usage
from sources import PUBLIC, TLS

HERE = Path(__file__).resolve().parent
DESCRIPTORS = 1024
# the p99 beside an attack, as a multiple of the p99 without; below the floor the scheduler decides, not the gateway
MOST_RATIO, FLOOR_MS = 3, 10
# maximum time for memory and descriptors to be released, and the part that may remain
BACK_SECONDS, BACK_MIB, BACK_DESCRIPTORS = 20, 48, 8
# right keys that are presented for the first time during an attack from the same address
NEWCOMERS = 10

CONFIG = f"""\
public_url = "https://{PUBLIC}"

[servers.demo]
builtin = "demo"

[limits]
memory = "64MiB"

[http]
allowed_hosts = ["127.0.0.1"]
"""
PROXY = 'trusted_proxies = ["127.0.0.1"]\n'


class Broken(Exception):
    """A process of the suite failed."""


class Trial:
    """The outcome of one attack."""

    def __init__(self, attack, kind, spread):
        self.attack, self.rate, self.kind, self.spread = attack.name, attack.rate, kind, spread
        self.before = self.peak = self.after = None
        self.attacker, self.without_attack, self.with_attack, self.after_attack = {}, {}, {}, {}
        self.faults, self.again = [], 0

    def ratio(self, name):
        """The p99 with the attack as a multiple of the p99 without it."""
        quiet, loud = (phase.get(name, {}).get("p99") for phase in (self.without_attack, self.with_attack))
        return loud / quiet if quiet and loud else None

    def failed(self):
        return sum(self.with_attack.get(name, {}).get("failed", 0) for name in ("kept", "fresh", "login"))

    def slow(self):
        """Clients whose p99 was too high."""
        for name in ("kept", "fresh"):
            ratio, p99 = self.ratio(name), self.with_attack.get(name, {}).get("p99")
            if ratio is None or ratio > MOST_RATIO and p99 > FLOOR_MS:
                yield f"{name}: p99 {p99} ms with the attack, {self.without_attack.get(name, {}).get('p99')} ms without"

    def judge(self, attack, seconds):
        for name, phase in (("during the attack", self.with_attack), ("after the attack", self.after_attack)):
            for caller in phase.values():
                if isinstance(caller, dict) and caller["failed"]:
                    self.faults.append(f"{caller['failed']} failed {name}: " + "; ".join(caller["failures"]))
        if not self.with_attack.get("login", {}).get("served"):
            self.faults.append("no login was served during the attack")
        if self.peak["mib"] > self.before["mib"] + attack.mib:
            self.faults.append(f"memory: {self.before['mib']} MiB before, {self.peak['mib']} MiB at the peak; bound: {attack.mib} MiB more")
        if self.after["mib"] > self.before["mib"] + BACK_MIB:
            self.faults.append(f"memory: {self.before['mib']} MiB before, {self.after['mib']} MiB after")
        if self.after["descriptors"] > self.before["descriptors"] + BACK_DESCRIPTORS:
            self.faults.append(f"descriptors: {self.before['descriptors']} before, {self.after['descriptors']} after")
        if self.after["disk"] > self.before["disk"] + attack.disk:
            self.faults.append(f"disk: {self.before['disk']} MiB before, {self.after['disk']} MiB after; bound: {attack.disk} MiB more")
        if self.attacker["sent"] < attack.least(seconds):
            self.faults.append(f"the attacker sent too little to prove anything: {self.attacker['sent']}")

    def document(self):
        return {**vars(self), "ratio": {name: self.ratio(name) for name in ("kept", "fresh")}, "verdict": "failed" if self.faults else "ok"}


class Process:
    """A process of the suite. It reads and prints lines."""

    def __init__(self, process):
        self.process = process

    @classmethod
    async def start(cls, *command):
        return cls(await asyncio.create_subprocess_exec(
            *[str(part) for part in command], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        ))

    def say(self, line):
        self.process.stdin.write(f"{line}\n".encode())

    async def line(self, seconds):
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
        except asyncio.TimeoutError:
            raise Broken(f"a process of the suite printed nothing for {seconds} s") from None
        if not line:
            raise Broken(f"a process of the suite ended with {await self.process.wait()}")
        return line.decode()

    async def document(self, seconds):
        return json.loads(await self.line(seconds))

    async def end(self, seconds=1):
        """Waits until it ends; kills it after `seconds`."""
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


def aside():
    """The prefix of a command that must not disturb the gateway: lowest priority, only the last core."""
    cores = sorted(os.sched_getaffinity(0))
    pinned = ["taskset", "-c", str(cores[-1])] if len(cores) > 1 and shutil.which("taskset") else []
    return ["nice", "-n", "19", *pinned]


def gateway_for(binary, kind, folder, servers=""):
    """A gateway with 1,024 descriptors for clients from sources of `kind`, with these further servers."""
    config = folder / "lockkeeper.toml"
    config.write_text(CONFIG.replace("[limits]", servers + "[limits]") + (PROXY if kind == "proxy" else ""))
    gateway = Gateway(binary, config, folder, free_port())
    if pem := os.environ.get(TLS):
        gateway.secured = True
        files = f'cert_file = "{pem}"\nkey_file = "{Path(pem).with_suffix(".key")}"\nhttp_listen = "127.0.0.1:{free_port()}"'
        config.write_text(f"{config.read_text()}\n[tls]\n{files}\n")
    gateway.address = "0.0.0.0" if kind == "network" else "127.0.0.1"
    gateway.launcher = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
    return gateway


def create_keys(gateway, shared):
    """Keys of ann and bob, whose clients are measured, and of mallory, who attacks."""
    return {
        "key": gateway.create_key("ann", "--direct", "--user", "ann"),
        "fresh_key": gateway.create_key("bob", "--direct", "--user", "bob"),
        "other_key": gateway.create_key("mallory", "--direct", "--user", "mallory"),
        "newcomers": [gateway.create_key(f"new {number}", "--direct", "--user", "ann") for number in range(NEWCOMERS if shared else 0)],
    }


async def attacker(attack, trial, seconds, credentials, target):
    spec = {"attack": attack.name, "kind": trial.kind, "spread": trial.spread, "seconds": seconds, "rate": attack.rate, "credentials": credentials, **target}
    return await Process.start(*aside(), sys.executable, HERE / "attacker.py", json.dumps(spec))


async def measured(attack, kind, spread, options, folder):
    """Runs the attack on a gateway of its own."""
    trial, started = Trial(attack, kind, spread), []
    gateway = gateway_for(options.binary, kind, folder, attack.servers)
    gateway.launcher = [*options.launcher, *gateway.launcher]
    gateway.log = options.out / f"{attack.name}-{kind}-{spread}.log"
    gateway.start()
    try:
        await attend(attack, trial, gateway, options, started)
        code = gateway.stop()
        if code != 0:
            trial.faults.append(f"the gateway ended with {code} when it was asked to end")
    except (Broken, OSError, RuntimeError) as error:
        ended = gateway.process.poll()
        trial.faults.append(f"{error}" + (f"; the gateway ended with {ended}" if ended is not None else ""))
    finally:
        for process in started:
            await process.end()
        gateway.stop()
    return trial


async def attend(attack, trial, gateway, options, started):
    async def start(starting):
        started.append(await starting)
        return started[-1]

    shared = trial.spread == "one" and attack.shared_address
    credentials = create_keys(gateway, shared)
    spec = {
        "kind": trial.kind, "port": gateway.port, "key": credentials["key"], "login_key": credentials["fresh_key"], "shared": shared,
        "newcomers": credentials["newcomers"], "fresh_key": credentials["key" if attack.shared_user else "fresh_key"],
    }
    callers = await start(Process.start(*options.launcher, sys.executable, HERE / "callers.py", json.dumps(spec)))
    credentials["client"] = (await callers.document(30))["ready"]
    usage = Usage(gateway.process.pid, gateway.data)

    async def phase(name):
        """Begins a phase; the results of the phase before."""
        callers.say(name)
        return await callers.document(60)

    callers.say("phase warm")
    await asyncio.sleep(options.warm)
    port = free_port()
    decoy = await start(Process.start(*aside(), sys.executable, HERE / "decoy.py", port))
    await decoy.line(20)
    quiet = await start(attacker(attack, trial, options.without, credentials, {"host": "127.0.0.1", "port": port}))
    await quiet.line(30)
    await phase("phase without")
    await quiet.document(options.without + 60)
    trial.without_attack = await phase("phase between")
    await decoy.end(0)
    trial.before = usage.now()
    usage.start()
    seconds = max(attack.seconds, options.seconds)
    loud = await start(attacker(attack, trial, seconds, credentials, {"port": gateway.port}))
    await loud.line(30)
    await phase("phase with")
    trial.attacker = await loud.document(seconds + 90)
    trial.with_attack = await phase("phase between")
    await back(trial, usage)
    trial.peak = usage.maximum()
    usage.stop()
    await phase("phase after")
    await asyncio.sleep(options.warm)
    trial.after_attack = await phase("end")
    trial.faults += trial.slow()
    trial.judge(attack, seconds)


async def back(trial, usage):
    """Waits until memory and descriptors are as before, at most BACK_SECONDS."""
    loop = asyncio.get_running_loop()
    until = loop.time() + BACK_SECONDS
    while True:
        trial.after = usage.now()
        settled = trial.after["descriptors"] <= trial.before["descriptors"] + BACK_DESCRIPTORS and trial.after["mib"] <= trial.before["mib"] + BACK_MIB
        if settled or loop.time() > until:
            return
        await asyncio.sleep(0.2)
