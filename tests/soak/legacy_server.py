"""A legacy server for the soak: every payload says whose it is. `legacy_server.py stdio LEDGER` or `legacy_server.py http LEDGER PORT`."""

import asyncio
import json
import os
import secrets
import sys

import listener
from ledger import Ledger
from listener import Events, respond
from question import found, question

LEDGER = Ledger(sys.argv[2])


class Session:
    """One client as this server sees it."""

    def __init__(self, write):
        self.write, self.next, self.asked, self.running, self.subscribed = write, 0, {}, {}, set()
        self.stream, self.backlog = None, []

    async def receive(self, message, write, done=None):
        """One message; what belongs to its answer is written by `write`, and `done` called after the answer."""
        method, id = message.get("method"), message.get("id")
        if method is None:
            future = self.asked.pop(id, None)
            if future and not future.done():
                future.set_result(message)
        elif id is None:
            if method == "notifications/cancelled":
                task = self.running.get(message["params"].get("requestId"))
                if task:
                    task.cancel()
        else:
            task = asyncio.ensure_future(self.answer(message, write, done))
            self.running[id] = task
            task.add_done_callback(lambda _: self.running.pop(id, None))

    async def answer(self, message, write, done):
        id, method, params = message["id"], message["method"], message.get("params", {})
        try:
            result = await self.serve(method, params, write)
            await write({"id": id, "result": result})
        except KeyError as error:
            await write({"id": id, "error": {"code": -32601, "message": f"Method not found: {error}"}})
        except asyncio.CancelledError:
            LEDGER.note("cancelled", params.get("arguments", {}).get("owner", "?"))
        finally:
            if done:
                await done()

    async def serve(self, method, params, write):
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}, "logging": {}, "resources": {"subscribe": True}}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": {"name": "soak", "version": "1"}}
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "touch", "die")]}
        if method in ("ping", "logging/setLevel"):
            return {}
        if method == "resources/subscribe":
            self.subscribed.add(params["uri"])
            return {}
        if method == "resources/unsubscribe":
            self.subscribed.discard(params["uri"])
            return {}
        if method in ("resources/list", "resources/templates/list"):
            return {"resources" if method == "resources/list" else "resourceTemplates": []}
        if method == "tools/call":
            return await getattr(self, {"work": "work", "touch": "touch", "die": "die"}[params["name"]])(params, write)
        raise KeyError(method)

    async def work(self, params, write):
        arguments = params["arguments"]
        owner, token, told, answers = arguments["owner"], params.get("_meta", {}).get("progressToken"), 0, []
        LEDGER.note("ran", owner)
        for part, kinds in enumerate([*arguments["asks"], []]):
            for _ in range(arguments["steps"]):
                told += 1
                if token is not None:
                    await write({"method": "notifications/progress", "params": {"progressToken": token, "progress": told, "message": owner}})
                if arguments["log"]:
                    await write({"method": "notifications/message", "params": {"level": "warning", "logger": "soak", "data": {"owner": owner, "step": told}}})
                await asyncio.sleep(arguments["pause"])
            answers += await asyncio.gather(*(self.ask(kind, owner, part, write) for kind in kinds))
        LEDGER.note("finished", owner)
        return {"content": [{"type": "text", "text": owner}], "_meta": {"soak/answers": answers}}

    async def ask(self, kind, owner, part, write):
        method, params = question(kind, owner, part)
        self.next += 1
        id = f"q{self.next}"
        self.asked[id] = asyncio.get_running_loop().create_future()
        await write({"id": id, "method": method, "params": params})
        try:
            answer = await self.asked[id]
        except asyncio.CancelledError:
            self.asked.pop(id, None)
            await write({"method": "notifications/cancelled", "params": {"requestId": id}})
            raise
        error, result = answer.get("error"), answer.get("result")
        if error and error["code"] != -1:
            return "expired"
        about = error["message"] if error else found(kind, result)
        if about is None:
            return "declined"
        if about != f"{owner}/{part}":
            LEDGER.note("WRONG", owner, f"an answer of another: {json.dumps(answer)}")
            return "wrong"
        return "refused" if error else "answered"

    async def touch(self, params, write):
        uri = params["arguments"]["uri"]
        if uri in self.subscribed:
            await self.write({"method": "notifications/resources/updated", "params": {"uri": uri}})
        await self.write({"method": "notifications/tools/list_changed"})
        return {"content": [{"type": "text", "text": params["arguments"]["owner"]}]}

    async def die(self, params, write):
        if sys.argv[1] == "stdio":
            os._exit(3)
        forget(self)
        raise asyncio.CancelledError


SESSIONS = {}


def forget(session):
    for id in [id for id, other in SESSIONS.items() if other is session]:
        del SESSIONS[id]
    for task in list(session.running.values()):
        task.cancel()


async def stdio():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def write(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    session = Session(write)
    while line := await reader.readline():
        await session.receive(json.loads(line), write)


async def exchange(verb, path, headers, body, reader, writer):
    id = headers.get("mcp-session-id")
    message = json.loads(body) if body else {}
    if message.get("method") == "initialize":
        id = secrets.token_hex(8)

        async def unsolicited(message):
            if session.stream and not session.stream.writer.is_closing():
                await session.stream.write(message)
            else:
                session.backlog.append(message)

        session = SESSIONS[id] = Session(unsolicited)
        events = Events(writer, f"Mcp-Session-Id: {id}\r\n")
    elif id not in SESSIONS:
        return respond(writer, "404 Not Found")
    session = SESSIONS[id]
    if verb == "DELETE":
        forget(session)
        return respond(writer, "204 No Content")
    if verb == "GET":
        session.stream, waiting, session.backlog = Events(writer), session.backlog, []
        for message in waiting:
            await session.stream.write(message)
        while not writer.is_closing() and SESSIONS.get(id) is session:
            await asyncio.sleep(1)
        return writer.close()
    if "id" not in message or "method" not in message:
        await session.receive(message, None)
        return respond(writer, "202 Accepted")
    if message["method"] != "initialize":
        events = Events(writer)
    await session.receive(message, events.write, events.end)
    await events.over.wait()


async def main():
    if sys.argv[1] == "stdio":
        await stdio()
    else:
        await listener.listen(int(sys.argv[3]), exchange)


asyncio.run(main())
