"""A client over stdio at a bridge to a remote server: `bridge_client.py COMMAND…`. Speaks MCP by hand."""

import asyncio
import contextlib
import json
import sys

from program import Ended, serve

CONNECT_SECONDS = 60
LINE_BYTES = 1 << 20


class Refused(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code = error["code"]


class Bridge:
    def __init__(self, process, heard):
        self.process, self.heard, self.waiting, self.calls = process, heard, {}, 0

    async def read(self):
        while line := await self.process.stdout.readline():
            if line.startswith(b"{"):
                self.take(json.loads(line))
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.set_exception(Ended("the bridge ended"))

    def take(self, message):
        if "method" in message:
            self.heard.changes += message["method"] == "notifications/tools/list_changed"
        elif waiting := self.waiting.pop(message.get("id"), None):
            if not waiting.done():
                waiting.set_result(message)

    def write(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method, params, seconds=None, why=None):
        """The result. After so many seconds it takes the request back, as clients do."""
        self.calls += 1
        number, waiting = self.calls, asyncio.get_running_loop().create_future()
        self.waiting[number] = waiting
        self.write(id=number, method=method, params=params)
        try:
            message = await asyncio.wait_for(waiting, seconds)
        except TimeoutError:
            self.write(method="notifications/cancelled", params={"requestId": number, "reason": why})
            raise RuntimeError(why) from None
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    async def call(self, name, arguments, timeout=None, abort=None, progress=False):
        params = {"name": name, "arguments": arguments}
        if progress:
            params["_meta"] = {"progressToken": self.calls}
        found = await self.request("tools/call", params, abort or timeout, "stopped" if abort else "timed out")
        return found["content"][0]["text"]


@contextlib.asynccontextmanager
async def connected(heard):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*sys.argv[1:], stdin=pipe, stdout=pipe, limit=LINE_BYTES)
    bridge = Bridge(process, heard)
    reading = asyncio.create_task(bridge.read())
    try:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "lost-bridge", "version": "1"}}
        await bridge.request("initialize", hello, CONNECT_SECONDS, "no answer to initialize")
        bridge.write(method="notifications/initialized")
        yield bridge.call
    finally:
        reading.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


serve(connected)
