"""What a client answers and withdraws while the database is away."""

import concurrent.futures
import contextlib
import threading
import time

from .client import Client
from .place import Findings, expect, replicas, scenario, within

ASKING = {"elicitation": {}}


@contextlib.contextmanager
def outage(place, seconds):
    """The database is stopped, and started again after this time."""
    place.database.control("-m", "immediate", "stop")
    start = threading.Timer(seconds, place.database.start)
    start.start()
    try:
        # a second after the last look at the database nothing is let in that was remembered
        time.sleep(1.5)
        yield
    finally:
        start.join()


def opened(place, capabilities=None):
    """A session at replica 0 that another replica has carried a request for, so that the replicas know each other."""
    client = Client(place.key, "/mcp/script", capabilities=capabilities).open(place.members[0].port)
    answer = client.ask(place.members[1].port, "ping")
    expect(answer.result() is not None, f"a request that is carried is answered {answer}")
    return client


def asked(place):
    """A call at replica 0 that waits for the answer of its client, and the id of its question."""
    client = opened(place, ASKING)
    call = client.call(place.members[0].port, "ask")
    return client, call, call.question()["id"]


def answer(place, index, client, ident):
    """Answers once, at this replica."""
    result = {"action": "accept", "content": {"name": "Ann"}}
    return client.post(place.members[index].port, {"jsonrpc": "2.0", "id": ident, "result": result}, seconds=60)


def running(place, mark):
    """A call at replica 0 that takes a minute."""
    client = opened(place)
    call = client.call(place.members[0].port, "slow", {"seconds": 60, "mark": mark})
    within(10, lambda: f"slow {mark}" in recorded(place), "the server has the call")
    return client, call


def recorded(place):
    return place.record.read_text().splitlines() if place.record.exists() else []


def cancel(place, index, client):
    params = {"requestId": 5, "reason": "no need"}
    return client.post(place.members[index].port, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


WHERE = {0: "at the replica of its session", 1: "at another replica"}


@scenario
def an_answer_survives_a_database_restart():
    found = Findings()
    with replicas() as place, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = [asked(place) for _ in WHERE]
        with outage(place, 4):
            posts = [pool.submit(answer, place, index, client, ident) for index, (client, _, ident) in enumerate(waiting)]
        for index, post in enumerate(posts):
            with found.part(f"an answer {WHERE[index]}"):
                expect(post.result().status == 202, f"the client's POST is answered {post.result()}")
                last = waiting[index][1].response_to(5, 10)
                expect("Hello Ann" in str(last.get("result")), f"the call ends with {last}")
    found.tell()


@scenario
def a_cancellation_survives_a_database_restart():
    found = Findings()
    with replicas() as place, concurrent.futures.ThreadPoolExecutor() as pool:
        calls = [running(place, f"c{index}") for index in WHERE]
        with outage(place, 4):
            posts = [pool.submit(cancel, place, index, client) for index, (client, _) in enumerate(calls)]
        for index, post in enumerate(posts):
            with found.part(f"a cancellation {WHERE[index]}"):
                expect(post.result().status == 202, f"the client's POST is answered {post.result()}")
                within(5, lambda: f"cancelled c{index}" in recorded(place), "the server hears of it")
    found.tell()


def refused_answer(index):
    with replicas() as place:
        client, call, ident = asked(place)
        with outage(place, 34):
            began = time.monotonic()
            post = answer(place, index, client, ident)
            place.note(f"the answer {WHERE[index]} is answered {post}")
            expect(post.is_retry(), f"the client's answer is answered {post}")
            last = call.response_to(5, began + 50 - time.monotonic())
            place.note(f"the call ended after {time.monotonic() - began:.1f} s with {last}")
            # the server's request fails, and its tool says so; or the answer was kept until its replica could take it
            told = "error" in last or "could not take the answer" in str(last)
            expect(told or index and "Hello Ann" in str(last), f"the call ends with {last}")


@scenario
def an_answer_refused_ends_its_call():
    refused_answer(0)


@scenario
def an_answer_refused_at_another_replica_ends_its_call():
    refused_answer(1)
