"""What a broken gateway would do, done on purpose between it and the soak's clients, to see that the soak notices."""

import copy
import random

KINDS = {
    "answer": "the answer of another call of the session",
    "person": "progress of another person's call",
    "twice": "a notification twice",
    "asked-twice": "a question twice",
    "lost": "progress that is left out",
    "late": "progress after the answer",
    "silence": "a stream that ends without the answer",
    "hang": "no answer and no end",
    "gone": "a living session answered with 404",
    "refusal": "an error that nobody caused",
    "reply": "a client's answer to a question that is another's",
    "refused": "a client's refusal that is another's",
    "rerun": "a call that is sent twice",
    "deaf": "a cancel that is swallowed",
    "unheard": "an update that is swallowed",
    "unwanted": "an update that nobody subscribed to",
    "loud": "a log message below the level",
}
EVERY = 12


class Silence(Exception):
    """The stream ends here."""


class Sabotage:
    def __init__(self, kind, seed):
        self.kind, self.dice, self.done = kind, random.Random(f"{seed}/{kind}"), 0
        self.seen, self.held = [], {}

    def strikes(self):
        struck = self.dice.randrange(EVERY) == 0
        self.done += struck
        return struck

    def inbound(self, message):
        """The messages that the client reads instead of `message`."""
        method, kind = message.get("method"), self.kind
        if method is None:
            return self.answered(message)
        if method == "notifications/progress":
            return self.progress(message)
        if kind == "asked-twice" and "id" in message and method != "ping" and self.strikes():
            return [message, message]
        if kind == "twice" and method == "notifications/message" and self.strikes():
            return [message, message]
        if kind == "unheard" and method == "notifications/resources/updated":
            self.done += 1
            return []
        if kind == "unwanted" and method == "notifications/tools/list_changed" and self.strikes():
            return [message, {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "soak://nobody/9"}}]
        return [message]

    def progress(self, message):
        token = message["params"]["progressToken"]
        if self.kind == "person" and self.strikes():
            message = copy.deepcopy(message)
            message["params"]["message"] = "zoe.7.7"
        elif self.kind == "twice" and self.strikes():
            return [message, message]
        elif self.kind == "lost" and self.strikes():
            return []
        elif self.kind == "late" and self.strikes():
            self.held[token + 1] = message
            return []
        return [message]

    def answered(self, message):
        kind, content = self.kind, (message.get("result") or {}).get("content")
        if kind == "late" and message["id"] in self.held:
            return [message, self.held.pop(message["id"])]
        if content is None:
            return [message]
        if kind == "answer":
            mine = content[0]["text"]
            others = [text for text in self.seen[-50:] if text != mine and text.rsplit(".", 1)[0] == mine.rsplit(".", 1)[0]]
            self.seen.append(mine)
            if others and self.strikes():
                message = copy.deepcopy(message)
                message["result"]["content"][0]["text"] = others[-1]
        elif kind in ("silence", "hang") and self.strikes():
            raise Silence(kind)
        elif kind == "refusal" and self.strikes():
            return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "sabotaged"}}]
        return [message]

    def outbound(self, message):
        """The messages that reach the gateway instead of what the client says."""
        if not isinstance(message, dict):
            return [message]
        method, kind = message.get("method"), self.kind
        if kind == "deaf" and method == "notifications/cancelled":
            self.done += 1
            return []
        if kind == "loud" and method == "logging/setLevel":
            self.done += 1
            return [{**message, "params": {"level": "debug"}}]
        if kind in ("reply", "refused") and method is None and ("result" in message) == (kind == "reply") and self.strikes():
            return [another(message)]
        if kind == "rerun" and method == "tools/call" and self.strikes():
            return [{**message, "id": 1_000_000 + self.done}, message]
        return [message]


def another(reply):
    """The same answer, of a call whose name begins as this one's does."""
    reply = copy.deepcopy(reply)
    result = reply.get("result", {})
    if "error" in reply:
        reply["error"]["message"] += "0"
    elif "content" in result:
        key = "text" if "text" in result["content"] else "owner"
        result["content"][key] = f"{result['content'].get(key)}0"
    elif "roots" in result:
        result["roots"][0]["uri"] += "0"
    return reply
