"""Replicas that cannot renew their lease: cut off from the database, or with one that is read-only."""

import contextlib
import time

from .client import Client
from .place import Broken, Findings, becomes, expect, levels, replicas, scenario, within

LEASE = 6


@contextlib.contextmanager
def read_only(place):
    """The database takes no writes, as one that was left by a failover."""
    def set_to(value):
        place.database.query(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        place.database.query("SELECT pg_reload_conf()")

    set_to("on")
    try:
        yield
    finally:
        set_to("off")


def quiet_probes(place, index):
    """Ten answers of /readyz with 503 leave no error in the log."""
    mark = place.mark(index)
    statuses = [place.probe(index) for _ in range(10)]
    errors = levels(place.log_since(index, mark), "ERROR")
    place.note(f"probes {statuses} and errors {errors}")
    expect(set(statuses) == {503}, f"ten probes of /readyz are answered {statuses}")
    expect(not errors, f"ten probes of /readyz that get 503 leave {len(errors)} ERROR lines: {errors[:1]}")


@scenario
def not_ready_while_fenced_by_a_cut():
    found = Findings()
    with replicas() as place:
        cable, mark, began = place.cables[0], place.mark(0), time.monotonic()
        cable.cut()
        states = []
        while (after := time.monotonic() - began) < 12:
            states.append((after, place.probe(0)))
            # the pace of a load balancer
            time.sleep(0.2)
        place.note(f"without the database: {states}")
        late = [(round(after, 1), status) for after, status in states if after > LEASE and status != 503]
        found.expect(not late, f"/readyz after the end of the lease, by seconds without the database: {late}")
        refused = sum(status == 503 for _, status in states)
        found.expect(refused >= 10, f"only {refused} of {len(states)} probes got 503")
        errors = levels(place.log_since(0, mark), "ERROR")
        found.expect(not errors, f"{refused} probes of /readyz that got 503 leave {len(errors)} ERROR lines: {errors[:1]}")
        cable.mend()
        with found.part("after the mend"):
            within(15, lambda: not place.is_running(0) or place.probe(0) == 200, "it has ended or is ready")
            ready, until = place.is_running(0), time.monotonic() + 3
            while ready and time.monotonic() < until:
                row = place.number(0)
                expect(row, "/readyz is 200 though others have deposed it: it has no row")
                expect(place.is_running(0), f"/readyz was 200, and then it ended with {place.exit_code(0)}")
                time.sleep(0.1)
            expect(place.exit_code(0) in (None, 1), f"it ended with {place.exit_code(0)}")
    found.tell()


def states(place):
    return [place.probe(index) if place.is_running(index) else "ended" for index in range(place.count)]


@scenario
def not_ready_while_fenced_by_a_read_only_database():
    found = Findings()
    with replicas() as place:
        client = Client(place.key).open(place.members[0].port)
        with read_only(place):
            began = time.monotonic()
            with found.part("/readyz"):
                becomes([503] * 3, 8, lambda: states(place), "the replicas")
                place.note(f"all unready after {time.monotonic() - began:.1f} s")
                quiet_probes(place, 0)
            time.sleep(max(0, began + LEASE + 1 - time.monotonic()))
            for what, act in {"a call": lambda: client.echo(place.members[0].port, seconds=30),
                              "a call carried by another replica": lambda: client.echo(place.members[1].port, seconds=30),
                              "initialize": lambda: Client(place.key).initialize(place.members[1].port)}.items():
                with found.part(f"{what} when the leases are over"):
                    refused(place, act)
        with found.part("writable again"):
            # all had the same time without a lease, so that nobody may depose another
            becomes([200] * 3, 8, lambda: states(place), "/readyz of the replicas")
    found.tell()


def refused(place, act):
    try:
        answer = act()
    except TimeoutError:
        raise Broken("no answer after 30 s") from None
    place.note(f"read-only: {answer}")
    expect(answer.is_retry(), f"it is answered {answer}, without 503 and Retry-After")


@scenario
def a_replica_without_a_row_ends_with_a_read_only_database():
    with replicas() as place:
        number = place.number(0)
        with read_only(place):
            place.database.query(f"BEGIN READ WRITE; DELETE FROM replicas WHERE number = {number}; COMMIT")
            expect(place.number(0) is None, "the row of the replica is still there")
            within(LEASE, lambda: not place.is_running(0), "the replica without a row ends by itself")
            expect(place.exit_code(0) == 1, f"it ended with {place.exit_code(0)}")
            others = [place.exit_code(index) for index in (1, 2)]
            expect(others == [None, None], f"the other replicas ended with {others}")


@scenario
def a_read_only_database_is_busy():
    registration = {"client_name": "Promises", "redirect_uris": ["http://127.0.0.1:7779/callback"]}
    registration["token_endpoint_auth_method"] = "none"
    found = Findings()
    with replicas(2) as place:
        client = Client(place.key)
        register = lambda: client.post(place.members[0].port, registration, "/oauth/register", 30)
        expect(register().status == 201, "registration works before")
        with read_only(place):
            # other redirect URIs: one client that is known may be answered without a write
            registration["redirect_uris"] = ["http://127.0.0.1:7780/other"]
            for when in ("at once", "when the leases are over"):
                with found.part(f"POST /oauth/register {when}"):
                    refused(place, register)
                time.sleep(0 if when != "at once" else LEASE + 1)
        with found.part("writable again"):
            within(10, lambda: (place.is_running(0) and register().status == 201), "registration works again", 0.5)
    found.tell()
