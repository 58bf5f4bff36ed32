"""A server on stdio with one fault. Usage: sick.py FOLDER MODE [modern]; it leaves in FOLDER what a test looks for. The tool
`look` answers, the tool `trouble` brings on the fault of a MODE that is about calls. It has sessions, or is one of
2026-07-28."""
import json, os, signal, sys, threading, time

folder, mode, modern = sys.argv[1], sys.argv[2], sys.argv[3:] == ["modern"]
CACHED = {"ttlMs": 0, "cacheScope": "private"}
lock, changes, parent = threading.Lock(), 0, os.getppid()


def send(message):
    if modern and isinstance(message.get("result"), dict):
        message["result"].setdefault("resultType", "complete")
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(of):
    return {"content": [{"type": "text", "text": of}]}


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def say():
    with lock:
        sys.stdout.write("INFO still here\n")
        sys.stdout.flush()


def last_words():
    print("no key, no start", file=sys.stderr, flush=True)
    os._exit(3)


def repeat(what, every):
    def run():
        while True:
            what()
            time.sleep(every)

    threading.Thread(target=run, daemon=True).start()


def introduce(id, params):
    if mode == "exits in the handshake":
        last_words()
    if mode == "never answers the handshake":
        return
    if mode == "prints text":
        print("Welcome to the server!\n{not json\n", flush=True)
    if mode == "writes null":
        print("null\n[]\n7\n\"text\"", flush=True)
    if modern:
        if mode == "prints text":
            repeat(say, 0.01)
        about = {"io.modelcontextprotocol/serverInfo": {"name": "sick", "version": "1"}}
        return send({"id": id, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}},
                                          **CACHED, "_meta": about}})
    send({"id": id, "result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}},
                               "serverInfo": {"name": "sick", "version": "1"}}})


def trouble(id):
    if mode == "exits in a call":
        last_words()
    elif mode == "floods":
        chunk = "x" * (1 << 20)
        for _ in range(1024):
            sys.stdout.write(chunk)
        sys.stdout.write("\n")
    elif mode == "stops reading":
        open(folder + "/stopped", "w").close()
        threading.Event().wait()
    elif mode == "closes its output":
        os.close(1)
        threading.Event().wait()
    elif mode == "leaves grandchildren":
        import subprocess

        child = subprocess.Popen(["sleep", "1000"])
        with open(folder + "/grandchild", "w") as file:
            file.write(str(child.pid))
        last_words()
    elif mode == "answers twice":
        send({"id": id, "result": text("first")})
        send({"id": id, "result": text("second")})
    elif mode == "answers an unknown id":
        send({"id": 987654, "result": text("whose?")})
        send({"id": "x", "error": {"code": 1, "message": "whose?"}})
        send({"id": None, "error": {"code": 1, "message": "whose?"}})
        send({"id": id, "result": text("first")})
    elif mode == "answers with a text":
        send({"id": id, "result": "text"})
    elif mode == "answers with both":
        send({"id": id, "result": text("well"), "error": {"code": 1, "message": "unwell"}})
    elif mode == "answers with a list for the error":
        send({"id": id, "error": [-32000, "unwell"]})
    elif mode == "adds a null error":
        send({"id": id, "result": text("well"), "error": None})
    elif mode == "writes the code as text":
        send({"id": id, "error": {"code": "-32603", "message": "unwell"}})
    elif mode == "logs what looks like an answer":
        print(json.dumps({"id": id, "result": text("first"), "error": {"code": 1, "message": "unwell"}}), flush=True)
        send({"id": id, "result": text("well")})
    elif mode == "answers with neither":
        send({"id": id})
    elif mode == "answers late":
        while not os.path.exists(folder + "/late"):
            time.sleep(0.01)
        send({"id": id, "result": text("late")})
    elif mode == "breaks its output schema":
        send({"id": id, "result": {**text("broken"), "structuredContent": {"sum": "seven"}}})
    elif mode not in ("never answers", "answers late"):
        send({"id": id, "result": text("well")})


def list_tools(id, params):
    def answer(page):
        send({"id": id, "result": {**page, **(CACHED if modern else {})}})

    tools = [tool("look"), tool("trouble")]
    if mode == "loops its cursor":
        at = {None: "a", "a": "b", "b": "a"}[params.get("cursor")]
        return answer({"tools": tools if "cursor" not in params else [tool("page_" + at)], "nextCursor": at})
    if mode == "repeats its cursor":
        return answer({"tools": tools, "nextCursor": "same"})
    if mode == "lists many":
        tools += [tool("tool%d" % number) for number in range(9998)]
    if mode == "lists no list":
        return answer({"tools": "none"})
    if mode == "fails to list":
        return send({"id": id, "error": {"code": -32603, "message": "no list today"}})
    if mode == "changes its tools":
        tools.append(tool("version%d" % changes))
    if mode == "breaks its output schema":
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        tools[1]["outputSchema"] = schema
    answer({"tools": tools})


def change(**meta):
    global changes
    changes += 1
    send({"method": "notifications/tools/list_changed", **meta})


def listen(id, params):
    about = {"io.modelcontextprotocol/subscriptionId": id}
    send({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": params["notifications"], "_meta": about}})
    if mode == "changes its tools":
        repeat(lambda: change(params={"_meta": about}), 0.01)


def handle(message):
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == ("server/discover" if modern else "initialize"):
        introduce(id, params)
    elif method == "subscriptions/listen" and modern:
        listen(id, params)
    elif method == "notifications/initialized" and mode == "changes its tools":
        repeat(change, 0.01)
    elif method == "notifications/initialized" and mode == "prints text":
        repeat(say, 0.01)
    elif method == "tools/list":
        list_tools(id, params)
    elif method == "tools/call" and params["name"] == "trouble":
        if mode == "answers late":
            threading.Thread(target=trouble, args=(id,), daemon=True).start()
        else:
            trouble(id)
    elif method == "tools/call":
        send({"id": id, "result": text("looked")})
    elif method is not None and id is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found: " + method}})


if mode == "exits at start":
    last_words()
if mode == "ignores TERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(folder + "/pids", "a") as file:
    file.write("%d\n" % os.getpid())
for line in sys.stdin:
    handle(json.loads(line))
if mode == "ignores TERM":
    # whoever started it may be gone before it has killed this process
    while os.getppid() == parent:
        time.sleep(1)
