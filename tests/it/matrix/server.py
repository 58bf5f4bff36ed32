"""A server that does what the call says, step by step: `server.py stdio RECORD VERSION` or `server.py http PORT RECORD VERSION`.

It speaks that version whatever it is offered. The one tool `script` takes `steps`, a list of lists: see `Call`. All that it
receives is written into a file of its own in the folder RECORD. What it offers beside is in `offers.json`.
"""

import gc
import sys

# Hundreds of these start in a test: nothing of it lives long, and `asyncio` does without TLS.
gc.disable()
sys.modules["ssl"] = None

import asyncio
import json
import os

RECORD, VERSION = sys.argv[-2:]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "offers.json")) as file:
    # what its version has
    has = lambda offer: offer["since"] <= VERSION <= offer.get("until", VERSION)
    OFFERS = {kind: [offer["is"] for offer in offers if has(offer)] for kind, offers in json.load(file).items()}
RECEIVED = open(os.path.join(RECORD, f"{VERSION} {os.getpid()}.jsonl"), "w", buffering=1)


class Refusal(Exception):
    """The tool is not there for such a call."""


class Session:
    def __init__(self, write):
        self.write, self.asked, self.running, self.heard = write, {}, {}, {}
        self.name, self.received, self.tasks, self.chores = os.urandom(4).hex(), [], {}, {}
        # the method of each question, what each method was last asked with, and what it answers next
        self.methods, self.requests, self.outcomes = {}, {}, {}
        self.names = {"tools": ["script"], "prompts": ["p"], "resources": ["r"]}

    def hear(self, method, params):
        self.received.append((method, params))
        self.heard.setdefault(method, asyncio.Queue()).put_nowait(params)

    async def receive(self, message, write, done=None):
        method, id = message.get("method"), message.get("id")
        RECEIVED.write(json.dumps({"question": None if method else self.methods.get(id), "message": message}) + "\n")
        if method is None:
            self.asked.pop(id).set_result(message)
        elif id is None:
            self.hear(method, message.get("params", {}))
            task = self.running.get(message.get("params", {}).get("requestId")) if method == "notifications/cancelled" else None
            if task:
                task.cancel()
        else:
            task = self.running[id] = asyncio.ensure_future(self.answer(message, write))
            task.add_done_callback(lambda _: asyncio.ensure_future(done()) if done else None)

    async def answer(self, message, write):
        id, method, params = message["id"], message["method"], message.get("params", {})
        serve = getattr(self, method.replace("/", "_").replace("logging_setLevel", "settled"), None)
        self.requests[method] = params
        try:
            if method in self.outcomes:
                return await write({"id": id, **self.outcomes.pop(method)})
            if serve is None:
                return await write({"id": id, "error": {"code": -32601, "message": "Method not found"}})
            if method == "tools/call":
                return await write({"id": id, **await serve(params, write)})
            result = await serve(params, write) if method == "tasks/result" else serve(params)
            await write({"id": id, "error": {"code": -32002, "message": "not there", "data": params}} if result is None else {"id": id, "result": result})
        except Refusal as refusal:
            await write({"id": id, "error": {"code": -32601, "message": str(refusal)}})
        except asyncio.CancelledError:
            pass

    def initialize(self, params):
        self.received.append(("initialize", params))
        capabilities = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}, "completions": {}}
        if VERSION == "2025-11-25":
            capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"protocolVersion": VERSION, "capabilities": capabilities, **{key: value for one in OFFERS["about"] for key, value in one.items()}}

    def settled(self, params):
        self.hear("logging/setLevel", params)
        return {}

    def resources_subscribe(self, params):
        self.hear("resources/subscribe", params)
        return {}

    def resources_unsubscribe(self, params):
        self.hear("resources/unsubscribe", params)
        return {}

    def ping(self, params):
        return {}

    def tools_list(self, params):
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names["tools"]]
        return {"tools": tools + OFFERS["tools"], "_meta": {"com.acme/list": 1}}

    def prompts_list(self, params):
        return self.page("prompts", [{"name": name} for name in self.names["prompts"]] + OFFERS["prompts"], params)

    def resources_list(self, params):
        return self.page("resources", [{"uri": f"x:{name}", "name": name} for name in self.names["resources"]] + OFFERS["resources"], params)

    def resources_templates_list(self, params):
        return self.page("resourceTemplates", OFFERS["resourceTemplates"], params)

    def page(self, kind, entries, params):
        """Two at a time; the cursor of the second page is empty, which is a cursor like any other."""
        at = int(params["cursor"] or 2) if "cursor" in params else 0
        more = {"nextCursor": "" if at == 0 else str(at + 2)} if at + 2 < len(entries) else {}
        return {kind: entries[at : at + 2], **more}

    def resources_read(self, params):
        return {"contents": [{"uri": "x:r", "text": "read"}]} if params["uri"] == "x:r" else None

    def completion_complete(self, params):
        ref = params["ref"]
        return {"completion": {"values": [ref.get("name", ref.get("uri")), params["argument"]["value"]]}}

    def tasks_get(self, params):
        return self.tasks.get(params["taskId"])

    def tasks_list(self, params):
        return {"tasks": list(self.tasks.values())}

    def tasks_cancel(self, params):
        self.hear("tasks/cancel", params)
        task = self.tasks.get(params["taskId"])
        return task and {**task, "status": "cancelled"}

    async def tasks_result(self, params, write):
        if params["taskId"] in self.chores:
            return await self.finished(params["taskId"], write)
        task = self.tasks.get(params["taskId"], {})
        if task.get("status") == "working":
            # whoever waits for the result brings it about
            asyncio.ensure_future(Call(self, params, None).finish(params["taskId"]))
        related = {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}
        return {"content": [{"type": "text", "text": self.name}], "_meta": related} if params["taskId"] in self.tasks else None

    async def finished(self, id, write):
        """The result of a task that runs while it is waited for: what it does is said to be of it, and its status told."""
        related = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": id}}}

        async def tell(message):
            params = {**message["params"], **related} if "params" in message else None
            await write({**message, "params": params} if params else message)

        for status in ["working", "completed"]:
            await self.write({"method": "notifications/tasks/status", "params": {**self.tasks[id], "status": status}})
            await write({"method": "notifications/tasks/status", "params": {**self.tasks[id], "status": status}})
        call = Call(self, self.chores[id], tell)
        return {**(await call.run())["result"], **related}

    async def tools_call(self, params, write):
        if params["name"] == "chore" and "task" not in params:
            raise Refusal("runs only as a task")
        if "task" in params:
            now = "2026-01-01T00:00:00Z"
            task = {"taskId": os.urandom(8).hex(), "status": "working", "createdAt": now, "lastUpdatedAt": now, "ttl": params["task"].get("ttl", 60000)}
            self.tasks[task["taskId"]] = task
            if params["name"] == "chore":
                self.chores[task["taskId"]] = params
            return {"result": {"task": task}}
        return await Call(self, params, write).run()


class Call:
    """The steps; what they find out is the text of the result."""

    def __init__(self, session, params, write):
        self.session, self.on_call, self.open, self.told, self.outcome = session, write, {}, {}, None
        self.steps = params.get("arguments", {}).get("steps", [])
        self.mark = params.get("arguments", {}).get("mark")
        self.token = params.get("_meta", {}).get("progressToken")

    async def run(self):
        """The outcome, as a member of the response."""
        for name, *arguments in self.steps:
            await getattr(self, name)(*arguments)
        return self.outcome or {"result": {"content": [{"type": "text", "text": json.dumps(self.told)}]}}

    async def progress(self, number, more={}):
        await self.on_call({"method": "notifications/progress", "params": {"progressToken": self.token, "progress": number, **more}})

    async def tell(self, method, params):
        await self.on_call({"method": method, "params": params})

    async def aside(self, method, params):
        await self.session.write({"method": method, "params": params})

    async def ask(self, name, method, params, write=None):
        self.open[name] = self.session.asked[name] = asyncio.get_running_loop().create_future()
        self.session.methods[name] = method
        await (write or self.on_call)({"id": name, "method": method, "params": params})

    async def ask_aside(self, name, method, params):
        await self.ask(name, method, params, self.session.write)

    async def answer(self, name):
        answer = await self.open[name]
        self.told[name] = answer.get("result", answer.get("error"))

    async def withdraw(self, name):
        self.session.asked.pop(name)
        await self.on_call({"method": "notifications/cancelled", "params": {"requestId": name}})

    async def hear(self, method):
        self.told[method] = await self.session.heard.setdefault(method, asyncio.Queue()).get()

    async def count(self, method):
        """How often a method was heard in this session, and its last parameters."""
        all = [params for name, params in self.session.received if name == method]
        self.told["count"], self.told["last"] = len(all), all[-1] if all else None

    async def give(self, outcome):
        """The call ends with this `result` or `error`."""
        self.outcome = outcome

    async def prepare(self, method, outcome):
        """The next request of this method ends so."""
        self.session.outcomes[method] = outcome

    async def request(self, method):
        """The parameters of the last request of this method."""
        self.told[method] = self.session.requests.get(method)

    async def hear_of(self, method, params):
        """Waits until a method was heard with these parameters."""
        while (method, params) not in self.session.received:
            await asyncio.sleep(0.01)

    async def note(self):
        """Writes down what was found out, for who asks later."""
        RECEIVED.write(json.dumps({"noted": self.told, "mark": self.mark}) + "\n")

    async def noted(self, mark):
        self.told["noted"] = await found(lambda lines: next((line["noted"] for line in lines if line.get("mark") == mark), None))

    async def left(self, mark):
        """Waits until the call of this mark was cancelled, at whichever server of this folder."""

        def gone(lines):
            messages = [line["message"] for line in lines if "message" in line]
            closed = [line["closed"] for line in lines if "closed" in line]
            ids = [one["id"] for one in messages if one.get("method") == "tools/call" and one["params"]["arguments"].get("mark") == mark]
            closed += [one["params"]["requestId"] for one in messages if one.get("method") == "notifications/cancelled"]
            return any(id in closed for id in ids)

        await found(gone)

    async def until(self, method, count):
        """Waits until a method was heard so often."""
        while sum(name == method for name, _ in self.session.received) < count:
            await asyncio.sleep(0.01)

    async def finish(self, id):
        """A task is done, and everybody hears of it."""
        self.session.tasks[id]["status"] = "completed"
        await self.session.write({"method": "notifications/tasks/status", "params": self.session.tasks[id]})

    async def who(self):
        """Which session at this server it is."""
        self.told["who"] = self.session.name

    async def grow(self, kind):
        names = self.session.names[kind]
        names.append(f"another-{len(names)}")
        await self.session.write({"method": f"notifications/{kind}/list_changed"})

    async def hold(self):
        await asyncio.Event().wait()

    async def die(self):
        if sys.argv[1] == "stdio":
            os._exit(3)
        for id in [id for id, session in SESSIONS.items() if session is self.session]:
            del SESSIONS[id]
        for task in self.session.running.values():
            task.cancel()


async def found(look):
    """What `look` finds in the lines of one of the files of this folder, as soon as it does."""
    while True:
        for name in os.listdir(RECORD):
            with open(os.path.join(RECORD, name)) as file:
                if there := look([json.loads(line) for line in file if line.endswith("\n")]):
                    return there
        await asyncio.sleep(0.05)


SESSIONS, HELD = {}, set()


async def stdio():
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def write(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    session = Session(write)
    while line := await reader.readline():
        await session.receive(json.loads(line), write)


class Events:
    def __init__(self, writer, extra=""):
        self.writer, self.over = writer, asyncio.Event()
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode())

    async def write(self, message):
        data = b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self):
        self.writer.write(b"0\r\n\r\n")
        self.over.set()


async def exchange(verb, id, body, writer):
    status = lambda line: writer.write(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n".encode())
    message, extra = json.loads(body) if body else {}, ""
    if message.get("method") == "initialize":
        id, extra = os.urandom(8).hex(), "Mcp-Session-Id: {}\r\n"
        session = SESSIONS[id] = Session(None)
        session.ready = asyncio.Event()

        async def unsolicited(message):
            await session.ready.wait()
            await session.stream.write(message)

        session.write = unsolicited
    session = SESSIONS.get(id)
    if session is None:
        return status("404 Not Found")
    if verb == "DELETE":
        del SESSIONS[id]
        return status("204 No Content")
    if verb == "GET":
        session.stream = Events(writer)
        session.ready.set()
        return await session.stream.over.wait()
    if "id" not in message or "method" not in message:
        await session.receive(message, None)
        return status("202 Accepted")
    events = Events(writer, extra.format(id))
    await session.receive(message, events.write, events.end)
    await events.over.wait()


async def connection(reader, writer):
    # the loop alone would let a task go that nothing else holds
    held = asyncio.current_task()
    HELD.add(held)
    held.add_done_callback(HELD.discard)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            await exchange(head[0].split()[0], headers.get("mcp-session-id"), body, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    if sys.argv[1] == "stdio":
        return await stdio()
    server = await asyncio.start_server(connection, "127.0.0.1", int(sys.argv[2]), limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
