"""A scripted MCP server on stdio. Usage: server.py LOG [NAME=VALUE]…; every line that it reads is appended to LOG."""
import json, os, signal, subprocess, sys, threading

options = dict(argument.split("=", 1) for argument in sys.argv[2:])
log = open(sys.argv[1], "a", buffering=1)
held = []
asked = {}
chores = {}
tools = ["echo", *filter(None, options.get("lists", "").split(","))]


def note(text):
    log.write(text + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(of):
    return {"content": [{"type": "text", "text": of}]}


def initialize(id, params):
    if "stderr" in options:
        print(options["stderr"], file=sys.stderr, flush=True)
    if "banner" in options:
        print(options["banner"] + '\n{"level":"info"}', flush=True)
    if "exit" in options:
        sys.exit(int(options["exit"]))
    if "works" in options and open(sys.argv[1]).read().count("started") > int(options["works"]) and not os.path.exists(sys.argv[1] + ".mended"):
        return
    if "gate" in options:
        open(options["gate"]).read()
    if "garbage" in options:
        print("npm warn something\n\n{broken\n[]")
        send({"id": 77777, "result": {}})
        send({"id": "never", "error": {"code": 1, "message": "stray"}})
    offered = params["protocolVersion"]
    if "upgrade" in options:
        transport, endpoint = options["upgrade"].split(" ", 1)
        upgrade = {"endpoint": endpoint, "transport": transport}
        return send({"id": id, "result": {"protocolVersion": offered, "serverInfo": {"name": "moved", "version": "1"}, "upgrade": upgrade}})
    speaks = options.get("speaks", offered)
    if "refuse" in options:
        data = {"supported": options["refuse"].split(","), "requested": offered}
        return send({"id": id, "error": {"code": -32602, "message": "Unsupported", "data": data}})
    version = offered if offered == speaks else options.get("instead", speaks)
    result = {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}, "logging": {}, "tasks": {}, "x": 1.0},
        "serverInfo": {"name": "scripted", "version": "7", "x-odd": 1e2},
        "instructions": "Be kind.",
    }
    for missing in options.get("without", "").split(","):
        result.pop(missing, None)
    send({"id": id, "result": result})
    if "garbage" in options:
        send({"id": id, "result": {"again": True}})
    if "greets" in options:
        send({"method": "notifications/message", "params": {"level": "info", "data": "hello"}})


def call(id, params):
    name, meta = params["name"], params.get("_meta", {})
    if name == "echo":
        send({"id": id, "result": text(params["arguments"]["text"])})
    elif name == "pair":
        held.append((id, meta["progressToken"], params["arguments"]["text"]))
        if len(held) == 2:
            for id, token, which in reversed(held):
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": which}})
            for id, token, which in held:
                send({"id": id, "result": text(which)})
    elif name == "ask":
        asked["q1"] = id
        send({"id": "q1", "method": params["arguments"]["method"], "params": {"message": "Well?"}})
        if params["arguments"].get("withdraw"):
            send({"method": "notifications/cancelled", "params": {"requestId": "q1"}})
            send({"id": id, "result": text("withdrawn")})
    elif name == "quiz":
        if not params["arguments"].get("hangs"):
            asked["quiz %d" % id] = id
        send({"id": "quiz %d" % id, "method": "elicitation/create", "params": {"message": params["arguments"]["owner"]}})
    elif name == "late":
        send({"id": id, "result": text("asking later")})
        send({"id": "late", "method": "elicitation/create", "params": {"message": "Anybody?"}})
    elif name == "chore":
        if "task" not in params:
            return send({"id": id, "error": {"code": -32601, "message": "This tool runs only as a task"}})
        chores["t1"] = {"arguments": params["arguments"], "token": meta.get("progressToken"), "made": id}
        if params["arguments"].get("do") == "dawdle":
            return send({"method": "notifications/message", "params": {"level": "info", "data": "dawdling"}})
        send({"id": id, "result": {"task": status("working")}})
        # at once, when nothing has asked for the result yet
        send({"method": "notifications/progress", "params": {"progressToken": meta.get("progressToken"), "progress": 1}})
    elif name == "task":
        send({"id": id, "result": {"task": {"taskId": "task of %d" % os.getpid(), "status": "working"}}})
    elif name == "tell":
        send({"method": "notifications/message", "params": {"level": "info", "data": "told"}})
        send({"id": "p", "method": "ping"})
        send({"id": id, "result": text("done")})
    elif name == "grow":
        tools.append("grown")
        send({"method": "notifications/tools/list_changed"})
        send({"id": id, "result": text("grown")})
    elif name == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "about":
        about = {"pid": os.getpid(), "environment": sorted(os.environ), "parent": os.getpgid(0)}
        if "CALLER" in os.environ:
            about["caller"] = [sys.argv[2], os.environ["CALLER"], os.environ["HELLO"]]
        send({"id": id, "result": text(json.dumps(about))})
    elif name == "long":
        sys.stdout.write("x" * (17 * 1024 * 1024) + "\n")
        sys.stdout.flush()
    elif name == "deaf":
        send({"method": "notifications/message", "params": {"level": "info", "data": "deaf"}})
        threading.Event().wait()
    elif name == "hang":
        send({"method": "notifications/message", "params": {"level": "info", "data": "hanging"}})


def status(of, **more):
    at = "2026-01-01T00:00:00Z"
    return {"taskId": "t1", "status": of, "createdAt": at, "lastUpdatedAt": at, "ttl": None, **more}


def awaited(id):
    """`tasks/result`: what the chore does."""
    chore, related = chores["t1"], {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}}
    do = chore["arguments"]["do"]
    if do == "ask":
        send({"method": "notifications/tasks/status", "params": status("input_required")})
        asked["q1"] = id
        send({"id": "q1", "method": "elicitation/create", "params": {"message": "Well?", **related}})
    elif do == "answer":
        send({"method": "notifications/progress", "params": {"progressToken": chore["token"], "progress": 2}})
        send({"method": "notifications/tasks/status", "params": status("completed")})
        send({"id": id, "result": {**text("done"), **related}})
    elif do == "fail":
        send({"id": id, "result": {**text("bad"), **related, "isError": True}})
    elif do == "err":
        send({"id": id, "error": {"code": -32050, "message": "broken"}})
    elif do == "stop":
        send({"id": id, "error": {"code": -32603, "message": "Task t1 has no result stored"}})
    elif do == "die":
        os._exit(3)
    else:
        send({"method": "notifications/message", "params": {"level": "info", "data": "waited for"}})


def looked_at(id):
    """`tasks/get`: how the chore is."""
    stopped = chores["t1"]["arguments"]["do"] == "stop"
    send({"id": id, "result": status("cancelled", statusMessage="out of paper") if stopped else status("failed")})


def handle(message):
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        initialize(id, params)
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}})
    elif method == "tools/call":
        call(id, params)
    elif method == "tasks/get" and chores:
        looked_at(id)
    elif method == "tasks/result" and chores:
        awaited(id)
    elif method == "tasks/cancel" and chores:
        send({"id": id, "result": status("cancelled")})
    elif method == "notifications/cancelled" and "belated" in options:
        send({"id": "belated", "method": "elicitation/create", "params": {"message": "Still there?"}})
    elif method == "notifications/x/go":
        send({"id": chores["t1"]["made"], "result": {"task": status("working")}})
    elif method == "tasks/get":
        send({"id": id, "result": {"taskId": params["taskId"], "status": "working", "pid": os.getpid()}})
    elif method is None and id in asked:
        send({"id": asked.pop(id), "result": text(json.dumps(message.get("result", message.get("error"))))})
    elif method is not None and id is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found: " + method}})


if "grandchild" in options:
    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    note("grandchild %d" % child.pid)
if "stubborn" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "lingers" in options:
    signal.signal(signal.SIGTERM, lambda *_: (note("asked to end"), os._exit(0)))
note("started %d" % os.getpid())
for line in sys.stdin:
    note(line.strip())
    handle(json.loads(line))
note("stdin closed")
if "stubborn" in options or "lingers" in options:
    threading.Event().wait()
