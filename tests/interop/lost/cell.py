"""One cell of the table: one client program through one disturbance, and what became of it."""

import json
import os
import queue
import signal
import subprocess
import threading
import time

import machine
from clients import OLD_SSE, PASSED, RESTART

START_SECONDS, CONNECT_SECONDS, ANSWER_SECONDS = 120, 90, 60
SLOW_SECONDS, MIDDLE_SECONDS, TIMEOUT_SECONDS, STOP_SECONDS, FREEZE_SECONDS = 6, 3, 2, 1.5, 10
# how long a lost stream may take to be open again, and a change to be heard
OPEN_SECONDS, HEAR_SECONDS = 20, 10
MINUTE = 60


class Program:
    """A client's program, which is asked by lines; several may be under way."""

    def __init__(self, command, environment, log):
        self.log, self.asked, self.answers = log, 0, {}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1,
            env=environment, start_new_session=True,
        )
        self.ready = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if not line.startswith("@"):
                self.log.write(line)
                continue
            found = json.loads(line[1:])
            if "changes" not in found:
                self.say(f"< {line[1:].strip()}")
            (self.answers[found["id"]] if "id" in found else self.ready).put(found)
        for waiting in [self.ready, *self.answers.values()]:
            waiting.put({"error": "the program ended"})

    def say(self, sentence):
        now = time.time()
        print(f"{time.strftime('%X', time.localtime(now))}.{int(now % 1 * 1000):03} {sentence}", file=self.log, flush=True)

    def send(self, **request):
        """Sends a request: the queue that its answer comes to."""
        self.asked += 1
        answer = self.answers[self.asked] = queue.Queue()
        if request["do"] != "heard":
            self.say(f"> {json.dumps(request)}")
        try:
            self.process.stdin.write(json.dumps({"id": self.asked, **request}) + "\n")
        except OSError:
            answer.put({"error": "the program ended"})
        return answer

    @staticmethod
    def wait(answer, seconds=ANSWER_SECONDS):
        try:
            return answer.get(timeout=seconds)
        except queue.Empty:
            return {"error": "the program hangs"}

    def ask(self, seconds=ANSWER_SECONDS, **request):
        return self.wait(self.send(**request), seconds)

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cell:
    """`problems` are short words for the table; the log tells more."""

    def __init__(self, client, case, place):
        self.client, self.case, self.place = client, case, place
        self.problems, self.notes, self.nonces = [], [], []
        self.program, self.since = None, None
        self.name = "-".join([client.slug, *case.replace(",", "").split()])

    def fail(self, word, detail=""):
        self.program.say(f"FAILS: {word}: {detail}")
        if word not in self.problems:
            self.problems.append(word)

    def start(self, key, command, logs):
        """Starts the program, connects, and sees that everything works before the disturbance."""
        self.recorder = self.place.recorder()
        url = f"http://127.0.0.1:{self.recorder.port}"
        home = logs / "homes" / self.name
        home.mkdir(parents=True)
        context = {"key": key, "url": url}
        environment = {
            **os.environ, "INTEROP": json.dumps(context), "OLD_SSE_WAY": "header", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(machine.SUITE / "harness"), str(OLD_SSE)]), "HOME": str(home),
            "MCP_REMOTE_CONFIG_DIR": str(home), "BROWSER": "/bin/true",
        }
        self.log = open(logs / f"{self.name}.log", "w")
        self.program = Program(command(key, url), environment, self.log)
        found = self.program.wait(self.program.ready, START_SECONDS)
        if "error" not in found:
            found = self.program.ask(CONNECT_SECONDS, do="connect")
        if "error" in found:
            self.fail("does not connect", found["error"])
            return
        self.works("before")

    def call(self, tool, **options):
        """Starts a call: its nonce, and the queue of its answer."""
        nonce = f"{self.name}-{len(self.nonces)}-{tool}"
        self.nonces.append(nonce)
        seconds = {"seconds": SLOW_SECONDS} if tool == "slow" else {}
        return nonce, self.program.send(do="call", tool=tool, arguments={"nonce": nonce, **seconds}, **options)

    def outcome(self, call, seconds=ANSWER_SECONDS):
        """The answer of a call, which is its nonce, or an error."""
        nonce, answer = call
        found = self.program.wait(answer, seconds)
        if "error" not in found and found["text"] != nonce:
            self.fail("another answer", f"{nonce}: {json.dumps(found)}")
        return found

    def settle(self):
        """Waits until the client's stream is open."""
        end = time.monotonic() + OPEN_SECONDS
        while self.client.hears and not self.recorder.has_stream() and time.monotonic() < end:
            time.sleep(0.1)

    def works(self, when):
        """A quick call is answered, and a change is heard."""
        self.settle()
        found = self.outcome(self.call("quick"))
        if "error" in found and when != "before" and self.client.ends:
            self.notes.append("connects anew")
            self.program.ask(CONNECT_SECONDS, do="connect")
            self.settle()
            found = self.outcome(self.call("quick"))
        if "error" in found:
            self.fail("call fails", f"{when}: {found['error']}")
            return
        if self.client.hears and not self.hears():
            self.fail("hears nothing", when)

    def hears(self):
        before = self.program.ask(do="heard").get("changes", 0)
        found = self.outcome(self.call("change"))
        if "error" in found:
            self.fail("call fails", found["error"])
        end = time.monotonic() + HEAR_SECONDS
        while self.program.ask(do="heard").get("changes", 0) <= before:
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True

    def run(self):
        """The disturbance, and the minute after it."""
        if self.case in (RESTART, PASSED):
            # also without a connection, since the others wait
            self.place.barrier.wait()
            self.since = self.place.since
        if "does not connect" in self.problems:
            return
        if not self.since:
            getattr(self, self.case.replace(" ", "_"))()
        self.works("afterwards")
        time.sleep(max(0, self.since + MINUTE - time.time()))
        self.works("a minute later")
        useless = self.recorder.useless(self.since, MINUTE)
        if len(useless) > self.client.useless:
            self.fail(f"{len(useless)} useless requests")
        twice = [nonce for nonce, count in self.place.started(self.nonces).items() if count > 1]
        if twice:
            self.fail("ran twice", " ".join(twice))

    def begun(self, count=1):
        """Waits until the newest calls have reached the server."""
        end, nonces = time.monotonic() + OPEN_SECONDS, self.nonces[-count:]
        while not all(self.place.started(nonces).values()):
            if time.monotonic() > end:
                self.fail("call not begun")
                return
            time.sleep(0.1)

    def expect_error(self, call, seconds):
        """A call that a client gives up ends at once."""
        found = self.outcome(call, seconds)
        if "error" not in found:
            self.fail("not ended", json.dumps(found))
        elif found["error"] == "the program hangs":
            self.fail("hangs")

    def cancel(self):
        stop = STOP_SECONDS + self.client.starting
        end, call = time.monotonic() + stop, self.call("slow", abort=stop)
        self.begun()
        time.sleep(max(0, end - time.monotonic()))
        self.since = time.time()
        self.expect_error(call, SLOW_SECONDS - STOP_SECONDS - 1)

    def timeout(self):
        call = self.call("slow", timeout=TIMEOUT_SECONDS)
        time.sleep(TIMEOUT_SECONDS)
        self.since = time.time()
        self.expect_error(call, SLOW_SECONDS - TIMEOUT_SECONDS - 1)

    def both(self):
        """Two slow calls, without progress and with it, in their middle."""
        calls = [self.call("slow"), self.call("slow", progress=True)]
        self.begun(2)
        time.sleep(MIDDLE_SECONDS)
        return calls

    def answered(self, calls):
        for call in calls:
            found = self.outcome(call, 2 * SLOW_SECONDS + FREEZE_SECONDS)
            if "error" in found:
                self.fail("answer lost", found["error"])

    def cut(self):
        calls = self.both()
        self.since = time.time()
        self.recorder.cut()
        if self.client.resumes:
            self.answered(calls)

    def freeze(self):
        calls = self.both()
        self.recorder.freeze(FREEZE_SECONDS)
        self.since = time.time() + FREEZE_SECONDS
        self.answered(calls)

    def late_error(self):
        found = self.outcome(self.call("fails"))
        self.since = time.time()
        if "fails late" not in found.get("error", ""):
            self.fail("another error", json.dumps(found))

    def end(self):
        if self.program:
            self.program.end()
            print("", *(exchange.line() for exchange in self.recorder.exchanges), sep="\n", file=self.log, flush=True)

    def fails(self):
        return [problem for problem in self.problems if problem not in self.client.known.get(self.case, {})]

    def text(self):
        """What stands in the table."""
        if not self.problems:
            return ", ".join(["ok", *dict.fromkeys(self.notes)])
        known = self.client.known.get(self.case, {})
        return "; ".join(f"client: {known[problem]}" if problem in known else problem for problem in self.problems)
