"""A server on stdio of one era or another. Usage: era.py LOG MODE; every line that it reads is appended to LOG, and a line
`start` when it starts, `end` when nothing more can come. The MODE `as FILE` is what the file says when it starts, and
`turns` is another at each start."""
import json, sys

log, mode = open(sys.argv[1], "a", buffering=1), sys.argv[2]
log.write("start\n")
if mode == "as":
    mode = open(sys.argv[3]).read()
if mode == "turns":
    mode = "only" if open(sys.argv[1]).read().count("start\n") % 2 == 0 else "code-32601"
introduced = False
held = None


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def server_info(*versions):
    return {"resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "9"}}}


def unsupported(id, versions):
    data = {"supported": versions, "requested": "x"}
    send({"id": id, "error": {"code": -32022, "message": "Unsupported protocol version", "data": data}})


def discover(id):
    global introduced, held
    if mode in ("modern", "dual"):
        introduced = True
        send({"id": id, "result": server_info("2026-07-28", *(["2025-11-25"] if mode == "dual" else []))})
    elif mode == "older":
        send({"id": id, "result": server_info("2025-06-18")})
    elif mode == "newer":
        send({"id": id, "result": server_info("2099-01-01")})
    elif mode.startswith("code"):
        send({"id": id, "error": {"code": int(mode[4:]), "message": "no"}})
    elif mode.startswith("supports"):
        unsupported(id, mode[9:].split(","))
    elif mode == "exit":
        sys.exit(1)
    elif mode == "refuses":
        send({"id": id, "error": {"code": -32601, "message": "no"}})
    elif mode.startswith("only"):
        send({"id": id, "result": server_info("2026-07-28")})
    # else silent


def initialize(id, params):
    if mode == "only=exit":
        sys.exit(1)
    if mode == "only=silent":
        return None
    if mode.startswith("only-"):
        return send({"id": id, "error": {"code": int(mode[4:]), "message": "no"}})
    if mode.startswith("says="):
        return unsupported(id, mode[5:].split(","))
    if mode == "refuses":
        return send({"id": id, "error": {"code": -32603, "message": "no key"}})
    if introduced or mode in ("only", "modern"):
        return unsupported(id, ["2026-07-28"])
    send({"id": id, "result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "scripted", "version": "7"}}})


for line in sys.stdin:
    log.write(line)
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "server/discover":
        discover(id)
    elif method == "initialize":
        initialize(id, message["params"])
    elif method == "tools/list":
        modern = "io.modelcontextprotocol/protocolVersion" in (message.get("params") or {}).get("_meta", {})
        kind = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        send({"id": id, "result": {"tools": [], **kind}})
    elif method == "tools/call" and message["params"]["name"] == "exit":
        sys.exit(1)
    elif mode == "modern" and method == "notifications/cancelled":
        # it has something to say of the call that was given up, and then answers the other
        send({"method": "notifications/message", "params": {"level": "warning", "data": "of the other"}})
        if held is not None:
            send({"id": held, "result": {"resultType": "complete", "content": [{"type": "text", "text": "mine"}]}})
    elif method == "tools/call" and message["params"]["name"] in ("given up", "held"):
        held = id
    elif method == "tools/call":
        kind = {"resultType": "complete"} if "io.modelcontextprotocol/protocolVersion" in message["params"].get("_meta", {}) else {}
        send({"id": id, "result": {"content": [{"type": "text", "text": mode}], **kind}})
log.write("end\n")
