"""The requests of a client of 2026-07-28 on one WebSocket connection: each gets the messages that belong to it, as from a response
of its own. A cancel ends one that has no answer."""

import asyncio

from ear import Lost, Wrong
from listening import TAG
from wire import Gone


class Exchanges:
    def __init__(self, client, socket):
        self.client, self.socket, self.open, self.is_over = client, socket, {}, False

    async def post(self, id, message):
        if self.is_over:
            raise Gone("the connection ended")
        exchange = self.open[id] = Exchange(self, id)
        await self.socket.send(message)
        return exchange

    async def follow(self):
        """Hands each message to the request that it belongs to."""
        try:
            async for message in self.socket.messages():
                id = self.request_of(message)
                if id in self.open:
                    self.open[id].queue.put_nowait(message)
        finally:
            self.is_over = True
            for exchange in self.open.values():
                exchange.queue.put_nowait(None)

    def request_of(self, message):
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            id = message.get("id")
        elif TAG in (params.get("_meta") or {}):
            id = params["_meta"][TAG]
        elif method == "notifications/progress":
            id = params["progressToken"] + 1
        elif method == "notifications/message":
            owner = params["data"].get("owner") if isinstance(params["data"], dict) else None
            if owner is None:
                # the gateway's own
                return None
            # the newest request of the call, which may have gone on after a question
            id = max((token + 1 for token, known in self.client.ear.owners.items() if known == owner), default=None)
        elif method == "notifications/cancelled":
            raise Lost(f"{self.client.who()}: its gateway ended a request: {message}")
        else:
            raise self.wrong(message)
        if id not in range(1, self.client.next + 1):
            raise self.wrong(message)
        return id

    def wrong(self, message):
        return Wrong(f"{self.client.who()} heard what belongs to none of its requests: {message}")


class Exchange:
    """One request. Looks like a response over HTTP."""

    def __init__(self, all, id):
        self.all, self.id, self.queue, self.answered = all, id, asyncio.Queue(), False
        self.headers, self.status = {}, None

    async def messages(self):
        while not self.answered:
            message = await self.queue.get()
            if message is None:
                raise Gone("the connection ended")
            self.answered = "method" not in message
            yield None, message

    def close(self):
        if self.all.open.pop(self.id, None) and not self.answered and not self.all.is_over:
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self.id}}
            asyncio.ensure_future(self.cancel(cancel))

    async def cancel(self, message):
        try:
            await self.all.socket.send(message)
        except Gone:
            pass
