"""A server over stdio with one tool, `echo`, without dependencies."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"name": "echo", "description": "Returns its text", "inputSchema": SCHEMA}


def result(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    found = result(message["method"], message.get("params"))
    body = {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
