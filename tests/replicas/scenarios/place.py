"""Where a scenario happens: replicas on a database of their own, and what is asked of them from outside."""

import contextlib
import http.client
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent))
from cluster import Cluster, Postgres, free_port

SERVERS = """
[servers.demo]
builtin = "demo"
[servers.script]
command = {python}
args = [{server}, {record}]
"""
SCENARIOS = {}


class Broken(AssertionError):
    """What was promised does not hold."""


def expect(holds, why):
    if not holds:
        raise Broken(why)


def within(seconds, check, what, every=0.1):
    """Asks until there is something true, and gives that. What it gave last is told of a failure."""
    end, found = time.monotonic() + seconds, None
    while not (found := check()):
        if time.monotonic() > end:
            raise Broken(f"not within {seconds:.3g} s: {what}; at the end: {found!r}")
        time.sleep(every)
    return found


def scenario(function):
    """A function without arguments that raises where something promised does not hold."""
    SCENARIOS[function.__name__] = function
    return function


class Findings:
    """Collects what does not hold, so that one thing does not hide another."""

    def __init__(self):
        self.wrong = []

    def expect(self, holds, why):
        if not holds:
            self.wrong.append(why)
        return bool(holds)

    @contextlib.contextmanager
    def part(self, name=""):
        try:
            yield
        except Broken as error:
            self.wrong.append(f"{name}: {error}" if name else str(error))

    def tell(self):
        if self.wrong:
            raise Broken("; AND ".join(self.wrong))


def becomes(wanted, seconds, look, what):
    """Looks until there is what is wanted: a value, or one that a function takes."""
    end, is_wanted = time.monotonic() + seconds, wanted if callable(wanted) else lambda found: found == wanted
    while not is_wanted(found := look()):
        if time.monotonic() > end:
            raise Broken(f"{what}: after {seconds:.3g} s it is {found!r}" + ("" if callable(wanted) else f", not {wanted!r}"))
        time.sleep(0.1)


def binary():
    return str(Path(os.environ.get("LOCKKEEPER_BIN") or ROOT / "target/release/lockkeeper").resolve())


class Place(Cluster):
    """The replicas of a scenario. `key` is an API key for all servers. `environments` has what single replicas have in their
    environment, by index."""

    def start(self, *arguments):
        super().start(*arguments)
        self.ready()
        self.key = self.create_key("promises", "--direct")

    def member(self, index):
        member = super().member(index)
        member.environment = {**self.environment, **self.environments.get(index, {})}
        return member

    def add(self, environment=None):
        """One more replica, which the balancer does not know. Raises if it ends at its start."""
        index, self.count = self.count, self.count + 1
        self.environments[index] = environment or {}
        self.members.append(self.member(index))
        self.start_member(index)
        return index

    def restart(self, index):
        """As in a rolling restart: the next replica may follow when this one is ready."""
        self.members[index].stop()
        try:
            self.start_member(index)
        except RuntimeError as error:
            raise Broken(f"replica {index} does not start again: {str(error)[-400:]}") from None
        becomes(200, 30, lambda: self.probe(index), f"/readyz of replica {index} after its restart")

    def note(self, text):
        """For who reads the kept logs."""
        with (self.folder / "notes").open("a") as file:
            print(text, file=file)

    def ports(self):
        return [member.port for member in self.members]

    def replica_address(self, index):
        return tomllib.loads(Path(self.members[index].configured[1]).read_text())["replica"]["listen"]

    def number(self, index):
        """The number of a replica in the database; `None` if it has no row."""
        found = self.database.query(f"SELECT max(number) FROM replicas WHERE address = '{self.replica_address(index)}'")
        return int(found) if found.strip() else None

    def probe(self, index, path="/readyz", timeout=5):
        """The status of a replica's answer; `None` if there is none."""
        return self.fetch(index, path, timeout)[0]

    def fetch(self, index, path, timeout=5):
        connection = http.client.HTTPConnection("127.0.0.1", self.members[index].port, timeout=timeout)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        return None, ""

    def are_ready(self, indexes=None):
        """True if these replicas, or all, say that they are ready; `states` has what each said."""
        self.states = {index: self.probe(index) for index in (range(self.count) if indexes is None else indexes)}
        return set(self.states.values()) == {200}

    def gauge(self, index, name):
        _, text = self.fetch(index, "/metrics")
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else None

    def log_since(self, index, mark):
        """What a replica logged after it had logged `mark` characters, in lines."""
        return self.members[index].log_text()[mark:].splitlines()

    def mark(self, index):
        return len(self.members[index].log_text())

    def exit_code(self, index):
        return self.members[index].process.poll()

    def sessions(self):
        """How many sessions have a row."""
        return int(self.database.query("SELECT count(*) FROM mcp_sessions"))


@contextlib.contextmanager
def replicas(count=3, config="", environments=None, database=None, servers=""):
    """Replicas that have started, and are ended with everything that was started for them. `environments` are those of single
    replicas, by index, and `database` is that of the database. `servers` are further ones."""
    with contextlib.ExitStack() as stack:
        for tries_left in (2, 1, 0):
            place = stack.enter_context(unstarted(count, (config, servers), environments or {}, database))
            try:
                place.start()
                break
            except RuntimeError as error:
                # another program on this machine was quicker to take a port
                if not tries_left or not re.search("already in use|nginx does not answer", str(error)):
                    raise
                stack.close()
        yield place


@contextlib.contextmanager
def unstarted(count, configs, environments, database):
    with tempfile.TemporaryDirectory(prefix="lockkeeper-promises-") as folder:
        values = {"python": sys.executable, "server": HERE / "scripted.py", "record": f"{folder}/record"}
        text = (SERVERS + configs[1]).format(**{name: f"'{value}'" for name, value in values.items()})
        file = Path(folder) / "lockkeeper.toml"
        file.write_text(configs[0] + text)
        place = Place(binary(), file, folder, free_port(), count)
        place.record, place.environments = Path(folder) / "record", environments
        place.database = Postgres(database)
        try:
            yield place
        finally:
            for index in range(len(place.members)):
                if place.is_running(index):
                    # one that was stopped cannot end
                    place.resume(index)
            place.end()
            keep(Path(folder))


def keep(folder):
    """Copies the logs to where PROMISES_KEEP says."""
    target = os.environ.get("PROMISES_KEEP")
    if not target:
        return
    target = Path(target) / sys.argv[-1]
    target.mkdir(parents=True, exist_ok=True)
    for name in ("replica-*.log", "notes", "record", "nginx.log"):
        for file in folder.glob(name):
            shutil.copy(file, target / file.name)


def levels(lines, *names):
    """The lines of a log that have one of these levels."""
    return [line for line in lines if any(f" {name} " in line for name in names)]
