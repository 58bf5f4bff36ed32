"""One client of 2026-07-28: it has no session, so every request says who asks, and goes on where an answer asks something."""

import asyncio
import copy
import time

from channel import Socket
from client import Client
from ear import Ear, Lost, Wrong
from exchanges import Exchanges
from listening import Listening
from question import ABILITIES, answer, subject
from wire import Gone, post, request

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
FATES = {"stay": 82, "cancel": 12, "abandon": 6}
STATUSES = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
EXPIRED = {"code": -32602, "message": "Invalid or expired requestState"}
# the gateway may have cancelled a call without an answer for this long
PATIENCE = 3
MOST_LISTENS = 3
# of the clients, so many are on WebSocket
SOCKET = 0.25


class ModernClient(Client):
    era = "modern"

    def __init__(self, world, user, number):
        super().__init__(world, user, number)
        self.capabilities = CAPABILITIES if self.dice.random() < 0.75 else {}
        self.ear = Ear(self.name, self.backend, self.share, exact=True)
        self.path, self.listens, self.used = f"/mcp/{self.backend}", [], []
        self.on_socket, self.exchanges = self.dice.random() < SOCKET, None

    # === its life

    async def open(self):
        if self.on_socket and not self.exchanges:
            socket = await Socket.open(self.world.port, f"/ws/{self.backend}", self.world.keys[self.user], self.dice.random() < 0.5)
            self.exchanges = Exchanges(self, socket)
            self.streams.append(asyncio.ensure_future(self.exchanges.follow()))
            self.world.count("clients without sessions on WebSocket")
        result = (await self.ask("server/discover", {})).get("result", {})
        if result.get("supportedVersions") != [VERSION] or "tools" not in result["capabilities"]:
            raise Wrong(f"{self.who()} discovered {result}")
        self.world.count("clients without sessions")

    async def close(self):
        closed = await asyncio.gather(*(listen.close() for listen in self.listens), return_exceptions=True)
        if self.exchanges:
            await self.exchanges.socket.close(self.dice.random() < 0.8)
        await self.end_streams()
        for wrong in filter(None, closed):
            raise wrong

    async def act(self):
        chance = self.dice.random()
        if chance < 0.70:
            await asyncio.gather(*(self.work() for _ in range(self.dice.choice((1, 1, 1, 2, 4)))))
        elif chance < 0.80:
            await self.listen()
        elif chance < 0.85:
            await self.list()
        elif chance < 0.88:
            await self.open()
        elif chance < 0.91:
            await self.reuse()
        elif chance < 0.91 + self.world.deaths:
            await self.die()
        elif chance < 0.96 and self.listens:
            await self.listens.pop(self.dice.randrange(len(self.listens))).close()
        else:
            await self.miss()

    # === calls

    async def work(self):
        arguments, fate = self.job(FATES)
        level = self.dice.choice((None, "debug", "warning", "error"))
        more, steps, known = {}, 0, set()
        while True:
            token = self.next
            begun = 0 if self.at_modern and arguments["afresh"] else steps
            given = await self.call("work", arguments, fate, more, level, begun)
            if given is None:
                return
            if "error" in given:
                return self.failed(given["error"], fate)
            if "requestState" in more:
                # not before: a request that was closed may never have reached the gateway
                self.used.append((arguments, more))
            steps += self.ear.steps[token] - begun
            result = given["result"]
            self.ear.ended.add(token)
            if result["resultType"] == "complete":
                break
            more = await self.respond(arguments, result, known, fate)
            if more is None:
                return
        self.ended(arguments, level, result, steps)

    def ended(self, arguments, level, result, steps):
        owner, expected = arguments["owner"], arguments["steps"] * (len(arguments["asks"]) + 1)
        if result["content"][0]["text"] != owner:
            late = "the client did not answer within" in result["content"][0]["text"]
            raise (Lost if late else Wrong)(f"{owner} got the answer {result}")
        if steps != expected:
            raise Wrong(f"{owner} heard {steps} of {expected} steps before its answer")
        logged = {step for logger, step in self.ear.logged if logger == owner}
        # on a channel, a message is ambiguous if several calls asked for some
        if self.at_http and arguments["log"] and level in ("debug", "warning") and logged != set(range(1, expected + 1)):
            raise Wrong(f"{owner} read the log messages {sorted(logged)} of {expected}")
        self.worked(result)

    async def respond(self, arguments, result, known, fate):
        """What the next request brings beside the arguments; `None` where there is none. `known` is what was asked before."""
        came, owner, responses = time.monotonic(), arguments["owner"], {}
        if result["resultType"] != "input_required" or not self.capabilities and result.get("inputRequests"):
            raise Wrong(f"{self.who()} cannot be asked: {result}")
        requests = result.get("inputRequests", {})
        if not requests and "requestState" not in result:
            raise Wrong(f"{self.who()} is asked nothing: {result}")
        for key, asked in requests.items():
            about = subject(asked["method"], asked.get("params") or {})
            self.ear.asks(known, key, asked["method"], about, owner)
            chance = self.dice.random()
            if chance < 0.06 and not arguments["bare"]:
                self.world.count("questions passed over")
                continue
            refuses = chance < 0.15 and asked["method"] == "elicitation/create"
            responses[key] = {"action": self.dice.choice(("decline", "cancel"))} if refuses else answer(asked["method"], about)
            known |= {key, (asked["method"], about)}
        await asyncio.sleep(self.dice.choice((0, 0, 0.05, 0.5)) if requests else 0)
        if fate == "abandon" or self.world.over.is_set():
            return self.world.count("calls abandoned")
        if time.monotonic() - came > PATIENCE:
            return self.world.count("calls abandoned for their lateness")
        if responses and self.dice.random() < 0.1:
            responses["nobody"] = {"action": "accept"}
        more = {"inputResponses": responses} if requests else {}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        return more

    async def reuse(self):
        """A state is good for its own call alone, and once where the call waits at the gateway."""
        if not self.used:
            return
        arguments, more = self.used.pop(self.dice.randrange(len(self.used)))
        if self.at_modern or self.dice.random() < 0.5:
            arguments = {**copy.deepcopy(arguments), "owner": f"{self.name}.{self.next}"}
            self.world.never.add(arguments["owner"])
        given = await self.call("work", arguments, "stay", more)
        if given is not None and given.get("error") != EXPIRED:
            raise Wrong(f"{self.who()} used a state again: {given}")
        self.world.count("states refused")

    def can(self, kind):
        return ABILITIES[kind] in self.capabilities

    # === what else there is

    async def list(self):
        result = (await self.ask("tools/list", {})).get("result", {})
        names = sorted(tool["name"] for tool in result.get("tools", []))
        if names != ["die", "touch", "work"] or "ttlMs" not in result or "cacheScope" not in result:
            raise Wrong(f"{self.who()} was shown {result}")

    async def miss(self):
        """What this version does not have."""
        if self.dice.random() < 0.5:
            error = (await self.ask(self.dice.choice(("ping", "logging/setLevel", "resources/subscribe")), {})).get("error", {})
            if error.get("code") != -32601:
                raise Wrong(f"{self.who()} pinged: {error}")
            return
        # without its version, a GET is one of an old client that wants HTTP+SSE
        headers = {**self.headers, "MCP-Protocol-Version": VERSION}
        response = await request(self.world.port, self.dice.choice(("GET", "DELETE")), self.path, headers)
        response.close()
        if response.status != 405:
            raise Wrong(f"{self.who()}: GET or DELETE without a session: {response.status}")

    async def listen(self):
        """Opens one, and hears what is touched then."""
        if len(self.listens) >= MOST_LISTENS:
            await self.listens.pop(0).close()
        uris = sorted({self.resource() for _ in range(self.dice.randint(1, 3))})
        lists = self.dice.random() < 0.3
        id, headers, message = self.message("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris, **({"toolsListChanged": True} if lists else {})}})
        listen = Listening(self, id, uris, lists)
        self.listens.append(listen)
        honoured = await listen.open(self.post(id, headers, message))
        if honoured != set(uris) and not self.world.deaths:
            raise Wrong(f"{self.who()} asked to hear of {uris} and is told of {honoured}")
        uri = self.dice.choice(uris)
        heard = listen.expect(uri)
        answer = await self.call("touch", {"owner": f"{self.name}.{self.next}", "uri": uri}, "stay")
        if "error" in answer:
            return self.failed(answer["error"])
        # a legacy program may have been touched in another process than the one that was subscribed at
        # each replica has a program of its own, and a session of its own
        if uri in honoured and (self.at_http and self.at_modern if self.world.replicas else self.at_http or self.at_modern):
            await self.heard(heard, uri)

    def who(self):
        return f"{self.name} on {self.backend} ({VERSION}{' socket' if self.on_socket else ''})"

    # === what it says

    def message(self, method, params, level=None):
        """A request in its envelope: the id, the headers, and the message."""
        id, self.next = self.next + 1, self.next + 1
        meta = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": self.capabilities, PREFIX + "clientInfo": {"name": "soak", "version": "1"}}
        if level:
            meta[PREFIX + "logLevel"] = level
        params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        headers = {**self.headers, "MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
            if self.at_modern:
                headers["Mcp-Param-Owner"] = params["arguments"]["owner"]
        return id, headers, {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    async def call(self, name, arguments, fate, more=None, level=None, base=0):
        token = self.next
        self.ear.begins(token, arguments["owner"], level, base)
        params = {"name": name, "arguments": arguments, **(more or {}), "_meta": {"progressToken": token}}
        return await self.ask("tools/call", params, fate, level)

    async def ask(self, method, params, fate="stay", level=None):
        """A request; its response, or `None` where it was closed."""
        message = self.message(method, params, level)
        began, asked = time.monotonic(), asyncio.ensure_future(self.exchange(*message))
        if fate == "cancel":
            owner = params["arguments"]["owner"]
            while owner in self.world.cancelled and not asked.done() and not self.ear.steps[message[0] - 1]:
                await asyncio.sleep(0.02)
            await asyncio.wait({asked}, timeout=self.dice.uniform(0, 0.3))
            if not asked.done():
                asked.cancel()
                self.world.count("cancels")
                self.cancelled(owner)
                return None
        done, _ = await asyncio.wait({asked}, timeout=self.world.longest)
        if not done:
            asked.cancel()
            raise Lost(f"{self.who()}: no end of {method} {params} within {self.world.longest} s ({fate})", began)
        return asked.result()

    async def post(self, id, headers, message):
        """Sends a request; the response, or the messages of the connection that belong to it."""
        if self.exchanges:
            return await self.exchanges.post(id, message)
        return await post(self.world.port, self.path, headers, message)

    async def exchange(self, id, headers, message):
        response = await self.post(id, headers, message)
        try:
            if "mcp-session-id" in response.headers:
                raise Wrong(f"{self.who()} was given a session")
            whole = response.headers.get("content-type") == "application/json"
            answered = None
            async for event, heard in response.messages():
                if answered is not None:
                    # nothing may follow; a further message is checked as such
                    self.hear(heard, id)
                    raise Wrong(f"{self.who()} heard something after the answer: {heard}")
                if event is not None:
                    raise Wrong(f"{self.who()} was given the event id {event}")
                if heard is None:
                    continue
                if "method" in heard:
                    self.hear(heard, id)
                    continue
                self.check(id, heard, response.status if whole else None)
                answered = heard
            if answered is None:
                raise Gone("a stream without an answer")
            return answered
        finally:
            response.close()

    # === what it hears

    def check(self, id, answered, status):
        if answered.get("id") != id:
            raise Wrong(f"{self.name} asked {id} and was answered {answered}")
        code = answered.get("error", {}).get("code")
        if status is not None and status != STATUSES.get(code, 200):
            raise Wrong(f"{self.who()}: {status} and {answered}")
        if "result" in answered and answered["result"].get("resultType") not in ("complete", "input_required"):
            raise Wrong(f"{self.who()}: a result of no type: {answered}")

    def hear(self, message, id):
        """A message on the stream of the request `id`."""
        method, params = message["method"], message.get("params") or {}
        self.world.count("notifications")
        if method == "notifications/progress":
            return self.ear.progress(params, self.ear.owners.get(id - 1))
        if method == "notifications/message":
            if isinstance(params["data"], dict):
                self.ear.log(params, self.ear.owners.get(id - 1))
            return None
        raise Wrong(f"{self.who()} heard in a request what does not belong there: {message}")
