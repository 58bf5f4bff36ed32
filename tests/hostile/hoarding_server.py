"""A hostile MCP server on standard input and output, for `hoard`: it writes more than anybody reads, or reads nothing.

    hoarding_server.py flood    each call of `case` brings logs and progress until the call is cancelled
    hoarding_server.py deaf     reads nothing after the first call
"""

import json
import select
import sys
import time

KIND = sys.argv[1]
# so that not the server's own processor time is measured
MIB_PER_SECOND = 24
LOG, PROGRESS = "x" * (64 << 10), "x" * (16 << 10)


def write(**message):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def flood(call):
    """Writes until the next message comes; returns it."""
    token = (call["params"].get("_meta") or {}).get("progressToken")
    number = 0
    while not select.select([sys.stdin.buffer], [], [], 0)[0]:
        number += 1
        write(method="notifications/message", params={"level": "emergency", "data": LOG})
        write(method="notifications/resources/list_changed")
        if token is not None:
            write(method="notifications/progress", params={"progressToken": token, "progress": number, "message": PROGRESS})
        sys.stdout.buffer.flush()
        time.sleep((len(LOG) + len(PROGRESS)) / (MIB_PER_SECOND << 20))


def answer(message):
    match message.get("method"):
        case "initialize":
            capabilities = {"tools": {}, "logging": {}, "resources": {"listChanged": True}}
            info = {"name": "hoarder", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": "case", "inputSchema": {"type": "object"}}]}
        case "resources/list":
            return {"resources": []}
        case _:
            return {}


# unbuffered: `select` has to see each line
while line := sys.stdin.buffer.raw.readline():
    message = json.loads(line)
    if message.get("method") == "tools/call":
        if KIND == "deaf":
            time.sleep(3600)
        flood(message)
    elif "id" in message:
        write(id=message["id"], result=answer(message))
        sys.stdout.buffer.flush()
