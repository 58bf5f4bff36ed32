"""Common parts of the clients of both eras: identity, calls, and allowed failures.

A client is one of a person, at one server, and does what people's clients do, at random.
"""

import asyncio
import random
import time

from ear import Lost, Wrong
from question import ABILITIES
from wire import Gone

RETRYABLE = "retryable errors"
HEARD_WITHIN = 10
SUBJECTS = 4


class Client:
    def __init__(self, world, user, number):
        self.world, self.user, self.name = world, user, f"{user}.{number}"
        self.dice = random.Random(f"{world.seed}/{self.name}")
        self.backend, self.share = self.dice.choice(world.backends)
        self.at_modern, self.at_http = self.backend.startswith("modern"), "-http-" in self.backend
        self.headers = {"Authorization": f"Bearer {world.keys[user]}", "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self.mortal = self.backend.endswith("-end")
        self.next, self.streams = 0, []

    # === its life

    async def live(self):
        try:
            await self.open()
        except Gone as gone:
            raise Lost(f"{self.who()} could not open: {gone}")
        try:
            for _ in range(self.dice.randint(5, 40)):
                if self.world.over.is_set():
                    break
                try:
                    await self.act()
                except (Gone, Lost):
                    # a session that was in another replica goes on
                    if not self.world.disturbed() or not await self.goes_on():
                        raise
                    # what it was about to cancel may have lost its stream before
                    self.world.cancelled -= {owner for owner in self.world.cancelled if owner.rsplit(".", 1)[0] == self.name}
                await asyncio.sleep(self.dice.expovariate(1 / self.world.pause))
        except Gone as gone:
            if not self.mortal:
                raise Lost(f"{self.who()}: the session broke: {gone}")
            self.world.count("sessions that ended with their server")
        finally:
            await self.close()

    async def end_streams(self):
        """Ends background work, and reports its failures."""
        for stream in self.streams:
            stream.cancel()
        await asyncio.gather(*self.streams, return_exceptions=True)
        for stream in self.streams:
            if not stream.cancelled() and isinstance(stream.exception(), Wrong):
                raise stream.exception()

    async def goes_on(self):
        """Whether it has something that outlives its replica, and that is there again."""
        return False

    def cancelled(self, owner):
        """A cancel does not pass a replica that is stopped, nor one that is stopped while it is on its way."""
        if self.world.disturbed():
            self.world.cancelled.discard(owner)
        self.world.cancelled_at[owner] = time.monotonic()

    # === what it does

    def job(self, fates):
        """The arguments of a call of `work`, and what becomes of it: one of `fates`, which are chances by name."""
        owner = f"{self.name}.{self.next}"
        kinds = [kind for kind in ABILITIES if self.can(kind)]
        fate = self.dice.choices(list(fates), list(fates.values()))[0]
        steps, pause = self.dice.randint(0, 4), self.dice.choice((0, 0.01, 0.1))
        # each part of the work ends with questions; with none, a server of 2026-07-28 wants to be called again
        ask = lambda: self.dice.sample(kinds, self.dice.choice((0, 1, 1, len(kinds)))) if kinds else []
        asks = [ask() for _ in range(self.dice.choice((0, 0, 1, 1, 2)))]
        if fate == "cancel" and self.dice.random() < 0.5:
            # it would go on for long: the cancel must end it
            steps, pause, asks = 80, 0.1, []
            self.world.cancelled.add(owner)
        # a server of 2026-07-28 needs no state for one question, and may count its steps afresh after each
        bare, afresh = len(asks) == 1 and asks[0] != [] and self.dice.random() < 0.3, self.dice.random() < 0.5
        arguments = {"owner": owner, "steps": steps, "pause": pause, "asks": asks, "log": self.dice.random() < 0.3, "bare": bare, "afresh": afresh}
        return arguments, fate

    def resource(self):
        """A resource of its own, or one that all have."""
        common = self.share != "session" and self.dice.random() < 0.5
        return f"soak://{'common' if common else self.name}/{self.dice.randrange(SUBJECTS)}"

    async def heard(self, event, uri):
        """Waits for the update of a resource that was touched."""
        until = time.monotonic() + HEARD_WITHIN
        while not event.is_set() and time.monotonic() < until:
            await asyncio.sleep(0.02)
        if not event.is_set():
            raise Lost(f"{self.who()} heard of no update of {uri} within {HEARD_WITHIN} s")
        self.world.count("updates awaited")

    async def die(self):
        answer = await self.call("die", {"owner": f"{self.name}.{self.next}"}, "stay")
        if answer is not None:
            self.failed(answer.get("error") or {"code": 0, "message": "die answered"})

    def worked(self, result):
        for told in result["_meta"]["soak/answers"]:
            self.world.count(f"questions {told}")
        self.world.count("calls")
        self.world.count(f"calls, {self.era} client at {'modern' if self.at_modern else 'legacy'} server")

    def failed(self, error, fate="stay"):
        if "retryable" in (error.get("data") or {}):
            self.world.count(RETRYABLE)
        else:
            raise Lost(f"{self.who()} got an error that says nothing of a retry ({fate}): {error}")
