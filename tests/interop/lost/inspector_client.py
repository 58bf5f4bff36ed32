"""The Inspector's command line, which is a process for each call: `inspector_client.py COMMAND…`. Stop is Ctrl+C."""

import asyncio
import contextlib
import json
import signal
import sys

from program import serve


class Failed(Exception):
    def __init__(self, said):
        super().__init__(said)


async def call(name, arguments, timeout=None, abort=None, progress=False):
    given = [f"{key}={json.dumps(value) if isinstance(value, (int, float)) else value}" for key, value in arguments.items()]
    pipe = asyncio.subprocess.PIPE
    command = [*sys.argv[1:], "--method", "tools/call", "--tool-name", name, "--tool-arg", *given]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    ending = asyncio.ensure_future(process.communicate())
    await asyncio.wait({ending}, timeout=abort)
    if abort and not ending.done():
        process.send_signal(signal.SIGINT)
        await ending
        raise Failed("stopped")
    out, said = await ending
    if process.returncode:
        raise Failed((said or out).decode().strip()[-300:])
    return json.loads(out)["content"][0]["text"]


@contextlib.asynccontextmanager
async def connected(_):
    yield call


serve(connected)
