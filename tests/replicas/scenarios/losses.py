"""What clients of a replica see that is killed, or stopped for longer than its lease."""

import time

from .client import Client, NEWER, OldClient
from .place import Findings, expect, replicas, scenario, within

# the lease, and the rounds in which its end is noticed and told
SUCCEEDED = 6 + 1.5 + 2.5


def kill(place):
    place.members[0].kill()


def stop(place):
    place.pause(0)


def posts_of_a_lost_session(place, client, lose):
    """POSTs at another replica until it says that there is no such session, which may be only once the replica has no row. Before,
    a POST waits, or gets 503; a replica that was stopped may have read one that it got, and may run it when it goes on."""
    began, seen = time.monotonic(), []
    while time.monotonic() < began + 25:
        answer = client.message(place.members[1].port, "ping", seconds=25)
        rows = place.database.query("SELECT count(*) FROM replicas").strip()
        seen.append(f"{time.monotonic() - began:.1f} s: {answer}")
        if answer.status == 404:
            break
        may_have_run = lose is stop and len(seen) == 1 and answer.status == 502 and '"mayHaveRun":true' in answer.text
        expect(may_have_run or answer.is_retry(), f"a POST at another replica is answered {answer}; all: {[one[:60] for one in seen]}")
        time.sleep(0.5)
    place.note("\n".join(seen))
    expect(answer.status == 404, f"no 404 within 25 s: {seen[-1]}")
    expect(rows == "2", f"404 while {rows} replicas have rows: {seen}")
    expect(time.monotonic() - began < SUCCEEDED + 3, f"404 came only after {time.monotonic() - began:.1f} s")


def sse_session_of_a_lost_replica(lose):
    with replicas() as place:
        client = OldClient(place.key).open(place.members[0].port)
        answer = client.message(place.members[1].port, "ping", ident=7)
        expect(answer.status == 202, f"before, a POST at another replica is answered {answer}")
        client.stream.response_to(7, 5)
        lose(place)
        posts_of_a_lost_session(place, client, lose)


@scenario
def an_sse_session_of_a_killed_replica():
    sse_session_of_a_lost_replica(kill)


@scenario
def an_sse_session_of_a_stopped_replica():
    sse_session_of_a_lost_replica(stop)


def resume(place, client, last):
    return client.get(place.members[1].port, {"Last-Event-ID": last}, 40)


def resumed(place, client, last):
    """What the client gets at the successor for a call of which it has the events up to `last`."""
    began = time.monotonic()
    stream = resume(place, client, last)
    expect(stream.status == 200, f"GET with Last-Event-ID is answered {stream.status}")
    ended = stream.ends(SUCCEEDED + 5, "the stream of the call that was lost") - began
    place.note(f"resumed after {ended:.1f} s: {stream.events}")
    expect(ended < SUCCEEDED, f"the stream ended only after {ended:.1f} s")
    expect(stream.failure is None, f"the stream broke off: {stream.failure!r}")
    errors = [one for one in stream.messages() if one.get("id") == 5]
    expect(len(errors) == len(stream.messages()) == 1, f"not exactly one response to the call: {stream.events}")
    data = errors[0].get("error", {}).get("data", {})
    told = {name: data.get(name) for name in ("retryable", "mayHaveRun")}
    expect(told == {"retryable": False, "mayHaveRun": True}, f"the response is {errors[0]}")
    again = resume(place, client, stream.last_id())
    again.over.wait(3)
    expect(again.status == 204, f"a GET after that event is answered {again.status} with {again.events}, not 204")


def call_resumed_at_the_successor(lose):
    found = Findings()
    with replicas() as place:
        port = place.members[0].port
        client = Client(place.key, revision=NEWER).open(port)
        call = client.call(port, "countdown", {"from": 40}, progress=True)
        within(10, lambda: len(call.messages()) >= 2 and call.last_id(), "progress of the call comes with event ids")
        last, began = call.last_id(), time.monotonic()
        lose(place)
        with found.part():
            resumed(place, client, last)
        if lose is stop:
            time.sleep(max(0, began + 10 - time.monotonic()))
            place.resume(0)
            with found.part("after SIGCONT"):
                within(5, lambda: not place.is_running(0), "the deposed replica ends by itself")
                expect(place.exit_code(0) == 1, f"the deposed replica ended with {place.exit_code(0)}")
        answer = client.echo(place.members[1].port)
        found.expect(answer.result(), f"the next call of the session is answered {answer}")
    found.tell()


@scenario
def a_call_resumed_at_the_successor_of_a_killed_replica():
    call_resumed_at_the_successor(kill)


@scenario
def a_call_resumed_at_the_successor_of_a_stopped_replica():
    call_resumed_at_the_successor(stop)
