"""The base of every attack: its context, its rate, the connections it holds, and counts of the outcomes."""

import asyncio
import collections
import socket

from http1 import Connection, Gone, request
from sources import KINDS, SPREADS, Source, Target, attackers, secured

TICKS_PER_SECOND = 100
# a generator that the scheduler delayed makes up for at most this many seconds
MAX_CATCH_UP = 0.25
# an attack that sent less than this part of its plan proves nothing
LEAST_SENT = 0.1
DIRECT = tuple((kind, spread) for kind in ("loopback", "network") for spread in SPREADS)
REQUESTS = tuple((kind, spread) for kind in ("proxy", "network") for spread in SPREADS)
EVERYWHERE = tuple((kind, spread) for kind in KINDS for spread in SPREADS)


class Context:
    """The target of an attack, its sources, the credentials it has, and what it counts."""

    def __init__(self, spec):
        self.kind, self.seconds, self.rate = spec["kind"], spec["seconds"], spec["rate"]
        self.target = Target(spec["host"], spec["port"]) if spec.get("host") else Target.of(spec["kind"], spec["port"])
        self.sources = attackers(spec["kind"], spec["spread"])
        if spec.get("host"):
            # the decoy listens on loopback
            self.sources = [Source(Source.attacker("loopback", number).bind, source.forwarded) for number, source in enumerate(self.sources)]
        self.credentials = spec["credentials"]
        self.outcomes, self.sent, self.open, self.peak = collections.Counter(), 0, 0, 0
        self.until = asyncio.get_running_loop().time() + self.seconds

    def source(self, number):
        return self.sources[number % len(self.sources)]

    def seconds_left(self):
        return self.until - asyncio.get_running_loop().time()

    def opened(self, number=1):
        self.open += number
        self.peak = max(self.peak, self.open)

    async def paced(self):
        """Yields 0, 1, 2, … at the rate of the attack, until its time is over."""
        loop = asyncio.get_running_loop()
        start, done = loop.time(), 0
        while loop.time() < self.until:
            due = int((loop.time() - start) * self.rate)
            late = due - done - int(self.rate * MAX_CATCH_UP) - 1
            if late > 0:
                start += late / self.rate
                due -= late
            while done < due:
                yield done
                done += 1
            await asyncio.sleep(1 / TICKS_PER_SECOND)

    def report(self):
        return {"sent": self.sent, "peak": self.peak, "outcomes": dict(self.outcomes.most_common(8))}


class Attack:
    """One attack.

    `rate`: connections or requests per second. `mib`, `disk`: MiB of memory and of disk that it may cost the gateway.
    `sources`, `short`: where the full and the short form run it from. `shared_address`: from one address, the other clients
    use the same one. `shared_user`: the attacker is the user of one of the other clients. `seconds`: its least duration.
    `servers`: sections of the configuration for servers of its own.
    """

    name, what = None, None
    rate, mib, disk = 500, 96, 8
    sources, short = DIRECT, ("network", "many")
    shared_address, shared_user = False, False
    seconds = 0
    servers = ""

    async def run(self, context):
        raise NotImplementedError

    @classmethod
    def least(cls, seconds):
        """How many connections or requests it must send to prove anything."""
        return cls.rate * seconds * LEAST_SENT


class HeldConnection(asyncio.Protocol):
    """One connection of a [`ConnectionHolder`]."""

    def __init__(self, holder, context, source):
        self.holder, self.context, self.source, self.transport = holder, context, source, None
        holder.made += 1
        self.number = holder.made

    def connection_made(self, transport):
        self.transport = transport
        self.context.opened()
        self.holder.held.add(self)
        self.holder.begin(self)

    def data_received(self, data):
        self.context.outcomes[data[9:12].decode("latin-1") if data.startswith(b"HTTP/1.") else "other bytes"] += 1
        self.holder.received(self, data)

    def connection_lost(self, error):
        self.context.opened(-1)
        self.holder.held.discard(self)
        if self.context.seconds_left() > 0:
            self.context.outcomes["closed by the gateway"] += 1


class ConnectionHolder(Attack):
    """Holds `most` connections, and replaces those that the gateway closes. Each sends more every `every` seconds."""

    most, every = 1200, 2.0
    receive_buffer = None
    # without a handshake, where the gateway speaks TLS
    bare = False

    def begin(self, held):
        """Sends the first bytes."""

    def more(self, held):
        """Sends further bytes."""

    def received(self, held, data):
        """Looks at bytes that came."""

    @classmethod
    def least(cls, seconds):
        return cls.most / 2

    async def run(self, context):
        self.held, self.context, self.opening, self.made = set(), context, 0, 0
        ticker = asyncio.ensure_future(self.tick())
        async for number in context.paced():
            if len(self.held) + self.opening < self.most:
                asyncio.ensure_future(self.open(context.source(number)))
        ticker.cancel()
        for held in list(self.held):
            held.transport.abort()

    async def open(self, source):
        self.opening += 1
        self.context.sent += 1
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        try:
            connection.setblocking(False)
            if self.receive_buffer:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
            connection.bind((source.bind, 0))
            await asyncio.wait_for(loop.sock_connect(connection, (self.context.target.host, self.context.target.port)), 10)
            handshake = {} if self.bare else secured(self.context.target)
            await loop.create_connection(lambda: HeldConnection(self, self.context, source), sock=connection, **handshake)
        except (OSError, asyncio.TimeoutError) as error:
            connection.close()
            self.context.outcomes[f"no connection: {type(error).__name__}"] += 1
        finally:
            self.opening -= 1

    async def tick(self):
        """Calls `more` for a part of the connections at a time, so that the load is even."""
        parts = max(1, int(self.every * 10))
        number = 0
        while True:
            await asyncio.sleep(self.every / parts)
            number += 1
            for held in [held for held in self.held if held.number % parts == number % parts]:
                if not held.transport.is_closing():
                    self.more(held)


class KeepAlive:
    """One connection of a [`Flood`], opened again when needed. Skips a request that would wait behind too many others."""

    def __init__(self, flood, context, number):
        self.flood, self.context, self.number = flood, context, number
        self.connection, self.opening, self.used = None, None, 0

    def request(self, number):
        if self.opening:
            self.context.outcomes["skipped"] += 1
        elif self.connection is None or self.connection.closed or self.used >= self.flood.requests_per_connection(self.context):
            self.opening = asyncio.ensure_future(self.open(number))
        elif len(self.connection.waiting) >= self.flood.depth:
            self.context.outcomes["skipped"] += 1
        else:
            self.send(number)

    async def open(self, number):
        self.close()
        self.number += self.flood.connections
        try:
            self.connection = await Connection.open(self.context.target, self.context.source(self.number))
            self.context.opened()
            self.send(number)
        except Gone:
            self.context.outcomes["no connection"] += 1
        finally:
            self.opening, self.used = None, 0

    def send(self, number):
        self.used += 1
        self.context.sent += 1
        # behind a proxy each request has an address of its own
        source = self.context.source(number if self.context.kind == "proxy" else self.number)
        self.connection.send(self.flood.request(self.context, source, number)).add_done_callback(self.count)

    def count(self, future):
        if not future.cancelled():
            self.context.outcomes["no answer" if future.exception() else str(future.result().status)] += 1

    def close(self):
        if self.connection:
            self.context.opened(-1)
            self.connection.close()
            self.connection = None


class Flood(Attack):
    """Sends requests at a rate on a few connections, whatever the answers are."""

    connections, depth = 32, 8
    sources, short = REQUESTS, ("proxy", "many")

    def request(self, context, source, number):
        """The bytes of one request."""
        raise NotImplementedError

    def requests_per_connection(self, context):
        """Few where the next connection comes from another address."""
        return 10 if context.kind != "proxy" and len(context.sources) > 1 else 1_000_000

    async def run(self, context):
        connections = [KeepAlive(self, context, number) for number in range(self.connections)]
        async for number in context.paced():
            connections[number % len(connections)].request(number)
        for connection in connections:
            connection.close()


def plain(context, source, verb, path, headers=None, body=b""):
    return request(context.target, source, verb, path, headers, body)
