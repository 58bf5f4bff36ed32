"""Clocks that differ from that of the database, or step. libfaketime changes the time of day; the monotonic clock stays true."""

import contextlib
import datetime
import os
import re
import tempfile
import time
from pathlib import Path

from .client import Client
from .place import Findings, becomes, expect, levels, replicas, scenario, within

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
HOUR = re.compile(r"\b(1 ?h|60 ?m|59 ?m|1:00|3[56]\d\d|an hour)")


def faked(**variables):
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    expect(library, "libfaketime is not installed (Debian: libfaketime)")
    return {"LD_PRELOAD": str(library), "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1", **variables}


class Clock:
    """A clock that can be stepped while its program runs."""

    def __init__(self, folder):
        self.file = Path(folder) / "clock"
        self.step(0)
        self.environment = faked(FAKETIME_TIMESTAMP_FILE=str(self.file), FAKETIME_CACHE_DURATION="1")

    def step(self, seconds):
        """The time differs by so much from now on."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        os.replace(fresh, self.file)


@contextlib.contextmanager
def clock():
    with tempfile.TemporaryDirectory(prefix="lockkeeper-clock-") as folder:
        # the database runs as another user
        os.chmod(folder, 0o755)
        yield Clock(folder)


def difference(place, index):
    """By how much a replica's time is ahead of the clock of this machine, in seconds."""
    client = Client(place.key).open(place.members[index].port)
    result = client.ask(place.members[index].port, "tools/call", {"name": "time_now", "arguments": {}}).result()
    said = datetime.datetime.fromisoformat(STAMP.search(result["content"][0]["text"]).group())
    return said.replace(tzinfo=datetime.timezone.utc).timestamp() - time.time()


def logs_ahead(place, index, mark, seconds):
    """True if a replica has logged a line with a time that is so far ahead. A request makes it log one."""
    Client(place.key).initialize(place.members[index].port)
    stamps = STAMP.findall("\n".join(place.log_since(index, mark)))
    times = [datetime.datetime.fromisoformat(stamp).replace(tzinfo=datetime.timezone.utc).timestamp() for stamp in stamps]
    return any(one - time.time() > seconds for one in times)


def warnings(place, index, mark=0):
    return [line for line in levels(place.log_since(index, mark), "WARN") if "clock" in line.lower()]


def unanswered(clients, port):
    """What the clients whose calls fail at this port get."""
    answers = [client.echo(port, seconds=20) for client in clients]
    return [str(answer) for answer in answers if not answer.result()]


@scenario
def a_clock_an_hour_off_does_not_join():
    found = Findings()
    with replicas(2) as place:
        clients = [Client(place.key).open(place.port) for _ in range(6)]
        try:
            index = place.add(faked(FAKETIME="+3600"))
        except RuntimeError as error:
            told = str(error).partition("\nerror: ")[2]
            found.expect("clock" in told, f"it ended, but the error does not have the word `clock`: {told}")
            found.expect(HOUR.search(told), f"it ended, but the error does not tell the difference: {told}")
        else:
            found.expect(False, f"a replica whose clock is {difference(place, index):.0f} s ahead joined")
            # what it deletes, it deletes within its first rounds
            with contextlib.suppress(AssertionError):
                within(8, lambda: place.sessions() < len(clients), "rows are deleted")
        found.expect(place.sessions() == len(clients), f"{place.sessions()} of {len(clients)} sessions have a row")
        lost = unanswered(clients, place.port)
        found.expect(not lost, f"{len(lost)} of {len(clients)} sessions are lost: {lost[:1]}")
    found.tell()


@scenario
def a_clock_seconds_off_is_reported():
    found = Findings()
    with replicas(3, environments={2: faked(FAKETIME="+5")}) as place:
        expect(3 < difference(place, 2) < 6, f"the replica does not see the changed time: {difference(place, 2):.1f} s")
        with found.part():
            within(10, lambda: warnings(place, 2), "the log of the replica whose clock is 5 s ahead has a WARN with `clock`")
        for index, true in ((0, 0), (1, 0), (2, 5)):
            with found.part(f"replica {index}"):
                gauge = lambda: place.gauge(index, "lockkeeper_clock_difference_seconds")
                near = lambda value: value is not None and abs(value - true) <= 1
                becomes(near, 5, gauge, f"lockkeeper_clock_difference_seconds, which should be about {true}")
        wrong = [index for index in (0, 1) if warnings(place, index)]
        found.expect(not wrong, f"replicas with a true clock warn of theirs: {wrong}")
    found.tell()


@scenario
def a_clock_that_steps_makes_one_replica_unready():
    found = Findings()
    with clock() as hand, replicas(3, environments={2: hand.environment}) as place:
        clients = [Client(place.key).open(place.port) for _ in range(9)]
        expect(place.are_ready(), f"/readyz at the start: {place.states}")
        mark = place.mark(2)
        hand.step(120)
        within(5, lambda: logs_ahead(place, 2, mark, 100), "the log of the replica shows the step", 0.5)
        with found.part("stepped by 2 min"):
            becomes(503, 10, lambda: place.probe(2), "/readyz of the replica")
        found.expect(place.are_ready([0, 1]), f"/readyz of the other replicas: {place.states}")
        for port in place.ports()[:2]:
            lost = unanswered(clients, port)
            found.expect(not lost, f"{len(lost)} of {len(clients)} sessions do not answer at another replica: {lost[:1]}")
        expect(place.is_running(2), f"the replica ended with {place.exit_code(2)}")
        hand.step(0)
        with found.part("stepped back"):
            becomes(200, 10, lambda: place.probe(2), "/readyz of the replica")
        lost = unanswered(clients, place.port)
        found.expect(not lost, f"{len(lost)} of {len(clients)} sessions are lost at the end: {lost[:1]}")
    found.tell()


def unharmed(place, numbers, seconds):
    """Looks at the replicas for so long: none may end, be deposed or be unready."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = {index: place.exit_code(index) for index in range(place.count) if not place.is_running(index)}
        expect(not ended, f"replicas ended, by index and exit code: {ended}")
        now = [place.number(index) for index in range(place.count)]
        expect(now == numbers, f"a replica was deposed: the numbers were {numbers} and are {now}")
        expect(place.are_ready(), f"/readyz: {place.states}")
        time.sleep(0.3)


@scenario
def a_database_clock_that_steps_ends_nobody():
    found = Findings()
    with clock() as hand, replicas(3, database=hand.environment) as place:
        clients = [Client(place.key).open(place.port) for _ in range(9)]
        numbers = [place.number(index) for index in range(place.count)]
        # in the first seconds after its start a replica deposes nobody
        unharmed(place, numbers, 9)
        for seconds in (30, 3600):
            marks = [place.mark(index) for index in range(place.count)]
            hand.step(seconds)
            now = "SELECT extract(epoch FROM clock_timestamp())::bigint"
            ahead = lambda: int(place.database.query(now)) - time.time() > seconds - 5
            within(5, ahead, "the database sees the step")
            with found.part(f"the clock of the database stepped by {seconds} s"):
                unharmed(place, numbers, 12)
            with found.part(f"after the step by {seconds} s"):
                lost = unanswered(clients, place.port)
                expect(not lost, f"{len(lost)} of {len(clients)} sessions do not answer: {lost[:1]}")
            if found.wrong:
                break
        else:
            silent = [index for index in range(place.count) if not warnings(place, index, marks[index])]
            found.expect(not silent, f"after a step by {seconds} s no WARN with `clock` in the log of replicas {silent}")
    found.tell()
