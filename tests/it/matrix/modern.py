"""The server of 2026-07-28 that does what the call says: `modern.py stdio RECORD VERSION` or `modern.py http PORT RECORD VERSION`.

Every tool is the script of `server.py`, with the steps of `Call` beside those there. It asks in results alone, and what it
knows of a call between two requests is in the state. What it receives is held against the specification: what is wrong is
refused as it has to be, and written down as a fault beside the messages.
"""

import server
from server import OFFERS, RECEIVED, VERSION

import asyncio
import base64
import collections
import contextlib
import hashlib
import json
import os
import sys
import traceback

PREFIX = "io.modelcontextprotocol/"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
# the results that say how long they are good, and those that may ask
CACHEABLE = ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
ASKING = ["tools/call", "prompts/get", "resources/read"]
NEEDS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
KEY = os.urandom(8).hex()
HTTP = sys.argv[1] == "http"
# each gateway counts its requests from one; over HTTP all of them ask this server
GATEWAYS = int(os.environ.get("LOCKKEEPER_TEST_REPLICAS") or 1) if HTTP else 1


class Refusal(Exception):
    """An error, and the status that it has over HTTP."""

    def __init__(self, status, code, message, data=None):
        super().__init__(message)
        self.status, self.error = status, {"code": code, "message": message, **({"data": data} if data else {})}


def fault(text):
    RECEIVED.write(json.dumps({"fault": text}) + "\n")


def sealed(state):
    """A state that no transport leaves alone which knows better: quotes, breaks, and letters of every width."""
    text = json.dumps(state, ensure_ascii=False)
    return f"\u00e9\U0001f600\"\\\n\t{text}#" + hashlib.sha256((KEY + text).encode()).hexdigest()


def opened(state):
    head, _, text = state.partition("\n\t")
    text, _, mark = text.rpartition("#")
    if head != "\u00e9\U0001f600\"\\" or mark != hashlib.sha256((KEY + text).encode()).hexdigest():
        fault(f"no state of this server: {state!r}")
        raise Refusal(200, -32602, "Invalid or expired requestState")
    return json.loads(text)


def digest(params):
    return hashlib.sha256(json.dumps([params.get("name"), params.get("arguments"), params.get("uri")], sort_keys=True).encode()).hexdigest()


def own(params):
    """The parameters without what the version puts around them."""
    meta = {key: value for key, value in params.get("_meta", {}).items() if key not in ENVELOPE}
    return {key: value for key, value in {**params, "_meta": meta}.items() if key != "_meta" or meta}


ENVELOPE = [PREFIX + name for name in ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel"]]


class Server:
    def __init__(self):
        self.running, self.listens, self.outcomes, self.requests = {}, {}, {}, {}
        self.received, self.heard = [], {}
        self.ids, self.tokens = collections.Counter(), collections.Counter()
        self.envelope, self.name = {}, os.urandom(4).hex()
        self.names = {"tools": ["script"], "prompts": ["p"], "resources": ["r"]}

    def hear(self, method, params):
        self.received.append((method, params))
        self.heard.setdefault(method, asyncio.Queue()).put_nowait(params)

    def cancel(self, running, id):
        task = self.running.pop(running, None)
        self.hear("notifications/cancelled", {"requestId": id})
        return task and task.cancel()

    def judge(self, message):
        """What every request must have."""
        id, method, params = message["id"], message["method"], message.get("params", {})
        if method == "initialize":
            fault("there is no handshake")
            raise Refusal(400, -32022, "Unsupported protocol version", {"supported": [VERSION], "requested": params.get("protocolVersion")})
        meta = params.get("_meta", {})
        for name, kind in [("protocolVersion", str), ("clientCapabilities", dict), ("clientInfo", dict)]:
            if not isinstance(meta.get(PREFIX + name), kind):
                fault(f"{method} without {name}: {meta}")
                raise Refusal(400, -32602, f"Invalid params: no {name}")
        if meta[PREFIX + "protocolVersion"] != VERSION:
            fault(f"{method} in {meta}")
            raise Refusal(400, -32022, "Unsupported protocol version", {"supported": [VERSION], "requested": meta[PREFIX + "protocolVersion"]})
        for key in meta:
            if key.startswith(PREFIX) and key not in ENVELOPE:
                fault(f"{method} has {key}, which is of another version")
        for seen, one in [(self.ids, id), (self.tokens, meta.get("progressToken"))]:
            seen[json.dumps(one)] += 1
            if one is not None and seen[json.dumps(one)] > GATEWAYS:
                fault(f"{one} is used twice")
        if method not in ASKING and ("inputResponses" in params or "requestState" in params):
            fault(f"nothing was asked in {method}")
        if "task" in params:
            fault(f"{method} with a task")

    async def answer(self, message, write):
        """The outcome of a request, as a member of the response; `write` gets what is told before."""
        try:
            return await self.outcome(message, write)
        except (Refusal, asyncio.CancelledError):
            raise
        except Exception as error:
            fault(f"{message}: {traceback.format_exc()}")
            raise Refusal(200, -32603, repr(error))

    async def outcome(self, message, write):
        id, method, params = message["id"], message["method"], message.get("params", {})
        self.envelope = {key[len(PREFIX) :]: value for key, value in params["_meta"].items() if key.startswith(PREFIX)}
        self.requests[method] = own(params)
        self.received.append((method, own(params)))
        serve = getattr(self, method.replace("/", "_"), None)
        if method in self.outcomes and self.outcomes[method]:
            outcome = self.outcomes[method].pop(0)
            return outcome if "error" in outcome else {"result": self.complete(method, outcome["result"])}
        if serve is None:
            raise Refusal(404, -32601, "Method not found")
        if method in ("tools/call", "subscriptions/listen"):
            return await serve(id, params, write)
        return {"result": self.complete(method, serve(params))}

    def complete(self, method, result):
        result = {"resultType": "complete", **result}
        if method != "subscriptions/listen":
            result["_meta"] = {PREFIX + "serverInfo": OFFERS["about"][-1]["serverInfo"], **result.get("_meta", {})}
        if method in CACHEABLE and result["resultType"] == "complete":
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        return result

    def server_discover(self, params):
        capabilities = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}, "completions": {}}
        return {"supportedVersions": [VERSION], "capabilities": capabilities, "instructions": OFFERS["about"][0]["instructions"]}

    tools_list = server.Session.tools_list
    prompts_list = server.Session.prompts_list
    resources_list = server.Session.resources_list
    resources_templates_list = server.Session.resources_templates_list
    page = server.Session.page
    completion_complete = server.Session.completion_complete

    def resources_read(self, params):
        if params["uri"] != "x:r":
            raise Refusal(200, -32602, "Resource not found", {"uri": params["uri"]})
        return {"contents": [{"uri": "x:r", "text": "read"}]}

    async def tools_call(self, id, params, write):
        return await Call(self, params, write).run()

    async def subscriptions_listen(self, id, params, write):
        wanted = params["notifications"]
        granted = {key: value for key, value in wanted.items() if value is True}
        if uris := [uri for uri in wanted.get("resourceSubscriptions", []) if uri != "x:refused"]:
            granted["resourceSubscriptions"] = uris
        tag = {PREFIX + "subscriptionId": id}
        listen = self.listens[write, json.dumps(id)] = Listen(granted, tag, write)
        try:
            await listen.tell("notifications/subscriptions/acknowledged", {"notifications": granted})
            await listen.over.wait()
        finally:
            del self.listens[write, json.dumps(id)]
        return {"result": self.complete("subscriptions/listen", {"_meta": tag})}

    async def write(self, message):
        """Tells those who chose to hear it."""
        for listen in list(self.listens.values()):
            if listen.chose(message):
                await listen.tell(message["method"], message.get("params", {}))


class Listen:
    KINDS = {f"notifications/{kind}/list_changed": f"{kind}ListChanged" for kind in ["tools", "prompts", "resources"]}

    def __init__(self, granted, tag, write):
        self.granted, self.tag, self.write, self.over = granted, tag, write, asyncio.Event()

    def chose(self, message):
        if message["method"] == "notifications/resources/updated":
            return message["params"]["uri"] in self.granted.get("resourceSubscriptions", [])
        return self.KINDS.get(message["method"]) in self.granted

    async def tell(self, method, params):
        with contextlib.suppress(ConnectionError):
            await self.write({"method": method, "params": {**params, "_meta": {**params.get("_meta", {}), **self.tag}}})


class Asked(Exception):
    """The call ends with a result that asks."""


class Call(server.Call):
    """The steps; after an answer that is missing the state says where they go on."""

    def __init__(self, session, params, write):
        super().__init__(session, params, write)
        self.params, self.level = params, params["_meta"].get(PREFIX + "logLevel")
        self.abilities, self.insists, self.keeps_state = params["_meta"][PREFIX + "clientCapabilities"], False, True
        self.responses, self.at = dict(params.get("inputResponses", {})), 0

    async def run(self):
        if "requestState" in self.params:
            state = opened(self.params["requestState"])
            if state["of"] != digest(self.params):
                fault(f"the state of another call: {self.params}")
            if stray := set(self.responses) - set(state["open"]) - {"nobody"}:
                fault(f"nobody asked {stray}")
            self.at, self.told, self.open = state["at"], state["told"], state["open"]
            self.responses = {**state["kept"], **self.responses}
        try:
            while self.at < len(self.steps):
                name, *arguments = self.steps[self.at]
                await getattr(self, name)(*arguments)
                self.at += 1
        except Asked:
            return {"result": self.session.complete("tools/call", self.asking())}
        outcome = self.outcome or {"result": {"content": [{"type": "text", "text": json.dumps(self.told)}]}}
        return outcome if "error" in outcome else {"result": self.session.complete("tools/call", outcome["result"])}

    def asking(self):
        requests = {name: {"method": method, "params": params} for name, (method, params) in self.open.items() if name not in self.responses}
        result = {"resultType": "input_required"}
        if requests:
            result["inputRequests"] = requests
        if self.keeps_state:
            # what came is kept, so that only the rest is asked again
            state = {"at": self.at, "told": self.told, "open": self.open, "kept": self.responses, "of": digest(self.params)}
            result["requestState"] = sealed(state)
        return result

    async def tell(self, method, params):
        level = params.get("level") if method == "notifications/message" else None
        if level is None or self.level and LEVELS.index(level) >= LEVELS.index(self.level):
            await self.on_call({"method": method, "params": params})

    async def ask(self, name, method, params):
        needs = NEEDS[method]
        mode = params.get("mode", "form")
        modes = self.abilities.get("elicitation", {})
        able = needs in self.abilities and (needs != "elicitation" or mode in modes or mode == "form" and not modes)
        if not able and not self.insists:
            raise Refusal(400, -32021, f"The client cannot be asked for {needs}", {"requiredCapabilities": {needs: {mode: {}} if needs == "elicitation" else {}}})
        self.open[name] = [method, params]

    async def answer(self, name):
        if name not in self.responses:
            raise Asked()
        self.told[name] = self.responses.pop(name)
        self.open.pop(name)

    async def who(self):
        self.told["who"] = self.session.name

    async def again(self):
        """The client is to come back at once."""
        self.at += 1
        raise Asked()

    async def insist(self):
        """It asks what the client did not declare."""
        self.insists = True

    async def forget(self):
        """It knows nothing of a call between two requests: each begins at the first step."""
        self.keeps_state = False
        if "requestState" in self.params:
            fault("a state was invented")

    async def envelope(self):
        """Who asks, and what can be asked of them."""
        self.told["envelope"] = self.session.envelope

    async def prepare(self, method, outcome):
        self.session.outcomes.setdefault(method, []).append(outcome)

    async def listening(self, uri, wanted):
        """Waits until somebody listens to this resource, or nobody."""
        while any(uri in listen.granted.get("resourceSubscriptions", []) for listen in self.session.listens.values()) != wanted:
            await asyncio.sleep(0.01)

    async def end_listens(self):
        for listen in self.session.listens.values():
            listen.over.set()

    async def die(self):
        os._exit(3)


async def stdio(session):
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def write(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    async def serve(message):
        id = message["id"]
        try:
            session.judge(message)
            outcome = await session.answer(message, write)
        except Refusal as refusal:
            outcome = {"error": refusal.error}
        except asyncio.CancelledError:
            return
        session.running.pop(json.dumps(id), None)
        await write({"id": id, **outcome})
        if message["method"] == "subscriptions/listen":
            await write({"method": "notifications/cancelled", "params": {"requestId": id}})

    while line := await reader.readline():
        message = json.loads(line)
        RECEIVED.write(json.dumps({"question": None, "message": message}) + "\n")
        if "method" not in message:
            fault(f"a response: {message}")
        elif "id" in message:
            session.running[json.dumps(message["id"])] = asyncio.ensure_future(serve(message))
        elif message["method"] == "notifications/cancelled":
            id = message["params"]["requestId"]
            session.cancel(json.dumps(id), id)
        else:
            fault(f"a notification: {message}")


class Exchange:
    """One answer over HTTP: a message alone is JSON, several are a stream."""

    def __init__(self, writer):
        self.writer, self.streams = writer, False

    async def write(self, message):
        if not self.streams:
            self.streams = True
            self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n")
        data = b": \n\nevent: message\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def end(self, message, status=200):
        if self.streams:
            await self.write(message)
            return self.writer.write(b"0\r\n\r\n")
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.writer.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def decoded(value):
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


def mirrors(schema, arguments, path=()):
    """What the headers of a call must say, by the annotations of its tool."""
    for name, property in schema.get("properties", {}).items():
        if not isinstance(property, dict) or not isinstance(arguments, dict) or arguments.get(name) is None:
            continue
        if header := property.get("x-mcp-header"):
            value = arguments[name]
            yield "mcp-param-" + header.lower(), json.dumps(value) if isinstance(value, (bool, int)) else value
        yield from mirrors(property, arguments[name])


def check_headers(headers, message):
    """The headers of a request mirror its body (2026-07-28, transports)."""
    method, params = message["method"], message.get("params", {})
    expected = {"mcp-protocol-version": params.get("_meta", {}).get(PREFIX + "protocolVersion"), "mcp-method": method}
    if method in ASKING:
        expected["mcp-name"] = params.get("name", params.get("uri"))
    if method == "tools/call":
        tool = next((tool for tool in OFFERS["tools"] if tool["name"] == params["name"]), {})
        expected.update(mirrors(tool.get("inputSchema", {}), params.get("arguments", {})))
    stated = [(name, decoded(value)) for name, value in headers if name in expected or name.startswith("mcp-")]
    if sorted(stated) != sorted(expected.items()):
        fault(f"{method}: the headers are {stated} and not {expected}")
        raise Refusal(400, -32020, "Header mismatch")
    accept = dict(headers).get("accept", "")
    if "application/json" not in accept or "text/event-stream" not in accept:
        fault(f"{method} accepts {accept}")
    for name, _ in headers:
        if name in ("authorization", "cookie", "last-event-id"):
            fault(f"{method} with {name}")


async def post(session, headers, message, reader, exchange):
    """Serves one request; what closes its connection meanwhile cancels it."""
    id = message["id"]
    try:
        check_headers(headers, message)
        session.judge(message)
        task = session.running[exchange] = asyncio.ensure_future(session.answer(message, exchange.write))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            RECEIVED.write(json.dumps({"closed": id}) + "\n")
            session.cancel(exchange, id)
            raise ConnectionError()
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
        session.running.pop(exchange, None)
        await exchange.end({"id": id, **task.result()})
    except Refusal as refusal:
        await exchange.end({"id": id, "error": refusal.error}, refusal.status)


async def main():
    session, held = Server(), set()

    async def connection(reader, writer):
        task = asyncio.current_task()
        held.add(task)
        task.add_done_callback(held.discard)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in head[1:] if line)]
                body = await reader.readexactly(int(dict(headers).get("content-length", 0)))
                verb = head[0].split()[0]
                if verb != "POST":
                    fault(f"{verb} is not there")
                    writer.write(b"HTTP/1.1 405 X\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n")
                    continue
                message = json.loads(body)
                RECEIVED.write(json.dumps({"question": None, "message": message}) + "\n")
                if "id" not in message or "method" not in message:
                    fault(f"no request: {message}")
                    writer.write(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")
                    continue
                await post(session, headers, message, reader, Exchange(writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    if not HTTP:
        return await stdio(session)
    listener = await asyncio.start_server(connection, "127.0.0.1", int(sys.argv[2]), limit=1 << 24)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
