"""The gateway killed while a person thinks: what is lost is said by the right error, nothing hangs, and no call that may
have run is sent again. Clients and servers of both eras."""

import json
from pathlib import Path

import askers
from case import check, contains, context, equal, finish
from gateway import Gateway
from wire import Stream, Wire

META = "io.modelcontextprotocol/"
ANSWER = {"action": "accept", "content": {"name": "Ann"}}
GREET = {"name": "greet", "arguments": {}}

session, alone = askers.start(askers.Session), askers.start(askers.Alone)
folder = Path(context["work"]) / "killed"
folder.mkdir()
config = folder / "lockkeeper.toml"
config.write_text(f'[servers.session]\nurl = "{session.url}"\n[servers.alone]\nurl = "{alone.url}"\n')
gateway = Gateway.alone(context, "killed-in-question", config)
gateway.start()
gateway.ready()
key = gateway.create_key("direct", "--direct")


class Modern:
    """A client of 2026-07-28 at one server."""

    def __init__(self, name):
        self.wire, self.path = Wire(gateway.url, key), f"/mcp/{name}"

    def call(self, **more):
        meta = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {"elicitation": {}}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**GREET, **more, "_meta": meta}}
        headers = {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "greet"}
        response = self.wire.send("POST", self.path, json.dumps(message), headers)
        text = response.read().decode()
        if response.headers["Content-Type"].startswith("text/event-stream"):
            text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
        return json.loads(text)


class Legacy:
    """A client of 2025-11-25 at one server, in the midst of a question."""

    def __init__(self, name):
        self.wire = Wire(f"{gateway.url}/mcp/{name}", key)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "killed", "version": "1"}}
        _, headers, _ = self.wire.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.wire.session = headers["Mcp-Session-Id"]
        self.wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": GREET}
        response = self.wire.send("POST", self.wire.url.path, json.dumps(message), {"Content-Type": "application/json"})
        return Stream(response)

    def question(self, stream):
        while True:
            message = json.loads(stream.next_event())
            if message.get("method") == "elicitation/create":
                return message

    def answer(self, question):
        return self.wire.post({"jsonrpc": "2.0", "id": question["id"], "result": ANSWER})[0]


asked = {name: Modern(name).call()["result"] for name in ("session", "alone")}
with check("clients of 2026-07-28 are asked by the result, whatever the server"):
    for result in asked.values():
        equal(result["resultType"], "input_required")
legacy = {name: Legacy(name) for name in ("session", "alone")}
streams = {name: client.call() for name, client in legacy.items()}
questions = {name: client.question(streams[name]) for name, client in legacy.items()}
before = {"session": len(session.calls), "alone": len(alone.calls)}
gateway.kill()
for name, stream in streams.items():
    with check(f"kill -9: the call of a client with a session at `{name}` is cut off, not left hanging"):
        stream.until_end()
gateway.start()
gateway.ready()

with check("a question of a server with sessions is lost with the gateway, and the client is told so"):
    name, state = next(iter(asked["session"]["inputRequests"])), asked["session"]["requestState"]
    error = Modern("session").call(inputResponses={name: ANSWER}, requestState=state)["error"]
    equal((error["code"], error["message"]), (-32602, "Invalid or expired requestState"))
with check("a question of a server without sessions is not: its client goes on with its answer"):
    result = Modern("alone").call(inputResponses={"who": ANSWER}, requestState=asked["alone"]["requestState"])["result"]
    equal(result["content"][0]["text"], "Hello Ann (mine)")
with check("an answer that comes too late is taken, and nobody gets it"):
    for name, client in legacy.items():
        equal(client.answer(questions[name]), 202)
with check("no call was sent again"):
    equal((len(session.calls), len(alone.calls)), (before["session"], before["alone"] + 1))
for name, client in legacy.items():
    with check(f"the session goes on at `{name}`: the call is asked and answered anew"):
        stream = client.call()
        equal(client.answer(client.question(stream)), 202)
        contains(stream.next_event(), "Hello Ann")
gateway.stop()
finish()
