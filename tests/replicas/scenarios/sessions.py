"""Sessions that are in use, and replicas that are not."""

import concurrent.futures
import hashlib
import time

from .client import Client
from .place import Findings, becomes, binary, expect, levels, replicas, scenario

IDLE = '[limits]\nsession_idle = "1m"\n'
SHARED = """
[servers.shared]
command = '{binary}'
args = ["stdio"]
share = "all"
home = "one"
"""


def without_row(place, clients):
    there = place.database.query("SELECT encode(digest, 'hex') FROM mcp_sessions").split()
    return sum(hashlib.sha256(client.session.encode()).hexdigest() not in there for client in clients)


@scenario
def live_sessions_keep_their_rows():
    found = Findings()
    with replicas(config=IDLE) as place:
        clients = [Client(place.key).open(place.port) for _ in range(24)]
        listening, calling = clients[::2], clients[1::2]
        streams = [client.get(place.port, seconds=200) for client in listening]
        until = time.monotonic() + 100
        while (left := until - time.monotonic()) > 0:
            answers = [client.echo(place.port) for client in calling]
            bad = [str(answer) for answer in answers if not answer.result()]
            found.expect(not bad, f"calls of live sessions failed: {bad[:2]}")
            # the pace of the clients
            time.sleep(min(10, max(left, 0)))
        over = sum(stream.over.is_set() for stream in streams)
        found.expect(not over, f"{over} of {len(streams)} open streams ended")
        gone = without_row(place, listening), without_row(place, calling)
        found.expect(gone == (0, 0), f"without a row: {gone[0]} of 12 sessions with a stream, {gone[1]} of 12 that call")
        for index in range(place.count):
            place.restart(index)
        for what, those in (("a stream", listening), ("calls", calling)):
            answers = [client.ask(place.port, "tools/list") for client in those]
            lost = [str(answer) for answer in answers if not answer.result()]
            found.expect(not lost, f"a rolling restart lost {len(lost)} of {len(those)} sessions with {what}: {lost[:1]}")
    found.tell()


def connections(place):
    """How many connections each replica holds to the database."""
    query = "SELECT client_port FROM pg_stat_activity WHERE client_port IS NOT NULL AND usename = 'lockkeeper'"
    ports = {int(port) for port in place.database.query(query).split()}
    return [len(ports & cable.ports) for cable in place.cables]


def work(place):
    client = Client(place.key).open(place.port)
    for _ in range(10):
        answer = client.echo(place.port)
        expect(answer.result(), f"a call under load is answered {answer}")


@scenario
def an_idle_replica_gives_connections_back():
    with replicas() as place:
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            [one.result() for one in [pool.submit(work, place) for _ in range(80)]]
        place.note(f"connections after load: {connections(place)}")
        becomes(lambda held: max(held) <= 7, 90, lambda: connections(place), "connections of each replica to the database")
        place.note(f"connections at the end: {connections(place)}")


@scenario
def a_start_warns_of_no_server_at_another_replica():
    with replicas(config=SHARED.format(binary=binary())) as place:
        for index in range(place.count):
            place.members[index].process.terminate()
        for index in range(place.count):
            place.members[index].process.wait(60)
        # all at once, and one beside the others
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(place.start_member, range(place.count)))
        place.ready()
        place.restart(2)
        lines = [line for index in range(place.count) for line in levels(place.log_since(index, 0), "WARN", "ERROR")]
        wrong = [line for line in lines if "shared" in line or "elsewhere" in line or "another replica" in line]
        expect(not wrong, f"{len(wrong)} warnings of a server that runs at another replica: {wrong[:2]}")
