"""A server over stdio for the scenarios: `scripted.py RECORD`. It writes what it was told into the file RECORD.

Tools: `ask` asks the client for a name and greets it, `slow` takes some seconds and can be cancelled, `work` runs as a task, `run`
writes its nonce down, tells its progress, asks if it is told to, and answers with the nonce.
"""

import json
import sys
import threading
import time

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}
TOOLS = [
    {"name": "ask", "description": "Asks for a name", "inputSchema": {"type": "object"}},
    {"name": "slow", "description": "Takes some seconds", "inputSchema": SECONDS},
    {"name": "work", "description": "Works as a task", "inputSchema": SECONDS, "execution": {"taskSupport": "optional"}},
    {"name": "run", "description": "Runs once", "inputSchema": {"type": "object"}},
]
writing, answers, cancelled, tasks = threading.Lock(), {}, {}, {}


def send(**message):
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def note(*words):
    with writing, open(sys.argv[1], "a") as file:
        print(*words, file=file, flush=True)


def text(said):
    return {"content": [{"type": "text", "text": said}]}


def ask(ident, _):
    asked, answers[f"q{ident}"] = f"q{ident}", (there := threading.Event(), [])
    send(id=asked, method="elicitation/create", params={"message": "Your name?", "requestedSchema": FORM})
    there.wait()
    given = answers.pop(asked)[1][0]
    send(id=ident, result=text(f"Hello {given['result']['content']['name']}" if "result" in given else f"refused: {given}"))


def slow(ident, arguments):
    stop, mark = threading.Event(), arguments.get("mark")
    cancelled[ident] = stop
    note("slow", mark)
    if stop.wait(arguments["seconds"]):
        note("cancelled", mark)
    else:
        send(id=ident, result=text("done"))


def work(ident, arguments):
    time.sleep(arguments["seconds"])
    send(id=ident, result=text("worked"))


def run(ident, arguments):
    nonce, token = arguments["nonce"], arguments.get("token")
    note("ran", nonce)
    for step in range(int(arguments.get("seconds", 0) * 4)):
        if token:
            send(method="notifications/progress", params={"progressToken": token, "progress": step})
        time.sleep(0.25)
    if arguments.get("asks"):
        asked, answers[f"q{ident}"] = f"q{ident}", (there := threading.Event(), [])
        send(id=asked, method="elicitation/create", params={"message": nonce, "requestedSchema": FORM})
        there.wait()
        given = answers.pop(asked)[1][0]
        if "result" not in given:
            return send(id=ident, error={"code": -32000, "message": f"nobody answered: {given.get('error')}"})
        nonce += " " + given["result"]["content"]["name"]
    send(id=ident, result=text(nonce))


def begin_task(ident, params):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    task = {"taskId": f"t{ident}-{time.time_ns()}", "status": "working", "createdAt": now, "lastUpdatedAt": now}
    task |= {"ttl": params["task"].get("ttl", 60000), "pollInterval": 500}
    tasks[task["taskId"]] = (task, done := threading.Event())
    send(id=ident, result={"task": dict(task)})

    def finish():
        time.sleep(params["arguments"]["seconds"])
        task["status"] = "completed"
        note("finished", task["taskId"], params["arguments"].get("nonce", ""))
        done.set()

    threading.Thread(target=finish, daemon=True).start()


def task_result(ident, name):
    tasks[name][1].wait()
    send(id=ident, result={**text(f"worked {name}"), "_meta": {"io.modelcontextprotocol/related-task": {"taskId": name}}})


def call(ident, params):
    if "task" in params:
        return begin_task(ident, params)
    tool = {"ask": ask, "slow": slow, "work": work, "run": run}[params["name"]]
    token = params.get("_meta", {}).get("progressToken")
    threading.Thread(target=tool, args=(ident, {**params.get("arguments", {}), "token": token}), daemon=True).start()


def request(ident, method, params):
    if method == "initialize":
        capabilities = {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
        about = {"name": "script", "version": "1"}
        send(id=ident, result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about})
    elif method == "tools/list":
        send(id=ident, result={"tools": TOOLS})
    elif method == "tools/call":
        call(ident, params)
    elif method == "ping":
        send(id=ident, result={})
    elif method in ("tasks/get", "tasks/cancel", "tasks/result") and params["taskId"] not in tasks:
        send(id=ident, error={"code": -32602, "message": "no such task"})
    elif method == "tasks/get":
        send(id=ident, result=tasks[params["taskId"]][0])
    elif method == "tasks/list":
        send(id=ident, result={"tasks": [task for task, _ in tasks.values()]})
    elif method == "tasks/result":
        threading.Thread(target=task_result, args=(ident, params["taskId"]), daemon=True).start()
    else:
        send(id=ident, error={"code": -32601, "message": "Method not found"})


def receive(message):
    ident, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        if ident in answers:
            answers[ident][1].append(message)
            answers[ident][0].set()
    elif ident is None:
        if method == "notifications/cancelled":
            cancelled.get(params.get("requestId"), threading.Event()).set()
    else:
        request(ident, method, params)


for line in sys.stdin:
    receive(json.loads(line))
