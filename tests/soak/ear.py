"""What one client session of the soak hears, checked against what it asked for. Knows nothing of transports."""

import time

FORGOTTEN = 5


class Wrong(Exception):
    """Something that must never happen."""


class Ear:
    """`name` is the session's, `share` its backend's; `exact` where the stream of a call carries that call's alone."""

    def __init__(self, name, share, exact):
        self.name, self.share, self.exact = name, share, exact
        self.owners, self.levels, self.steps, self.ended = {}, {}, {}, set()
        self.logged, self.asked, self.questions = set(), set(), set()
        self.uris, self.updated, self.level, self.left = {}, {}, "debug", False

    # === what the client does

    def begins(self, token, owner):
        self.owners[token], self.steps[token], self.levels[owner] = owner, 0, self.level

    def answered(self, token, result, steps):
        """The call's own answer, after all of its progress."""
        self.ended.add(token)
        owner = self.owners[token]
        if result["content"][0]["text"] != owner:
            raise Wrong(f"{owner} got the answer {result}")
        if self.steps[token] != steps:
            raise Wrong(f"{owner} heard {self.steps[token]} of {steps} steps before its answer")

    # === what it hears

    def progress(self, params, call):
        token, owner = params["progressToken"], params["message"]
        self.check(owner, call, params)
        if self.owners.get(token) != owner:
            raise Wrong(f"{self.name}: progress under another token: {params}")
        if token in self.ended:
            raise Wrong(f"{self.name}: progress after the answer: {params}")
        if params["progress"] != self.steps[token] + 1:
            raise Wrong(f"{self.name}: step {self.steps[token]}, then {params}")
        self.steps[token] += 1

    def log(self, params, call):
        owner, step = params["data"].get("owner"), params["data"].get("step")
        if owner is None:
            return  # the gateway's own
        if self.share == "user" and call is None:
            if owner.split(".")[0] != self.name.split(".")[0]:
                raise Wrong(f"{self.name} read another person's log: {params}")
        else:
            self.check(owner, call, params)
        if (owner, step) in self.logged:
            raise Wrong(f"{self.name}: a log message twice: {params}")
        self.logged.add((owner, step))
        if self.levels.get(owner) == self.level == "error":
            raise Wrong(f"{self.name}: below the level: {params}")

    def update(self, params):
        left = self.uris.get(params["uri"], 0.0)
        if left is not None and time.monotonic() - left > FORGOTTEN:
            raise Wrong(f"{self.name} is not subscribed: {params}")
        if params["uri"] in self.updated:
            self.updated[params["uri"]].set()

    def question(self, message, owner, call):
        self.check(owner, call, message)
        for seen, what in ((self.questions, message["id"]), (self.asked, (owner, message["method"]))):
            if what in seen:
                raise Wrong(f"{self.name}: a question twice: {message}")
            seen.add(what)

    def withdrawn(self, params):
        # a question may have gone down a stream that the client left
        if params["requestId"] not in self.questions and not self.left:
            raise Wrong(f"{self.name} was never asked what is withdrawn: {params}")

    def check(self, owner, call, what):
        # on one channel any running call of the session may carry what another one asks
        mixed = call is not None and call != owner and self.exact
        if owner.rsplit(".", 1)[0] != self.name or mixed:
            raise Wrong(f"{self.name} ({self.share}) got what is {owner}'s (the call was {call}): {what}")
