"""A server of 2026-07-28 for the soak: every payload says whose it is. `modern_server.py stdio LEDGER` or `modern_server.py http LEDGER PORT`.

It keeps nothing of a call: what it knows of one that it ended with a question is in the state that it gives along. Whatever a
request says that its version forbids is refused, and noted as something that must never happen.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import random
import sys

import listener
from ledger import Ledger
from listener import Events, respond
from question import ABILITIES, found, question

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
LEDGER = Ledger(sys.argv[2])
# the processes of one soak open each other's states
KEY = sys.argv[2]
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
OWNED = {"owner": {"type": "string", "x-mcp-header": "Owner"}}
TOOLS = [{"name": name, "inputSchema": {"type": "object", "properties": OWNED}} for name in ("work", "touch", "die")]
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}, "resources": {"subscribe": True}}
# over HTTP a death ends its own connection, and one in so many the listens as well
DEAFENING = 8


class Refusal(Exception):
    """An error, and the status that it has over HTTP."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.error = status, {"code": code, "message": message}


class Dropped(Exception):
    """The connection ends here."""


def wrong(message, what):
    owner = (message.get("params", {}).get("arguments") or {}).get("owner", "?")
    LEDGER.note("WRONG", owner, f"{what}: {json.dumps(message)}")
    return Refusal("400 Bad Request", -32602, what)


# === states


def sealed(state):
    """A text that must pass unchanged: with quotes, line breaks and characters of every width."""
    text = json.dumps(state)
    return f"\u00e9\U0001f600\"\\\n\t{text}#" + hashlib.sha256((KEY + text).encode()).hexdigest()


def opened(message):
    """The state that came back, which has to be the one of this very call."""
    text = message["params"]["requestState"].removeprefix("\u00e9\U0001f600\"\\\n\t").rpartition("#")[0]
    if not text or sealed(json.loads(text)) != message["params"]["requestState"]:
        raise wrong(message, "a state that was changed")
    state = json.loads(text)
    if state["of"] != message["params"]["arguments"]:
        raise wrong(message, "the state of another call")
    return state


# === requests


class Server:
    """What is open at one time: the requests that run, and who listens; `place` is where a listen was opened."""

    def __init__(self):
        self.running, self.listens = {}, set()

    async def answer(self, message, write, place=None):
        """The response of one request, but for its id."""
        method, params = message["method"], message.get("params", {})
        try:
            judge(message)
            return {"result": complete(method, await self.serve(message, write, place))}
        except Refusal as refusal:
            return {"error": refusal.error, "status": refusal.status}
        except asyncio.CancelledError:
            LEDGER.note("cancelled", params.get("arguments", {}).get("owner", "?"))
            raise

    async def serve(self, message, write, place):
        method, params = message["method"], message["params"]
        if method == "server/discover":
            return {"supportedVersions": [VERSION], "capabilities": CAPABILITIES}
        if method == "tools/list":
            return {"tools": TOOLS}
        if method in ("resources/list", "resources/templates/list"):
            return {"resources" if method == "resources/list" else "resourceTemplates": []}
        if method == "subscriptions/listen":
            return await self.listen(message, write, place)
        if method == "tools/call" and params["name"] == "work":
            return await Leg(message, write).run()
        if method == "tools/call" and params["name"] == "touch":
            await self.tell("notifications/resources/updated", {"uri": params["arguments"]["uri"]})
            await self.tell("notifications/tools/list_changed", {})
            return {"content": [{"type": "text", "text": params["arguments"]["owner"]}]}
        if method == "tools/call" and params["name"] == "die":
            raise self.die(params, place)
        raise Refusal("404 Not Found", -32601, f"Method not found: {method}")

    async def listen(self, message, write, place):
        wanted = message["params"]["notifications"]
        chosen = {key: wanted[key] for key in ("toolsListChanged", "resourceSubscriptions") if wanted.get(key)}
        listen = Listen(message["id"], chosen, write, place)
        self.listens.add(listen)
        try:
            await listen.tell("notifications/subscriptions/acknowledged", {"notifications": chosen})
            await listen.over.wait()
        finally:
            self.listens.discard(listen)
        raise Dropped()

    async def tell(self, method, params):
        for listen in list(self.listens):
            if listen.wants(method, params):
                await listen.tell(method, params)

    def die(self, params, place):
        if sys.argv[1] == "stdio":
            os._exit(3)
        if random.Random(params["arguments"]["owner"]).randrange(DEAFENING) == 0:
            for listen in self.listens:
                if listen.place == place:
                    listen.over.set()
        return Dropped()


class Listen:
    def __init__(self, id, chosen, write, place):
        self.tag, self.chosen, self.write, self.place, self.over = {PREFIX + "subscriptionId": id}, chosen, write, place, asyncio.Event()

    def wants(self, method, params):
        if method == "notifications/resources/updated":
            return params["uri"] in self.chosen.get("resourceSubscriptions", [])
        return "toolsListChanged" in self.chosen

    async def tell(self, method, params):
        await self.write({"method": method, "params": {**params, "_meta": self.tag}})


class Leg:
    """One request of a call: from the first step, or from the answers that it brings, to the next question or the end."""

    def __init__(self, message, write):
        self.message, self.write, self.arguments = message, write, message["params"]["arguments"]
        self.owner, self.meta = self.arguments["owner"], message["params"]["_meta"]
        self.state = {"of": self.arguments, "leg": 0, "part": 0, "told": 0, "open": [], "answers": []}

    async def run(self):
        self.resume()
        state = self.state
        LEDGER.note("ran", f"{self.owner}/{state['leg']}" if state["leg"] else self.owner)
        if state["open"]:
            return self.asking()
        parts = [*self.arguments["asks"], None]
        first = 0 if self.arguments["afresh"] else state["told"]
        for progress in range(first, first + self.arguments["steps"]):
            await self.step(progress + 1)
        if parts[state["part"]] is not None:
            state["open"] = parts[state["part"]]
            return self.asking()
        LEDGER.note("finished", self.owner)
        return {"content": [{"type": "text", "text": self.owner}], "_meta": {"soak/answers": state["answers"]}}

    def resume(self):
        """Goes on from the state, with the answers: those that are missing stay open."""
        params, bare = self.message["params"], self.arguments["bare"]
        responses = dict(params.get("inputResponses", {}))
        if "requestState" in params:
            if bare:
                raise wrong(self.message, "a state that nobody gave")
            self.state = opened(self.message)
        elif bare and responses:
            self.state |= {"leg": 1, "open": self.arguments["asks"][0], "told": self.arguments["steps"]}
        elif responses:
            raise wrong(self.message, "answers without the state")
        else:
            return
        open, part = self.state["open"], self.state["part"]
        keys = {f"{self.owner}/{part}/{kind}": kind for kind in open}
        for key, response in responses.items():
            if key == "nobody":
                continue  # clients may say more than they were asked
            if key not in keys:
                raise wrong(self.message, f"an answer to what nobody asked, {key}")
            about = found(keys[key], response)
            if about not in (None, f"{self.owner}/{part}"):
                raise wrong(self.message, f"an answer of another, {about}")
            self.state["answers"].append("declined" if about is None else "answered")
        self.state["open"] = [kind for key, kind in keys.items() if key not in responses]
        if not self.state["open"]:
            self.state["part"] += 1

    async def step(self, progress):
        token, level = self.meta.get("progressToken"), self.meta.get(PREFIX + "logLevel")
        if token is not None:
            params = {"progressToken": token, "progress": progress, "message": self.owner}
            await self.write({"method": "notifications/progress", "params": params})
        self.state["told"] += 1
        if self.arguments["log"] and level and LEVELS.index(level) <= LEVELS.index("warning"):
            data = {"owner": self.owner, "step": self.state["told"]}
            await self.write({"method": "notifications/message", "params": {"level": "warning", "logger": "soak", "data": data}})
        await asyncio.sleep(self.arguments["pause"])

    def asking(self):
        """Ends the request with the questions that are open."""
        state, able = self.state, self.meta[PREFIX + "clientCapabilities"]
        if lacking := [kind for kind in state["open"] if ABILITIES[kind] not in able]:
            raise wrong(self.message, f"a client that can be asked lost {lacking}")
        requests = {}
        for kind in state["open"]:
            method, params = question(kind, self.owner, state["part"])
            requests[f"{self.owner}/{state['part']}/{kind}"] = {"method": method, "params": params}
        result = {"resultType": "input_required", **({"inputRequests": requests} if requests else {})}
        if not self.arguments["bare"]:
            result["requestState"] = sealed({**state, "leg": state["leg"] + 1})
        return result


def complete(method, result):
    result = {"resultType": "complete", "_meta": {}, **result}
    result["_meta"] = {PREFIX + "serverInfo": {"name": "soak", "version": "1"}, **result["_meta"]}
    return result if method in ("tools/call", "subscriptions/listen") else {"ttlMs": 0, "cacheScope": "private", **result}


def judge(message):
    """The envelope of a request."""
    meta = message.get("params", {}).get("_meta", {})
    if meta.get(PREFIX + "protocolVersion") != VERSION or not isinstance(meta.get(PREFIX + "clientCapabilities"), dict):
        # a gateway that does not know the era yet may say `initialize`
        if message["method"] == "initialize":
            raise Refusal("400 Bad Request", -32602, "the envelope is missing")
        raise wrong(message, "no envelope")
    if message["method"] in ("ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        raise wrong(message, "a method that this version does not have")


def check_headers(message, headers):
    """The headers mirror the body, and no credential of a client comes this far."""
    method, params = message["method"], message.get("params", {})
    expected = {"mcp-protocol-version": VERSION, "mcp-method": method}
    if method == "tools/call":
        expected |= {"mcp-name": params["name"], "mcp-param-owner": params["arguments"]["owner"]}
    stated = {name: value for name, value in headers.items() if name.startswith("mcp-") or name in ("authorization", "cookie", "last-event-id")}
    # who has not seen the tools yet does not know of this one, and has to look
    if stated != expected and stated | {"mcp-param-owner": expected.get("mcp-param-owner")} == expected:
        raise Refusal("400 Bad Request", -32020, "Header mismatch: Mcp-Param-Owner is missing")
    if stated != expected:
        raise wrong(message, f"the headers are {stated}")


# === transports


async def stdio():
    server, reader = Server(), asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def write(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    async def serve(message):
        with contextlib.suppress(asyncio.CancelledError):
            response = await server.answer(message, write)
            response.pop("status", None)
            await write({"id": message["id"], **response})
        server.running.pop(message["id"], None)

    while line := await reader.readline():
        message = json.loads(line)
        if "method" not in message:
            wrong(message, "an answer to what nobody asked")
        elif "id" in message:
            server.running[message["id"]] = asyncio.ensure_future(serve(message))
        elif message["method"] == "notifications/cancelled":
            if task := server.running.get(message["params"]["requestId"]):
                task.cancel()
        elif message["method"] != "notifications/initialized":
            wrong(message, "a notification that this version does not have")


class Answer:
    """One answer over HTTP: a message alone is JSON, several are a stream."""

    def __init__(self, writer):
        self.writer, self.events = writer, None

    async def write(self, message):
        self.events = self.events or Events(self.writer)
        await self.events.write(message)

    async def end(self, message):
        status = message.pop("status", "200 OK")
        if self.events is None:
            return respond(self.writer, status, message)
        await self.events.write(message)
        await self.events.end()


async def http(port):
    server = Server()

    async def exchange(verb, path, headers, body, reader, writer):
        message = json.loads(body) if body else {}
        if verb != "POST":
            LEDGER.note("WRONG", "?", f"{verb} {path}")
            return respond(writer, "405 Method Not Allowed", extra="Allow: POST\r\n")
        if "id" not in message or "method" not in message:
            wrong(message, "no request")
            return respond(writer, "202 Accepted")
        try:
            check_headers(message, headers)
        except Refusal as refusal:
            return respond(writer, refusal.status, {"id": message["id"], "error": refusal.error})
        answer = Answer(writer)
        task, gone = asyncio.ensure_future(server.answer(message, answer.write, path)), asyncio.ensure_future(reader.read(1))
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        # closing the connection is what cancels
        left = gone if task.done() else task
        left.cancel()
        await asyncio.gather(left, gone, return_exceptions=True)
        if left is task:
            raise ConnectionError()
        try:
            response = task.result()
        except Dropped:
            raise ConnectionError() from None
        await answer.end({"id": message["id"], **response})

    await listener.listen(port, exchange)


asyncio.run(stdio() if sys.argv[1] == "stdio" else http(int(sys.argv[3])))
