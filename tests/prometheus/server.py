"""A server of one tool, which cannot start while a file is there: `server.py PID_FILE HALT_FILE`."""

import json
import os
import sys
from pathlib import Path

pid, halt = map(Path, sys.argv[1:])
if halt.exists():
    sys.exit("halted")
pid.write_text(str(os.getpid()))

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    method, params, number = message.get("method"), message.get("params", {}), message.get("id")
    if method is None or number is None:
        continue
    answer = {"error": {"code": -32601, "message": "no such method"}}
    if method == "initialize":
        info = {"name": "test", "version": "1"}
        answer = {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        answer = {"result": {"tools": [TOOL]}}
    elif method == "ping":
        answer = {"result": {}}
    elif method == "tools/call" and params["name"] == "echo":
        answer = {"result": {"content": [{"type": "text", "text": params["arguments"]["message"]}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)
