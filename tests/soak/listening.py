"""One `subscriptions/listen` of a client of 2026-07-28, on a stream of its own: acknowledged first, tagged, and of nothing that
was not chosen. Knows nothing of what is touched."""

import asyncio

from ear import Lost, Wrong
from wire import Gone

TAG = "io.modelcontextprotocol/subscriptionId"


class Listening:
    def __init__(self, client, id, uris, lists):
        self.client, self.id, self.uris, self.lists = client, id, uris, lists
        self.acknowledged, self.updated, self.task = asyncio.get_running_loop().create_future(), {}, None

    async def open(self, posted):
        """Waits for the acknowledgement; returns its resources."""
        self.task = asyncio.ensure_future(self.follow(posted))
        done, _ = await asyncio.wait({self.task, self.acknowledged}, timeout=self.client.world.longest, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise self.wrong("no acknowledgement")
        if self.task in done:
            self.task.result()
        self.client.world.count("listens")
        return self.acknowledged.result()

    def expect(self, uri):
        """Set once updates of the resource are acknowledged."""
        heard = self.updated[uri] = asyncio.Event()
        return heard

    async def close(self):
        """Ends the listen by closing the response, and reports its failures."""
        if self.task is None:
            return
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if not self.task.cancelled() and self.task.exception():
            raise self.task.exception()

    async def follow(self, posted):
        response = await posted
        try:
            async for _, message in response.messages():
                if message is not None:
                    self.hear(message)
            raise self.wrong("its stream ended", Lost)
        except Gone as gone:
            raise self.wrong(f"its stream broke: {gone}", Lost) from None
        finally:
            response.close()

    def hear(self, message):
        self.client.world.count("notifications")
        method, params = message.get("method"), message.get("params", {})
        if message.get("id") == self.id and "result" in message:
            raise self.wrong("its gateway ended it", Lost)
        if params.get("_meta", {}).get(TAG) != self.id:
            raise self.wrong(f"heard what belongs to another: {message}")
        if method == "notifications/subscriptions/acknowledged" and not self.acknowledged.done():
            honoured = set(params["notifications"].get("resourceSubscriptions", []))
            if not honoured <= set(self.uris):
                raise self.wrong(f"it is acknowledged with {params}")
            return self.acknowledged.set_result(honoured)
        if not self.acknowledged.done():
            raise self.wrong(f"heard something before the acknowledgement: {message}")
        if method == "notifications/resources/updated" and params["uri"] in self.acknowledged.result():
            self.client.world.count("updates")
            if params["uri"] in self.updated:
                self.updated[params["uri"]].set()
        elif method != "notifications/tools/list_changed" or not self.lists:
            raise self.wrong(f"heard what was not chosen: {message}")
        return None

    def wrong(self, what, kind=Wrong):
        return kind(f"{self.client.who()}: listen {self.id} for {self.uris}: {what}")
