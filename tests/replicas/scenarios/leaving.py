"""A replica that is asked to stop: what of it goes on, and what ends at once."""

import signal
import time

from .client import Client, NEWER, OldClient
from .place import Findings, expect, replicas, scenario, within

DRAIN = '[limits]\nshutdown = "20s"\nshutdown_delay = "0s"\n'


def leave(place):
    """Asks replica 0 to stop, and returns when that was."""
    place.members[0].process.send_signal(signal.SIGTERM)
    return time.monotonic()


@scenario
def a_running_task_outlives_a_drain():
    found = Findings()
    with replicas(config=DRAIN) as place:
        port = place.members[0].port
        client = Client(place.key, "/mcp/script", NEWER, {"tasks": {}}).open(port)
        params = {"name": "work", "arguments": {"seconds": 6}, "task": {"ttl": 60000}}
        answer = client.ask(port, "tools/call", params)
        expect(answer.result() and "task" in answer.result(), f"the task begins with {answer}")
        task = answer.result()["task"]["taskId"]
        began = leave(place)
        status, asked = "working", 0
        while status == "working" and time.monotonic() < began + 15:
            answer = client.ask(place.port, "tasks/get", {"taskId": task}, 10 + asked)
            after = time.monotonic() - began
            expect(answer.result(), f"tasks/get {after:.1f} s after SIGTERM is answered {answer} after {asked} good ones")
            status, asked = answer.result()["status"], asked + 1
            time.sleep(0.3)
        expect(status == "completed", f"{time.monotonic() - began:.1f} s after SIGTERM the task is {status}")
        answer = client.ask(place.port, "tasks/result", {"taskId": task}, 90)
        expect("worked" in str(answer.result()), f"tasks/result is answered {answer}")
        within(25, lambda: not place.is_running(0), "the replica ends")
        found.expect(place.exit_code(0) == 0, f"the replica ended with {place.exit_code(0)}")
    found.tell()


@scenario
def a_carried_stream_ends_at_the_start_of_a_drain():
    with replicas(config=DRAIN) as place:
        owner, other = (member.port for member in place.members[:2])
        busy = Client(place.key, "/mcp/script").open(owner)
        client = Client(place.key).open(owner)
        stream = client.get(other)
        expect(stream.status == 200, f"GET at another replica is answered {stream.status}")
        # the drain has something to wait for
        busy.call(owner, "slow", {"seconds": 5, "mark": "drain"})
        within(5, lambda: place.record.exists() and "slow drain" in place.record.read_text(), "a call is running")
        began = leave(place)
        ended = stream.ends(10, "a carried stream of a replica that drains") - began
        expect(ended < 2, f"the client sees the end of its stream only {ended:.1f} s after SIGTERM")
        expect(stream.failure is None, f"the stream broke off: {stream.failure!r}")
        opened = time.monotonic()
        again = client.get(place.port, seconds=20)
        after = time.monotonic() - opened
        expect(again.status == 200 and after < 5, f"it is opened again with {again.status} after {after:.1f} s")
        expect(not again.over.wait(2), "the stream that was opened again ends at once")


@scenario
def a_running_sse_call_is_given_the_drain():
    with replicas(config=DRAIN) as place:
        port = place.members[0].port
        client = OldClient(place.key).open(port)
        params = {"name": "countdown", "arguments": {"from": 5}, "_meta": {"progressToken": "p"}}
        expect(client.message(port, "tools/call", params, 9).status == 202, "the call begins")
        within(5, lambda: len(client.stream.messages()) > 1, "progress of the call comes")
        began = leave(place)
        last = client.stream.response_to(9, 15)
        place.note(f"{time.monotonic() - began:.1f} s after SIGTERM: {last}")
        expect("Lift-off" in str(last.get("result")), f"the call ends with {last}")
        within(15, lambda: not place.is_running(0), "the replica ends when the call has ended")
