"""The well-behaved clients beside an attack, in a process of their own.

    kept    calls with a session on one keep-alive connection, 100 per second
    fresh   calls without session, each on a new connection, 50 per second
    login   authorize, log in, consent, token, refresh, once per second; registers a new client every fifth time

Reads lines: `phase NAME` begins a phase, `end` ends the process. Prints a line of JSON at the end of each phase. Latency
counts from the time at which a call was due: a stall of the keep-alive connection counts for every call that was due
meanwhile, and these calls are left out.
"""

import asyncio
import collections
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "interop" / "harness"))
import mcp
from http1 import Connection, Gone, fetch, request
from login import App, Refused
from sources import Source, Target

KEPT_RATE, FRESH_RATE, LOGIN_RATE = 100, 50, 1
TIMEOUT = 10
REGISTER_EVERY = 5


class Tally:
    """The calls of one kind that were due in one phase."""

    def __init__(self):
        self.times, self.served, self.failures, self.pending = [], 0, collections.Counter(), 0

    def summary(self):
        times = sorted(self.times)
        at = lambda part: round(times[min(len(times) - 1, int(len(times) * part))] * 1000, 2) if times else None
        return {"served": self.served, "p50": at(0.5), "p99": at(0.99), "most": at(1), "failed": sum(self.failures.values()), "failures": dict(self.failures.most_common(4))}


class Callers:
    def __init__(self, spec):
        self.spec, kind = spec, spec["kind"]
        self.target = Target.of(kind, spec["port"])
        self.kept_source = Source.client(kind, 0)
        self.fresh_source = Source.attacker(kind, 0) if spec["shared"] else Source.client(kind, 1)
        self.newcomers = list(spec["newcomers"])
        self.phase, self.tallies = None, {}
        self.app = self.session = self.connection = None

    # === calls and logins

    async def open(self):
        """Opens the session of the kept client."""
        self.connection = await Connection.open(self.target, self.kept_source)
        answer = await self.say(mcp.initialize())
        self.session = answer.headers.get("mcp-session-id")
        if answer.status != 200 or not self.session:
            raise Refused("initialize", answer)
        await self.say(mcp.INITIALIZED)

    async def say(self, body):
        message = request(self.target, self.kept_source, "POST", mcp.PATH, mcp.headers(self.spec["key"], self.session), body)
        return await self.connection.ask(message, TIMEOUT)

    async def kept(self, number):
        if self.connection.closed:
            self.connection = await Connection.open(self.target, self.kept_source)
        check(await self.say(mcp.echo(f"kept {number}", number)), f"kept {number}")

    async def fresh(self, number):
        headers, body = mcp.modern_echo(self.spec["fresh_key"], f"fresh {number}", number)
        check(await fetch(self.target, self.fresh_source, "POST", mcp.PATH, headers, body, TIMEOUT), f"fresh {number}")

    def login_source(self, number):
        return self.fresh_source if self.spec["shared"] else Source.client(self.spec["kind"], 10 + number)

    async def login(self, number):
        source = self.login_source(number)
        if self.app is None or number % REGISTER_EVERY == 0:
            app = App(self.target, source)
            await app.register()
            self.app = app
        self.app.source = source
        code, verifier = await self.app.code(self.spec["login_key"])
        tokens = await self.app.redeem(code, verifier)
        await self.app.refresh(tokens["refresh_token"])
        if self.newcomers:
            # a right key that the gateway has not verified before
            headers, body = mcp.modern_echo(self.newcomers.pop(), "new")
            check(await fetch(self.target, source, "POST", mcp.PATH, headers, body, TIMEOUT), "new")

    # === schedule

    async def steadily(self, name, rate, act):
        """Calls `act` `rate` times per second, one after the other."""
        loop = asyncio.get_running_loop()
        start, number = loop.time(), 0
        while True:
            number += 1
            due = start + number / rate
            await asyncio.sleep(max(0, due - loop.time()))
            tally = self.tally(name)
            await self.counted(tally, due, act(number))
            now = loop.time()
            while (due := start + (number + 1) / rate) < now:
                number += 1
                tally.times.append(now - due)

    async def independently(self, name, rate, act):
        """Calls `act` `rate` times per second, without waiting for the one before."""
        loop = asyncio.get_running_loop()
        start, number, running = loop.time(), 0, set()
        while True:
            number += 1
            due = start + number / rate
            await asyncio.sleep(max(0, due - loop.time()))
            task = asyncio.ensure_future(self.counted(self.tally(name), due, act(number)))
            running.add(task)
            task.add_done_callback(running.discard)

    def tally(self, name):
        return self.tallies.setdefault(name, Tally())

    async def counted(self, tally, due, act):
        tally.pending += 1
        try:
            await act
            tally.served += 1
            tally.times.append(asyncio.get_running_loop().time() - due)
        except (Gone, Refused, OSError, KeyError, ValueError) as error:
            tally.failures[str(error)[:240]] += 1
        finally:
            tally.pending -= 1

    def begin(self, phase):
        """Begins a phase; the phase before and its tallies."""
        before = self.phase, self.tallies
        self.phase, self.tallies = phase, {}
        return before

    async def run(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await self.open()
        app = App(self.target, self.login_source(0))
        say({"ready": await app.register()})
        acts = [
            asyncio.ensure_future(self.steadily("kept", KEPT_RATE, self.kept)),
            asyncio.ensure_future(self.independently("fresh", FRESH_RATE, self.fresh)),
            asyncio.ensure_future(self.steadily("login", LOGIN_RATE, self.login)),
        ]
        while (line := (await reader.readline()).decode().split()):
            phase, tallies = self.begin(line[-1])
            # calls that were due in the phase may end
            while any(tally.pending for tally in tallies.values()):
                await asyncio.sleep(0.01)
            if phase:
                say({"phase": phase, **{name: tally.summary() for name, tally in tallies.items()}})
            if line[0] == "end":
                break
        for act in acts:
            act.cancel()


def check(answer, text):
    if answer.status != 200 or text not in answer.text:
        raise Refused("call", answer)


def say(what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(Callers(json.loads(sys.argv[1])).run())
