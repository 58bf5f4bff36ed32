"""A tool that the everything server runs as a task alone (2025-11-25), on its own endpoint and on the merged one."""

from case import check, contains, context, equal, finish, until
from wire import Wire

for path, prefix, task_prefix in (("/mcp/everything", "", ""), ("/mcp", "everything__", "everything.")):
    wire = Wire(context["url"] + path, context["directKey"])
    capabilities = wire.initialize("2025-11-25")["capabilities"]

    def ask(method, **params):
        _, _, messages = wire.post({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        return messages[-1]

    with check(f"{path}: tasks are offered as far as they can be carried"):
        equal(capabilities["tasks"]["requests"], {"tools": {"call": {}}})
        equal("list" in capabilities["tasks"], prefix == "")
    with check(f"{path}: a task is made, looked at, waited for, and its result fetched"):
        called = ask("tools/call", name=f"{prefix}simulate-research-query", arguments={"topic": "locks"}, task={"ttl": 60000})
        task = called["result"]["task"]["taskId"]
        equal(task.startswith(task_prefix), True)
        equal(ask("tasks/get", taskId=task)["result"]["taskId"], task)
        until("the end of the task", lambda: ask("tasks/get", taskId=task)["result"]["status"] == "completed")
        result = ask("tasks/result", taskId=task)["result"]
        contains(result["content"][0]["text"], "Research Report: locks")
        related = (result.get("_meta") or {}).get("io.modelcontextprotocol/related-task")
        equal(related, {"taskId": task} if related else None)
    with check(f"{path}: a task that was made up is unknown"):
        contains(str(ask("tasks/get", taskId=f"{task_prefix}made-up")["error"]["code"]), "-3260")
finish()
