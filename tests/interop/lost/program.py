"""Frame of a client program in Python. Each line on stdin is a request of the driver in JSON, and is answered by a line that
begins with `@` and has the same `id`; several may run at once. Anything else on stdout is left to the log.

- `connect`: opens a connection, and leaves an earlier one.
- `call`: calls a tool. `timeout` is the client's own bound for the answer, `abort` the seconds after which a person presses Stop.
- `heard`: how often the list of tools changed, as the handler of the connection was called.
"""

import asyncio
import json
import os
import sys

from frame import HEADERS, Ended, reason, reply

BASE = json.loads(os.environ["INTEROP"])["url"]
PREFIX = "lost__"
CONNECT_SECONDS, LEAVE_SECONDS = 60, 5
# ends a call that hangs
MOST_SECONDS = 45
__all__ = ["BASE", "HEADERS", "PREFIX", "Ended", "serve"]


class Heard:
    """What came on the stream that stays open."""

    def __init__(self):
        self.changes = 0


class Connection:
    """A client in a task of its own, since a task group must be left by the task that entered it."""

    def __init__(self, connected):
        loop = asyncio.get_running_loop()
        self.ready, self.over, self.heard = loop.create_future(), asyncio.Event(), Heard()
        self.task = asyncio.create_task(self.run(connected))

    async def run(self, connected):
        async with connected(self.heard) as call:
            self.ready.set_result(call)
            await self.over.wait()

    async def outcome(self, future, seconds):
        await asyncio.wait({future, self.task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        if self.task.done() and not self.task.cancelled():
            raise self.task.exception() or Ended("the client ended")
        raise TimeoutError(f"no answer within {seconds} s")

    async def call(self, request):
        call = await asyncio.shield(self.ready)
        options = {name: request[name] for name in ("timeout", "abort", "progress") if name in request}
        calling = asyncio.ensure_future(call(PREFIX + request["tool"], request["arguments"], **options))
        return await self.outcome(calling, MOST_SECONDS)

    async def leave(self):
        self.over.set()
        await asyncio.wait({self.task}, timeout=LEAVE_SECONDS)
        self.task.cancel()


class Program:
    def __init__(self, connected):
        self.connected, self.connection = connected, None

    async def connect(self):
        if self.connection:
            await self.connection.leave()
        self.connection = Connection(self.connected)
        await self.connection.outcome(asyncio.shield(self.connection.ready), CONNECT_SECONDS)

    async def answer(self, request):
        if request["do"] == "call":
            return {"text": await self.connection.call(request)}
        if request["do"] == "heard":
            return {"changes": self.connection.heard.changes}
        await self.connect()
        return {}

    async def handle(self, request):
        try:
            found = await self.answer(request)
        except Exception as error:
            found = {"error": reason(error), "code": getattr(getattr(error, "error", error), "code", None)}
        reply(id=request["id"], **found)

    async def talk(self):
        reply(ready=True)
        tasks = set()
        while line := await asyncio.to_thread(sys.stdin.readline):
            tasks.add(asyncio.create_task(self.handle(json.loads(line))))


def serve(connected):
    """Runs a client; `connected` opens it and gives the function that calls a tool."""
    asyncio.run(Program(connected).talk())
    os._exit(0)
