"""One client that connects in one way, and what became of each step."""

import json
import os
import queue
import signal
import subprocess
import threading
import time

import machine

START_SECONDS = 90
# the client's own bound is shorter: this one ends a program that hangs
ANSWER_SECONDS = 90
# seconds after a token's end: a call that renews it, and one when the stream of the first token would have ended
RENEWS, LATER = 5, 45


class Visit:
    """`errors` has the first error of each failed step, `anew` the steps after which the program opened
    another connection. `is_over`: the client lost its connection, and cannot open another."""

    def __init__(self, client, way):
        self.client, self.way = client, way
        self.errors, self.anew = {}, []
        self.process, self.is_open, self.is_over = None, False, False
        self.logins, self.since, self.calls = 0, None, 0

    def start(self, command, context, logs):
        """Starts the client's program, and waits until it has loaded its libraries."""
        home = logs / f"{self.client.slug}-{self.way}"
        home.mkdir(parents=True)
        environment = {
            **os.environ, "INTEROP": json.dumps(context), "OLD_SSE_WAY": self.way, "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(machine.SUITE / "harness"), "HOME": str(home), "MCP_REMOTE_CONFIG_DIR": str(home), "BROWSER": "/bin/true",
        }
        self.log = open(home / "log", "w")
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1,
            env=environment, start_new_session=True,
        )
        self.replies = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        if "ready" not in (found := self.reply(START_SECONDS)):
            self.errors["connect"] = found["error"]

    def read(self):
        for line in self.process.stdout:
            if line.startswith("@"):
                self.replies.put(json.loads(line[1:]))
            else:
                self.log.write(line)
        self.replies.put({"error": "the program ended", "logins": self.logins})

    def reply(self, seconds):
        try:
            return self.replies.get(timeout=seconds)
        except queue.Empty:
            self.end()
            return {"error": f"the program hangs for {seconds} s", "logins": self.logins}

    def ask(self, line):
        """Sends one line: its error, or None. A second login is an error."""
        if self.process.poll() is not None:
            return "the program ended"
        print(f"{time.strftime('%X')} > {line}", file=self.log, flush=True)
        try:
            self.process.stdin.write(f"{line}\n")
        except OSError:
            return "the program ended"
        found = self.reply(ANSWER_SECONDS)
        print(f"{time.strftime('%X')} < {found}", file=self.log, flush=True)
        before, self.logins = self.logins, found.get("logins", self.logins)
        if found.get("error") is None and before and self.logins > before:
            return "the person had to log in again"
        return found.get("error")

    def expect(self, step, line):
        error = self.ask(line)
        if error:
            self.errors.setdefault(step, error)
        return error is None

    def call_line(self):
        self.calls += 1
        return f"call {self.client.slug} {self.way} {self.calls}"

    def connect(self):
        self.is_open = not self.errors and self.expect("connect", "connect")
        self.since = time.monotonic()
        if self.is_open:
            self.call("call")

    def call(self, step):
        if self.is_open:
            self.expect(step, self.call_line())

    def call_after_loss(self, step):
        """A call after the stream was lost. A program whose client ends with its stream opens another."""
        error = self.ask(self.call_line()) if self.is_open else None
        if error is None:
            return
        if self.way in self.client.once:
            self.is_open, self.is_over = False, True
            return
        if not self.client.ends:
            self.errors[step] = error
        # where that was a fault, the later steps are tried all the same
        if self.expect(step, "open") and self.expect(step, self.call_line()) and self.client.ends:
            self.anew.append(step)

    def renew(self, lifetime):
        """A call with an expired token, which renews it, and one when the stream of the first token would have ended."""
        for after in (RENEWS, LATER):
            time.sleep(max(0, self.since + lifetime + after - time.monotonic()))
            self.call("renewed token")

    def end(self):
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()

    def cell(self):
        if self.errors:
            return "fails: " + ", ".join(self.errors)
        if self.is_over:
            return "ok, cannot connect again"
        return "ok, connects anew" if self.anew else "ok"
