"""Clients that use the same request ids at the same time: everybody gets his own answer."""

import json
from concurrent.futures import ThreadPoolExecutor

from case import check, context, equal, finish
from wire import Wire

ROUNDS = 25


def client():
    wire = Wire(f"{context['url']}/mcp", context["directKey"])
    wire.initialize()
    return wire


def rounds(wire, name):
    return [wire.echo(ident, f"{name} {ident}") for ident in range(1, ROUNDS)]


def expected(name):
    return [f"Echo: {name} {ident}" for ident in range(1, ROUNDS)]


with ThreadPoolExecutor(8) as threads:
    with check("two clients with the same ids at once never see each other's answers"):
        left, right = client(), client()
        runs = [threads.submit(rounds, left, "left"), threads.submit(rounds, right, "right")]
        equal([run.result() for run in runs], [expected("left"), expected("right")])
    with check("one client that sends every request with id 1 at once gets each answer on its own exchange"):
        one = client()
        runs = [threads.submit(one.echo, 1, f"boat {n}") for n in range(8)]
        equal([run.result() for run in runs], [f"Echo: boat {n}" for n in range(8)])
    with check("a string id comes back as a string"):
        equal(client().call("1", "everything__get-sum", {"a": 1, "b": 1})["id"], "1")
with check("on the wire, every step of progress comes before the answer, on the stream of its call"):
    wire = client()
    # its server is there: that one is still starting is progress, too
    wire.echo(1, "ready")
    stream = wire.open(7, "everything__trigger-long-running-operation", {"duration": 0.6, "steps": 3})
    events = [json.loads(data) for data in iter(stream.next_event, "")]
    steps = [event["params"] for event in events[:-1] if event.get("method") == "notifications/progress"]
    equal([(step["progress"], step["progressToken"]) for step in steps], [(1, "p7"), (2, "p7"), (3, "p7")])
    equal(events[-1]["id"], 7)
finish()
