"""The scripted server behind the gateway, over stdio and of 2025-11-25: tools that are quick, slow, fail late or announce a change.

Each start of a call adds a line to the file `LOST_STARTS`, the call's `nonce`: the suite sees there whether a tool ran twice.
Without dependencies.
"""

import json
import os
import sys
import threading
import time

FAIL_SECONDS = 3
STEP_SECONDS = 0.5
STRING, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = {
    "quick": ("Answers at once", {}),
    "slow": ("Answers after some seconds, with progress if asked", {"seconds": NUMBER}),
    "fails": (f"Fails after {FAIL_SECONDS} s", {}),
    "change": ("Announces a change of the list of tools", {}),
}
writing = threading.Lock()


def send(**message):
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def count(nonce):
    """A line that is appended at once, since several processes of this program write to the file."""
    file = os.open(os.environ["LOST_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{nonce}\n".encode())
    os.close(file)


def listed():
    for name, (description, properties) in TOOLS.items():
        schema = {"type": "object", "properties": {"nonce": STRING, **properties}, "required": ["nonce"]}
        yield {"name": name, "description": description, "inputSchema": schema}


def slow(seconds, token):
    """Waits, and reports each step if a token says so."""
    end, steps = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, STEP_SECONDS))
        steps += 1
        if token is not None:
            send(method="notifications/progress", params={"progressToken": token, "progress": steps})


def call(ident, params):
    name, arguments = params["name"], params["arguments"]
    count(arguments["nonce"])
    if name == "fails":
        time.sleep(FAIL_SECONDS)
        send(id=ident, error={"code": -32050, "message": "fails late"})
        return
    if name == "slow":
        slow(arguments["seconds"], params.get("_meta", {}).get("progressToken"))
    if name == "change":
        send(method="notifications/tools/list_changed")
    send(id=ident, result={"content": [{"type": "text", "text": arguments["nonce"]}]})


def answer(message):
    method, ident, params = message["method"], message["id"], message.get("params", {})
    if method == "tools/call":
        threading.Thread(target=call, args=(ident, params), daemon=True).start()
    elif method == "initialize":
        capabilities, about = {"tools": {"listChanged": True}}, {"name": "lost", "version": "1"}
        send(id=ident, result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about})
    elif method == "tools/list":
        send(id=ident, result={"tools": list(listed())})
    elif method == "ping":
        send(id=ident, result={})
    else:
        send(id=ident, error={"code": -32601, "message": "Method not found"})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer(message)
# a call may still sleep
os._exit(0)
