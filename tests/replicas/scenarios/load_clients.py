"""The clients of the load: each opens what it needs, calls, and says how each call ended. They do what SDKs do: they resume a
stream that breaks off, answer once if the gateway says anything, open a session again that is gone, and repeat nothing that may have
run."""

import http.client
import json
import time

from .client import Answer, Client, LEGACY, NEWER, OldClient, Stream, request
from .place import Broken

# by when a call has to be over, whatever happens
DEADLINE = 45
MODERN = "2026-07-28"
NET = (OSError, http.client.HTTPException)


class Ended(Exception):
    """A call is over: the outcome, the evidence, and whether its client was told that it did not run."""

    def __init__(self, outcome, evidence, ran=None):
        super().__init__(outcome)
        self.outcome, self.evidence, self.ran = outcome, evidence, ran


def judge_error(error, evidence):
    data = error.get("data") if isinstance(error.get("data"), dict) else {}
    if data.get("mayHaveRun") is True:
        raise Ended("refused", evidence)
    if data.get("retryable") is True:
        raise Ended("refused", evidence, ran=False)
    raise Ended("refused" if error.get("message") else "wrong", evidence)


def judge(message, wanted):
    """Ends a call with what its response says."""
    if "error" in message:
        judge_error(message["error"], json.dumps(message)[:400])
    content = message.get("result", {}).get("content") or [{}]
    if content[0].get("text") == wanted and not message["result"].get("isError"):
        raise Ended("right", "")
    if message["result"].get("isError"):
        raise Ended("refused", json.dumps(message)[:400])
    raise Ended("wrong", f"wanted {wanted!r}, got {json.dumps(message)[:400]}")


def judge_status(status, headers, text):
    """Ends a call whose HTTP response is an error."""
    evidence = f"{status} {text[:300]!r}"
    if status == 404:
        raise Ended("lost", evidence, ran=False)
    if status in (502, 503, 504) and text.startswith("{"):
        error = json.loads(text).get("error")
        if isinstance(error, dict):
            judge_error(error, evidence)
        # of the gate, before anything ran
        raise Ended("refused", evidence, ran=False)
    if status in (502, 504):
        raise Ended("refused", evidence)
    raise Ended("wrong", evidence)


class Runner:
    """A client of one kind: `open` and `call` are of the kind."""

    kind, pause = "", 0.2

    def __init__(self, load, key, dice):
        self.load, self.key, self.dice, self.port, self.client = load, key, dice, load.place.port, None

    def __str__(self):
        return f"{self.kind}/{self.key[4:8]}"

    def run(self):
        while not self.load.over.wait(self.dice.uniform(0.3, 1.7) * self.pause):
            try:
                if self.client is None:
                    self.client = self.open()
            except (*NET, Broken, KeyError, TypeError):
                self.client = None
                self.load.over.wait(0.5)
                continue
            nonce = self.load.nonce(self.key)
            try:
                self.call(nonce, time.monotonic() + DEADLINE)
            except Ended as end:
                self.load.count(end.outcome, self, nonce, end.evidence, end.ran)
                if end.outcome == "lost":
                    self.client = None
                if end.outcome == "refused":
                    self.load.over.wait(0.5)
            except (*NET, Broken) as error:
                # the connection broke: nobody was told anything
                self.load.count("refused", self, nonce, repr(error)[:300])
                self.load.over.wait(0.5)

    def arguments(self, nonce):
        return {"nonce": nonce}


class Plain(Runner):
    """A session, and calls that are answered at once."""

    kind, revision, path = "plain", LEGACY, "/mcp/script"

    def open(self):
        return Client(self.key, self.path, self.revision, {"elicitation": {}}).open(self.port)

    def call(self, nonce, deadline):
        params = {"name": "run", "arguments": self.arguments(nonce)}
        try:
            answer = self.client.ask(self.port, "tools/call", params, seconds=DEADLINE)
        except TimeoutError:
            raise Ended("hung", f"no answer after {DEADLINE} s") from None
        if answer.status != 200:
            judge_status(answer.status, answer.headers, answer.text)
        judge(answer.messages[-1] if answer.messages else {}, nonce)


class AtHome(Plain):
    """The same at the server of which there is one for all."""

    kind, path, pause = "home", "/mcp/one", 0.4


class Streamed(Plain):
    """A session, and calls whose answers are streams: each is resumed where it broke off."""

    kind, revision, seconds = "stream", NEWER, 2

    def arguments(self, nonce):
        return {"nonce": nonce, "seconds": self.dice.uniform(0.5, self.seconds)}

    def call(self, nonce, deadline):
        params = {"name": "run", "arguments": self.arguments(nonce), "_meta": {"progressToken": nonce}}
        stream = Stream(self.client, "POST", self.port, None, request(5, "tools/call", params), None, DEADLINE + 10)
        if stream.status != 200:
            judge_status(stream.status, stream.response.headers, stream.text())
        last = None
        while True:
            self.follow(stream, nonce, deadline)
            last = stream.last_id() or last
            if last is None:
                raise Ended("refused", f"the stream broke off before its first event: {stream.failure!r}")
            stream = self.resumed(last, deadline)

    def follow(self, stream, nonce, deadline):
        """Reads a stream to its end, or to the answer."""
        stream.seen = 0
        while True:
            over, messages = stream.over.wait(0.05), stream.messages()
            for message in messages[stream.seen:]:
                self.received(message, nonce)
            stream.seen = len(messages)
            if time.monotonic() > deadline:
                stream.close()
                raise Ended("hung", f"no answer; events: {stream.events[-3:]} failure: {stream.failure!r} last: {stream.last_id()}")
            if over and len(stream.messages()) == stream.seen:
                return

    def received(self, message, nonce):
        if message.get("id") == 5 and "method" not in message:
            judge(message, nonce)

    def resumed(self, last, deadline):
        while time.monotonic() < deadline:
            try:
                stream = self.client.get(self.port, {"Last-Event-ID": last}, DEADLINE + 10)
            except NET:
                time.sleep(0.5)
                continue
            if stream.status == 200:
                return stream
            text = stream.text()
            if stream.status == 204:
                raise Ended("wrong", f"204 for a call without an answer, after {last}")
            if stream.status == 404:
                raise Ended("lost", f"404 {text[:200]} at the resumption after {last}")
            time.sleep(0.5)
        raise Ended("hung", f"could not be resumed after {last}")


class Asking(Streamed):
    """Calls that ask the client, which answers once."""

    kind = "ask"

    def arguments(self, nonce):
        return {"nonce": nonce, "asks": True}

    def received(self, message, nonce):
        if message.get("method") == "elicitation/create":
            if message["params"]["message"] != nonce:
                raise Ended("wrong", f"asked for another call: {message}")
            self.load.over.wait(self.dice.uniform(0, 0.5))
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": {"name": "Ann"}}}
            # the gateway keeps what it got; what was in a process that was killed only the client has
            for _ in range(20):
                try:
                    told = self.client.post(self.port, answer, seconds=DEADLINE)
                    if told.status != 502 or told.text.startswith("{"):
                        return
                except NET:
                    pass
                time.sleep(0.5)
        elif message.get("id") == 5 and "method" not in message:
            judge(message, f"{nonce} Ann")


class Old(Runner):
    """HTTP+SSE: a stream that is the session."""

    kind = "old"

    def open(self):
        return OldClient(self.key, "/sse/script").open(self.port)

    def call(self, nonce, deadline):
        client, ident = self.client, nonce
        params = {"name": "run", "arguments": {"nonce": nonce}}
        try:
            answer = client.message(self.port, "tools/call", params, ident, DEADLINE)
            if answer.status == 404:
                self.client = None
                raise Ended("refused", f"{answer}", ran=False)
            if answer.status != 202:
                judge_status(answer.status, answer.headers, answer.text)
            while time.monotonic() < deadline:
                over = client.stream.over.wait(0.05)
                for message in client.stream.messages():
                    if message.get("id") == ident and "method" not in message:
                        judge(message, nonce)
                if over:
                    raise Ended("refused", "the stream, which is the session, ended")
        finally:
            if client.stream.over.is_set():
                self.client = None
        raise Ended("hung", f"no answer on a stream that is open; the POST was answered {answer}")


class Modern(Runner):
    """2026-07-28: no session."""

    kind = "modern"

    def open(self):
        return Client(self.key, "/mcp/script")

    def call(self, nonce, deadline):
        prefix = "io.modelcontextprotocol/"
        about = {"name": "load", "version": "1"}
        meta = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}, f"{prefix}clientInfo": about}
        params = {"name": "run", "arguments": {"nonce": nonce}, "_meta": meta}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "run"}
        began = time.monotonic()
        try:
            connection, response = self.client.send("POST", self.port, None, request(2, "tools/call", params), headers, DEADLINE)
            answer = Answer(response, response.read().decode(), time.monotonic() - began)
            connection.close()
        except TimeoutError:
            raise Ended("hung", f"no answer after {DEADLINE} s") from None
        if answer.status != 200:
            judge_status(answer.status, answer.headers, answer.text)
        judge(answer.messages[-1] if answer.messages else {}, nonce)


class Working(Plain):
    """Tasks of 2025-11-25: created, polled, fetched."""

    kind, revision, pause = "task", NEWER, 0.5

    def open(self):
        capabilities = {"elicitation": {}, "tasks": {"list": {}, "cancel": {}}}
        return Client(self.key, self.path, self.revision, capabilities).open(self.port)

    def asked(self, method, params, deadline):
        """The result of a request that may be repeated; the error of one that may not."""
        while True:
            try:
                answer = self.client.ask(self.port, method, params, seconds=DEADLINE)
            except NET as error:
                if method == "tools/call" or time.monotonic() > deadline:
                    raise Ended("refused", repr(error)) from None
                time.sleep(0.5)
                continue
            if answer.status == 200 and answer.messages and "result" in answer.messages[-1]:
                return answer.messages[-1]["result"]
            if answer.status == 404:
                raise Ended("lost", f"{method}: {answer}")
            told = answer.messages[-1].get("error", {}) if answer.messages else {}
            may_pass = answer.status in (502, 503, 504) or told.get("data", {}).get("retryable") is not None
            if method == "tools/call" or not may_pass or time.monotonic() > deadline:
                is_lost = method != "tools/call" and "task" in str(told.get("message")) and self.load.keeps_tasks
                raise Ended("lost" if is_lost else "refused", f"{method}: {answer}")
            time.sleep(0.5)

    def call(self, nonce, deadline):
        params = {"name": "work", "arguments": {"seconds": 2, "nonce": nonce}, "task": {"ttl": 60000}}
        task = self.asked("tools/call", params, deadline)["task"]["taskId"]
        while (status := self.asked("tasks/get", {"taskId": task}, deadline)["status"]) == "working":
            if time.monotonic() > deadline:
                raise Ended("hung", f"the task {task} works for ever")
            time.sleep(0.4)
        result = self.asked("tasks/result", {"taskId": task}, deadline)
        judge({"result": result}, f"worked {task}") if status == "completed" else judge_error({"message": status}, f"{task} is {status}")


class Listening(Plain):
    """A session whose standalone stream is open all the time, and which calls."""

    kind = "listen"

    def open(self):
        client = super().open()
        client.stream = None
        return client

    def call(self, nonce, deadline):
        stream = self.client.stream
        if stream is None or stream.over.is_set():
            opened = self.client.get(self.port, seconds=300)
            if opened.status == 404:
                raise Ended("lost", "404 for the standalone stream", ran=False)
            self.client.stream = opened if opened.status == 200 else None
        super().call(nonce, deadline)


KINDS = [Plain, Plain, Streamed, Streamed, Asking, Asking, Old, Old, Modern, Modern, AtHome, Working, Listening]
