"""Packets between two replicas that are dropped, without a word to either."""

import concurrent.futures
import contextlib
import os
import subprocess
import time

from .client import Client
from .place import Findings, expect, replicas, scenario, within


def table_of(pid):
    return f"lockkeeper_promises_{pid}"


def remove_table(pid):
    """Removes what this process dropped packets with, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["nft", "delete", "table", "inet", table_of(pid)], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def dropped(address):
    """Nothing comes from or to this port, by a table of its own that is removed at the end."""
    port, table = address.rsplit(":", 1)[1], table_of(os.getpid())
    rule = f"tcp dport {port} drop; tcp sport {port} drop"
    chain = f"table inet {table} {{ chain dropped {{ type filter hook input priority 0; {rule}; }}; }}"
    try:
        subprocess.run(["nft", "-f", "-"], input=chain, text=True, check=True)
        yield
    finally:
        remove_table(os.getpid())


def told(answer):
    """True for a clear error: 503, 502 that the call may have run, or an error in the response to the call."""
    last = answer.messages[-1] if answer.messages else {}
    data = last.get("error", {}).get("data", {})
    if answer.status == 502:
        return data.get("mayHaveRun") is True
    return answer.is_retry() or answer.status == 200 and "error" in last


@scenario
def dropped_packets_between_replicas():
    found = Findings()
    with replicas() as place, concurrent.futures.ThreadPoolExecutor() as pool:
        owner, other = (member.port for member in place.members[:2])
        client = Client(place.key).open(owner)
        script = Client(place.key, "/mcp/script").open(owner)
        expect(client.echo(other).result(), "a call that is carried works before")
        params = {"name": "slow", "arguments": {"seconds": 40, "mark": "flying"}}
        silent = pool.submit(script.ask, other, "tools/call", params, 8, 60)
        talking = client.call(other, "countdown", {"from": 40}, progress=True)
        within(10, lambda: talking.messages() and "slow flying" in place.record.read_text(), "both calls are running")
        with dropped(place.replica_address(0)):
            began = time.monotonic()
            fresh = pool.submit(client.echo, other, "new", 60)
            for what, call in (("the call in flight", silent), ("a new call", fresh)):
                with found.part(what):
                    try:
                        answer = call.result(max(0.1, began + 15 - time.monotonic()))
                        place.note(f"{what}: {answer}")
                        expect(told(answer), f"it is answered {answer}")
                    except TimeoutError:
                        found.expect(False, f"{what} has no answer after 15 s")
            with found.part("the call in flight with progress"):
                is_over = talking.over.wait(max(0.1, began + 15 - time.monotonic()))
                last = talking.messages()[-1]
                expect(is_over, f"its stream is still open after 15 s; the last event is {last}")
                place.note(f"with progress: {last} {talking.failure!r}")
                expect(talking.failure or "error" in last, f"its stream ended as if it were whole: {last}")
        with found.part("after the mend"):
            works = lambda: (answer := client.echo(other, "again", 10)).result() or place.note(f"after the mend: {answer}")
            within(10, works, "a call that is carried works again", 0.5)
            expect(place.is_running(0) and place.is_running(1), "both replicas are there")
    found.tell()


@scenario
def dropped_packets_end_a_carried_stream():
    found = Findings()
    with replicas() as place:
        owner, other = (member.port for member in place.members[:2])
        client = Client(place.key).open(owner)
        stream = client.get(other, seconds=90)
        expect(stream.status == 200, f"GET at another replica is answered {stream.status}")
        expect(not stream.over.wait(1), "the stream ends at once")
        with dropped(place.replica_address(0)), found.part("the carried stream"):
            stream.ends(15, "with packets dropped")
        stream.close()
        with found.part("after the mend"):
            def opened():
                again = client.get(other, seconds=10)
                return again.status == 200 and again or place.note(f"GET: {again.status}")
            within(10, opened, "a stream can be opened again", 0.5)
    found.tell()
