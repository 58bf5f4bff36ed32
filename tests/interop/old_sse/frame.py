"""Frame of a client program in Python: does what the lines of the driver say, and answers each with a line.

`connect` opens a connection, `open` leaves it and opens another, `call TEXT` calls the tool. An answer is a line of JSON that
begins with `@`; anything else on stdout is left to the log."""

import asyncio
import json
import os
import sys
import time

SECONDS = 20
CONNECT_SECONDS = 60
TOOL = "echo__echo"
# how the client brings its credential: `header`, `query` or `login`
WAY = os.environ["OLD_SSE_WAY"]
KEY, BASE = (json.loads(os.environ["INTEROP"])[name] for name in ("key", "url"))
URL = f"{BASE}/sse?api_key={KEY}" if WAY == "query" else f"{BASE}/sse"
HEADERS = {"Authorization": f"Bearer {KEY}"} if WAY == "header" else {}


class Ended(Exception):
    """The client ended its connection by itself."""


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"the answer is {found!r}")


def reply(**members):
    print(f"@{json.dumps(members)}", flush=True)


def reason(error):
    """An error in one line; of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:400]


class Connection:
    """A client in a task of its own, since a task group must be left by the task that entered it."""

    def __init__(self, connected):
        self.calls, self.ready = asyncio.Queue(), asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self.run(connected))

    async def run(self, connected):
        async with connected() as call:
            self.ready.set_result(None)
            while True:
                text, done = await self.calls.get()
                try:
                    found = await call(text)
                except Exception as error:
                    if not done.done():
                        done.set_exception(error)
                else:
                    if not done.done():
                        done.set_result(found)

    async def outcome(self, future, seconds):
        await asyncio.wait({future, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        if self.task.done() and not self.task.cancelled():
            raise self.task.exception() or Ended("the client ended")
        raise TimeoutError(f"no answer within {seconds} s")

    async def call(self, text):
        done = asyncio.get_running_loop().create_future()
        self.calls.put_nowait((text, done))
        equal(await self.outcome(done, SECONDS), text)

    async def leave(self):
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=5)


async def talk(connected, logins):
    connection = None
    reply(ready=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, _, text = line.strip().partition(" ")
        try:
            if command == "call":
                await connection.call(text)
            else:
                if connection:
                    await connection.leave()
                connection = Connection(connected)
                await connection.outcome(connection.ready, CONNECT_SECONDS)
        except Exception as error:
            reply(error=reason(error), logins=logins())
        else:
            reply(ok=True, logins=logins(), at=time.time())


def serve(connected, logins=lambda: 0):
    """Runs a client; `connected` opens it and gives the function that calls the tool."""
    asyncio.run(talk(connected, logins))
    os._exit(0)


def serve_blocking(client):
    """Runs a client without an event loop: an object with `connect`, `call`, `leave` and `logins`."""
    reply(ready=True)
    opened = False
    for line in sys.stdin:
        command, _, text = line.strip().partition(" ")
        try:
            if command == "call":
                equal(client.call(text), text)
            else:
                if opened:
                    client.leave()
                opened = True
                client.connect()
        except Exception as error:
            reply(error=reason(error), logins=client.logins)
        else:
            reply(ok=True, logins=client.logins, at=time.time())
    client.leave()
    os._exit(0)
