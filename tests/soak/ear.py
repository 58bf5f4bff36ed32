"""Messages to one client of the soak, checked against its requests. Knows nothing of transports."""

import time

from question import owner as owner_of

FORGOTTEN = 5
# messages of the gateway itself, about a question and about a call that takes long
WAITING = ("waiting for input (round ", "waiting for `")
WORKING = "` is working ("


class Wrong(Exception):
    """Something that must never happen."""


class Lost(Wrong):
    """Something is lost, which must not happen but where replicas come and go. `since` is when it began, if that was not now:
    a stream that broke is looked at later."""

    def __init__(self, what, since=None):
        super().__init__(what)
        self.since = since or time.monotonic()


class Ear:
    """`name` is the client's, `backend` and `share` its server's; `exact` where the stream of a call carries that call's alone, `level`
    what a session begins with; without sessions each call has its own."""

    def __init__(self, name, backend, share, exact, level=None):
        self.name, self.backend, self.share, self.exact = name, backend, share, exact
        self.owners, self.levels, self.steps, self.last, self.ended = {}, {}, {}, {}, set()
        self.logged, self.asked, self.questions = set(), set(), set()
        self.uris, self.updated, self.level, self.left, self.logs_apart = {}, {}, level, False, True

    # === what the client does

    def begins(self, token, owner, level=None, base=0):
        """`base` is the progress after which it goes on."""
        self.owners[token], self.steps[token], self.last[token] = owner, base, float("-inf")
        self.levels[owner] = level or self.level

    def answered(self, token, result, steps):
        """The call's own answer, after all of its progress."""
        self.ended.add(token)
        owner = self.owners[token]
        if result["content"][0]["text"] != owner:
            late = "the client did not answer within" in result["content"][0]["text"]
            raise (Lost if late else Wrong)(f"{owner} got the answer {result}")
        if self.steps[token] != steps:
            raise Wrong(f"{owner} heard {self.steps[token]} of {steps} steps before its answer")

    # === what it hears

    def progress(self, params, call):
        token, owner = params["progressToken"], params["message"]
        known = self.owners.get(token)
        waits = owner.startswith(WAITING) or WORKING in owner
        self.check(known or "?" if waits else owner, call, params)
        if not waits and known != owner:
            raise Wrong(f"{self.name}: progress under another token: {params}")
        if token in self.ended:
            raise Wrong(f"{self.name}: progress after the answer: {params}")
        # the gateway's own word is above the last step and below the next
        last, value, step = self.last[token], params["progress"], self.steps[token] + 1
        if not (last < value < step if waits else value == step):
            raise Wrong(f"{self.name}: step {last}, then {params}")
        self.last[token], self.steps[token] = value, step - waits

    def log(self, params, call):
        owner, step = params["data"].get("owner"), params["data"].get("step")
        if owner is None:
            return  # the gateway's own
        if self.share == "user" and call is None:
            if owner.split(".")[0] != self.name.split(".")[0]:
                raise Wrong(f"{self.name} read another person's log: {params}")
        else:
            self.check(owner, call if self.logs_apart else None, params)
        if (owner, step) in self.logged:
            raise Wrong(f"{self.name}: a log message twice: {params}")
        self.logged.add((owner, step))
        if owner in self.levels and {self.levels[owner], self.level} <= {"error", None}:
            raise Wrong(f"{self.name}: below the level: {params}")

    def update(self, params):
        left = self.uris.get(params["uri"], 0.0)
        if left is not None and time.monotonic() - left > FORGOTTEN:
            raise Wrong(f"{self.name} is not subscribed: {params}")
        if params["uri"] in self.updated:
            self.updated[params["uri"]].set()

    def question(self, message, subject, call):
        self.check(owner_of(subject), call, message)
        for seen, what in ((self.questions, message["id"]), (self.asked, (subject, message["method"]))):
            if what in seen:
                raise Wrong(f"{self.name}: a question twice: {message}")
            seen.add(what)

    def asks(self, known, key, method, subject, owner):
        """A question that a call of this owner was ended with; `known` are those of it that have an answer."""
        self.check(owner_of(subject), owner, (key, method))
        if key in known or (method, subject) in known:
            raise Wrong(f"{self.name}: a question twice: {key} {method} {subject}")

    def withdrawn(self, params):
        # a question may have gone down a stream that the client left
        if params["requestId"] not in self.questions and not self.left:
            raise Wrong(f"{self.name} was never asked what is withdrawn: {params}")

    def check(self, owner, call, what):
        # on one channel any running call of the session may carry what another one asks
        mixed = call is not None and call != owner and self.exact
        if owner.rsplit(".", 1)[0] != self.name or mixed:
            levels = {one: self.levels.get(one, "-") for one in (owner, call)}
            raise Wrong(f"{self.name} at {self.backend} ({self.share}) got what is {owner}'s (the call was {call}; levels {levels}): {what}")
