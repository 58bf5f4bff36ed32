"""The Inspector's command line over `lockkeeper stdio`: of a session (2025-11-25) and of 2026-07-28, each command a process
that starts the gateway, speaks at once and ends."""

import json
import os
import subprocess
from pathlib import Path

from case import check, contains, context, equal, finish

home = Path(context["work"]) / "inspector-home"
home.mkdir()


everything = next(server for server in context["servers"] if server["id"] == "everything")
ALL, ONE = ["--config", context["config"]], ["--", everything["command"], *everything["args"]]


def inspect(era, behind, method, *arguments):
    """The result that it prints. Its file of servers, in the form of desktop applications, has the gateway alone."""
    file = home / "servers.json"
    gateway = {"command": context["binary"], "args": ["stdio", *behind], "protocolEra": era}
    file.write_text(json.dumps({"mcpServers": {"gateway": gateway}}))
    done = subprocess.run(
        [*context["inspector"], "--config", str(file), "--server", "gateway", "--method", method, *arguments],
        env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, timeout=120,
    )
    if done.returncode != 0:
        raise AssertionError(f"it ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


for era in ("legacy", "modern"):
    with check(f"{era}: the Inspector lists the tools of every server"):
        names = [tool["name"] for tool in inspect(era, ALL, "tools/list")["tools"]]
        for server in context["servers"]:
            equal(any(name.startswith(f"{server['id']}__") for name in names), True)
    with check(f"{era}: the Inspector calls a tool, which ends after its progress"):
        arguments = ["--tool-name", "trigger-long-running-operation", "--tool-arg", "duration=0.4", "steps=2"]
        contains(inspect(era, ONE, "tools/call", *arguments)["content"][0]["text"], "completed")
    with check(f"{era}: the Inspector lists and reads resources, and gets a prompt"):
        uris = [resource["uri"] for resource in inspect(era, ONE, "resources/list")["resources"]]
        equal(inspect(era, ONE, "resources/read", "--uri", uris[0])["contents"][0]["uri"], uris[0])
        prompt = inspect(era, ONE, "prompts/get", "--prompt-name", "simple-prompt")
        equal(prompt["messages"][0]["role"], "user")
finish()
