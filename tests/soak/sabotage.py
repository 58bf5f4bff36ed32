"""Faults of a broken gateway, injected between it and the soak's clients, to test that the soak notices them."""

import copy
import json
import random
import re

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
    "state": "the requestState of another call",
    "round": "answers that are given to another round",
    "foreign": "an update of what another listens to",
    "untagged": "a message on another's listen",
}
EVERY = 12
TAG = "io.modelcontextprotocol/subscriptionId"
LEVEL = "io.modelcontextprotocol/logLevel"


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
        if kind in ("foreign", "untagged") and TAG in (message.get("params", {}).get("_meta") or {}) and self.strikes():
            return [listened(message, kind)]
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
        kind, result = self.kind, message.get("result") or {}
        content = result.get("content")
        if kind == "late" and message["id"] in self.held:
            return [message, self.held.pop(message["id"])]
        if kind == "state" and "requestState" in result:
            others, self.seen = self.seen, [*self.seen[-50:], result["requestState"]]
            if others and self.strikes():
                return [{**message, "result": {**result, "requestState": others[-1]}}]
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
        meta = (message.get("params") or {}).get("_meta") or {}
        if kind == "loud" and method == "logging/setLevel":
            self.done += 1
            return [{**message, "params": {"level": "debug"}}]
        if kind == "loud" and LEVEL in meta:
            self.done += 1
            return [{**message, "params": {**message["params"], "_meta": {**meta, LEVEL: "debug"}}}]
        responses = (message.get("params") or {}).get("inputResponses")
        if kind in ("reply", "round") and responses and self.strikes():
            change = another if kind == "reply" else of_another_round
            responses = {key: change({"result": response})["result"] for key, response in responses.items()}
            return [{**message, "params": {**message["params"], "inputResponses": responses}}]
        if kind in ("reply", "refused") and method is None and ("result" in message) == (kind == "reply") and self.strikes():
            return [another(message)]
        if kind == "rerun" and method == "tools/call" and self.strikes():
            return [{**message, "id": 1_000_000 + self.done}, message]
        return [message]


def another(reply):
    """The same answer, of a call whose name begins as this one's does."""
    return json.loads(re.sub(r'/(\d+)\"', r'0/\1"', json.dumps(reply)))


def of_another_round(reply):
    """The same answer, of the part of the work that follows."""
    return json.loads(re.sub(r'/(\d+)\"', lambda part: f'/{int(part[1]) + 1}"', json.dumps(reply)))


def listened(message, kind):
    """What comes on a listen, as another's."""
    message = copy.deepcopy(message)
    params = message["params"]
    if kind == "untagged":
        params["_meta"][TAG] = 1_000_000
    elif "uri" in params:
        params["uri"] = "soak://zoe.7/0"
    else:
        message["method"] = "notifications/prompts/list_changed"
    return message
