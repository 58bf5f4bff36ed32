"""One client session of the soak, of a version that has such: it checks whose everything is that it hears."""

import asyncio
import time

from channel import Pipes, Socket
from client import Client
from ear import Ear, Lost, Wrong
from question import ABILITIES, answer, owner, subject
from wire import Gone, post, request

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
CAPABILITIES = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
# a process for each client on stdio, with its servers, is costly
BINDINGS = {"http": 65, "sse": 15, "socket": 15, "stdio": 5}
# the lease of the replica that had it, and the start of a server
GOES_ON_WITHIN = 40
FATES = {"stay": 80, "cancel": 7, "leave": 4, "resume": 9}


class LegacyClient(Client):
    era = "legacy"

    def __init__(self, world, user, number):
        super().__init__(world, user, number)
        self.version = self.dice.choice(VERSIONS)
        self.binding = self.dice.choices(list(BINDINGS), list(BINDINGS.values()))[0]
        if self.binding == "http" and self.version == "2024-11-05":
            self.binding = "sse"
        # all messages of the session come on one stream
        self.whole = self.binding != "http"
        self.channel, self.names, self.uris = None, "", ""
        if self.binding == "stdio":
            # the gateway is its own, with the endpoint of all servers, and so is the server
            self.share, self.backend = "session", f"{self.backend.rsplit('-', 1)[0]}-session"
            self.names, self.uris = f"{self.backend}__", f"{self.backend}+"
        self.capabilities = CAPABILITIES if self.dice.random() < 0.75 else {}
        self.ear = Ear(self.name, self.backend, self.share, exact=self.at_http or self.at_modern, level="debug")
        # on a channel, a log message is the session's: the server says of no call that it belongs to it
        self.ear.logs_apart = self.at_http
        self.calls, self.listens, self.refused = {}, self.whole, set()
        self.post_path, self.waiting = None, {}

    # === the life of a session

    async def open(self):
        if self.binding in ("socket", "stdio"):
            await self.open_channel()
        elif self.binding == "sse":
            response = await request(self.world.port, "GET", f"/sse/{self.backend}", {**self.headers, "Accept": "text/event-stream"})
            if response.status != 200:
                raise Gone(f"/sse {response.status}")
            opened = asyncio.get_running_loop().create_future()
            self.streams.append(asyncio.ensure_future(self.connected(response, opened)))
            async with asyncio.timeout(self.world.longest):
                self.post_path = await opened
        else:
            self.post_path = f"/mcp/{self.backend}"
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": {"name": "soak", "version": "1"}}
        answer = await self.ask("initialize", params)
        if answer.get("result", {}).get("protocolVersion") != self.version:
            raise Wrong(f"initialize of {self.version}: {answer}")
        await self.tell({"method": "notifications/initialized"})
        if not self.whole:
            self.headers["MCP-Protocol-Version"] = self.version
            self.listens = self.dice.random() < 0.8
            if self.listens:
                self.streams.append(asyncio.ensure_future(self.standalone()))
        self.world.count("sessions")
        self.world.count(f"sessions by {self.binding}")

    async def open_channel(self):
        if self.binding == "stdio":
            self.channel = await Pipes.open(self.world.binary, self.world.local[self.backend], self.world.log)
        else:
            key = self.world.keys[self.user]
            self.channel = await Socket.open(self.world.port, f"/ws/{self.backend}", key, self.dice.random() < 0.5)
        self.streams.append(asyncio.ensure_future(self.follow()))

    async def close(self):
        for task in list(self.calls.values()):
            task.cancel()
        if self.channel:
            code = await self.channel.close(self.dice.random() < 0.8)
            if self.binding == "stdio" and code != 0:
                raise Wrong(f"{self.who()}: the gateway of the client ended with {code}")
        elif not self.whole and self.dice.random() < 0.8:
            response = await request(self.world.port, "DELETE", self.post_path, self.headers)
            if response.status not in (204, 404):
                raise Wrong(f"DELETE: {response.status}")
            response.close()
        await self.end_streams()

    async def goes_on(self):
        if self.whole:
            return False
        # a question may have gone down a stream that broke off
        self.ear.left = True
        until = time.monotonic() + GOES_ON_WITHIN
        while time.monotonic() < until:
            try:
                answer = await self.ask("ping", {})
            except Gone as gone:
                if str(gone) == "session":
                    raise Wrong(f"{self.who()}: its session is lost") from None
                await asyncio.sleep(0.5)
                continue
            if "result" in answer:
                self.world.count("sessions that went on elsewhere")
                return True
            await asyncio.sleep(0.5)
        raise Wrong(f"{self.who()}: its session does not go on")

    # === what it does

    async def act(self):
        chance = self.dice.random()
        if chance < 0.72:
            await asyncio.gather(*(self.work() for _ in range(self.dice.choice((1, 1, 1, 2, 4)))))
        elif chance < 0.80:
            await self.subscribe()
        elif chance < 0.86:
            await self.set_level(self.dice.choice(("debug", "warning", "error")))
        elif chance < 0.92:
            await self.ask("tools/list", {})
        elif chance < 0.92 + self.world.deaths:
            await self.die()
        else:
            await self.ask("ping", {})

    async def work(self):
        arguments, fate = self.job({**FATES, "leave": 0, "resume": 0} if self.whole else FATES)
        token = self.next
        answer = await self.call("work", arguments, fate)
        if answer is None:
            return
        if "error" in answer:
            return self.failed(answer["error"], fate)
        if arguments["owner"] in self.refused:
            return self.ended(arguments["owner"], token, answer["result"])
        self.ear.answered(token, answer["result"], arguments["steps"] * (len(arguments["asks"]) + 1))
        self.worked(answer["result"])

    def ended(self, owner, token, result):
        """The end of a call whose question it refused, at a server that has no form for a refusal."""
        text = result["content"][0]["text"]
        if not result.get("isError") or not text.startswith(f"Input '{owner}/"):
            raise Wrong(f"{owner} went on without an answer: {result}")
        about, reason = text.split("'")[1].rsplit("/", 1)[0], text.split(": ", 1)[1]
        if reason != about and not reason.startswith("the client did not answer"):
            raise Wrong(f"{owner} ended with a refusal of another: {result}")
        self.ear.ended.add(token)
        self.world.count("calls that ended without an answer")

    def can(self, kind):
        return ABILITIES[kind] in self.capabilities and (kind != "elicit" or self.version >= "2025-06-18")

    async def set_level(self, level):
        # where replicas go, its answer may be lost after it had effect: until then any level may hold
        self.ear.level = "debug"
        if "error" in await self.ask("logging/setLevel", {"level": level}):
            raise Wrong(f"{self.who()}: the level {level} was refused")
        self.ear.level = level

    async def subscribe(self):
        uri, uris = self.resource(), self.ear.uris
        on = uri not in uris or uris[uri] is not None
        if on:
            uris[uri] = None
        heard = self.ear.updated[uri] = asyncio.Event()
        set_up = await self.ask("resources/subscribe" if on else "resources/unsubscribe", {"uri": self.uris + uri})
        if not on and "result" in set_up:
            uris[uri] = time.monotonic()
        answer = await self.call("touch", {"owner": f"{self.name}.{self.next}", "uri": uri}, "stay")
        for told in (set_up, answer):
            if "error" in told:
                return self.failed(told["error"])
        # where sharers have several processes, the one that was touched may be another than the one subscribed at
        one = self.share == "session" or self.at_http or self.at_modern
        if on and one and self.listens:
            await self.heard(heard, uri)

    def who(self):
        return f"{self.name} on {self.backend} ({self.version} {self.binding})"

    # === what it says

    async def call(self, name, arguments, fate):
        token = self.next
        self.ear.begins(token, arguments["owner"])
        params = {"name": self.names + name, "arguments": arguments, "_meta": {"progressToken": token}}
        return await self.ask("tools/call", params, fate)

    async def ask(self, method, params, fate="stay"):
        """A request; its answer, or None where it was cancelled or left."""
        id, self.next = self.next + 1, self.next + 1
        began = time.monotonic()
        asked = asyncio.ensure_future(self.exchange(id, {"id": id, "method": method, "params": params}, fate))
        self.calls[id] = asked
        try:
            if fate == "cancel":
                # a cancel may overtake its call, and then cancels nothing: what must end is known to run first
                owner = params.get("arguments", {}).get("owner")
                while owner in self.world.cancelled and not asked.done() and not self.ear.steps[id - 1]:
                    await asyncio.sleep(0.02)
                await asyncio.wait({asked}, timeout=self.dice.uniform(0, 0.3))
                if not asked.done():
                    await self.tell({"method": "notifications/cancelled", "params": {"requestId": id}})
                    self.world.count("cancels")
                    self.cancelled(owner)
            done, _ = await asyncio.wait({asked}, timeout=self.world.longest)
            if not done:
                asked.cancel()
                if self.whole and fate == "cancel":
                    return None
                raise Lost(f"{self.who()}: no end of {method} {params} within {self.world.longest} s ({fate})", began)
            return asked.result()
        finally:
            self.calls.pop(id, None)

    async def exchange(self, id, message, fate):
        if self.whole:
            future = self.waiting[id] = asyncio.get_running_loop().create_future()
            await self.tell(message)
            # a cancelled request is not answered
            done, _ = await asyncio.wait({future}, timeout=5 if fate == "cancel" else None)
            self.waiting.pop(id, None)
            return future.result() if done else None
        response = await post(self.world.port, self.post_path, self.headers, {"jsonrpc": "2.0", **message})
        if response.status == 404:
            raise Gone("session")
        if "mcp-session-id" in response.headers:
            self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        last, leave = None, self.dice.randint(1, 3) if fate in ("leave", "resume") else 0
        try:
            while True:
                async for event, answer in response.messages():
                    last = event or last
                    if answer is None:
                        continue
                    if "method" not in answer:
                        if answer.get("id") != id:
                            raise Wrong(f"{self.name} asked {id} and was answered {answer}")
                        return answer
                    await self.hear(answer, self.ear.owners.get(id - 1))
                    leave -= 1
                    if leave == 0:
                        break
                else:
                    if fate == "cancel":
                        return None
                    raise Gone("a stream without an answer")
                response.close()
                if fate == "leave" or last is None:
                    self.world.count("streams left")
                    self.ear.left = True
                    return None
                self.world.count("resumptions")
                response = await request(self.world.port, "GET", self.post_path, {**self.headers, "Last-Event-ID": last})
                # it has ended, and nothing follows: right for a cancelled call alone
                if response.status == 204 and fate == "cancel":
                    return None
                if response.status != 200:
                    raise Lost(f"resumption: {response.status} {await response.body()}")
        finally:
            response.close()

    async def tell(self, message):
        if self.channel:
            return await self.channel.send({"jsonrpc": "2.0", **message})
        response = await post(self.world.port, self.post_path, self.headers, {"jsonrpc": "2.0", **message})
        if response is None:
            return
        response.close()
        if response.status == 404:
            raise Gone("session")
        if response.status not in (200, 202):
            raise Wrong(f"{message} was answered {response.status}")

    # === what it hears

    async def connected(self, response, opened):
        try:
            async for _, message in response.messages():
                if isinstance(message, str):
                    opened.set_result(message)
                elif message:
                    await self.receive(message)
        finally:
            response.close()

    async def follow(self):
        async for message in self.channel.messages():
            await self.receive(message)

    async def receive(self, message):
        if "method" in message:
            await self.hear(message, None)
        elif message["id"] in self.waiting:
            self.waiting.pop(message["id"]).set_result(message)
        elif message["id"] not in range(1, self.next + 1):
            raise Wrong(f"{self.name} never asked {message}")

    async def standalone(self):
        last = None
        while True:
            headers = {**self.headers, **({"Last-Event-ID": last} if last and self.dice.random() < 0.7 else {})}
            try:
                response = await request(self.world.port, "GET", self.post_path, headers)
            except Gone:
                if not self.world.replicas:
                    raise
                await asyncio.sleep(0.5)
                continue
            if response.status != 200:
                return
            until = time.monotonic() + self.dice.uniform(1, 30)
            try:
                messages = response.messages()
                while time.monotonic() < until:
                    # `wait_for` loses a cancel that comes with a message
                    async with asyncio.timeout(max(0.01, until - time.monotonic())):
                        last, message = await anext(messages)
                    if message:
                        await self.hear(message, None)
            except (asyncio.TimeoutError, StopAsyncIteration, Gone):
                pass
            finally:
                response.close()
            self.world.count("standalone streams")

    async def hear(self, message, call):
        """A message that is no answer; `call` is whose stream it came on, where it came on one."""
        method, params = message["method"], message.get("params") or {}
        if method == "notifications/progress":
            self.ear.progress(params, call)
        elif method == "notifications/message":
            if isinstance(params["data"], dict):
                self.ear.log(params, call)
        elif method == "notifications/resources/updated":
            self.ear.update({**params, "uri": params["uri"].removeprefix(self.uris)})
            self.world.count("updates")
        elif method == "notifications/cancelled":
            self.ear.withdrawn(params)
        elif "id" in message and method != "ping":
            await self.answer(message, call)
        self.world.count("notifications")

    async def answer(self, question, call):
        method, about = question["method"], subject(question["method"], question.get("params") or {}).removesuffix(f" (from {self.backend})")
        self.ear.question(question, about, call)
        chance = self.dice.random()
        if chance < 0.15 and self.at_modern and method != "elicitation/create":
            self.refused.add(owner(about))
        if chance < 0.03:
            return self.world.count("questions left open")
        reply = {"error": {"code": -1, "message": about}} if chance < 0.15 else {"result": answer(method, about)}

        async def later():
            await asyncio.sleep(self.dice.choice((0, 0, 0.05, 0.5)))
            try:
                await self.tell({"id": question["id"], **reply})
            except Gone:
                pass

        self.streams.append(asyncio.ensure_future(later()))
