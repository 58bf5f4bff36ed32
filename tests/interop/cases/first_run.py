"""The first run: a start without configuration, a single command, and the file of other clients."""

import json
import re
import stat
from pathlib import Path

from case import check, contains, context, equal, finish, until
from gateway import KEY, Gateway
from walk import Browser, page
from wire import Login, Wire

INVITATION = re.compile(r"/invite\?i=lkv_\w+")


def tools(gateway, *expected):
    """The names of the tools, as soon as those expected are among them: a server that is slow to list comes later."""
    wire = Wire(f"{gateway.url}/mcp", gateway.create_key("interop", "--direct"))
    wire.initialize()

    def listed():
        _, _, messages = wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        names = [tool["name"] for tool in messages[-1]["result"]["tools"]]
        return names if names and set(expected) <= set(names) else None

    return wire, until(f"the tools {expected}", listed)


everything = next(server for server in context["servers"] if server["id"] == "everything")

gateway = Gateway.alone(context, "first-run", None)
gateway.start()
with check("nothing configured: the first start shows the URL and one invitation, by which the owner gets a key that logs in"):
    contains(gateway.log_text(), f"{gateway.url}/mcp")
    equal(gateway.keys_printed(), [])
    [link] = INVITATION.findall(gateway.log_text())
    browser = Browser()
    _, _, text = browser.send(f"{gateway.url}{link}")
    [form] = [found for found in page(text) if found.action.endswith("/invite")]
    status, _, text = browser.send(f"{gateway.url}/invite", form.values)
    equal(status, 200)
    context["key"] = KEY.search(text).group()
    assert Login(gateway.url).tokens["access_token"]
with check("the link works once"):
    equal(Browser().send(f"{gateway.url}{link}")[0], 403)
with check("nothing configured: a demonstration server has tools"):
    _, names = tools(gateway)
    assert all(name.startswith("demo__") for name in names), names
with check("the database can be read by its owner alone"):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(gateway.data).iterdir() if path.is_file()}
    assert modes and all(mode == 0o600 for mode in modes.values()), {name: oct(mode) for name, mode in modes.items()}
gateway.stop()
gateway.start()
with check("a second start shows no other invitation"):
    equal(INVITATION.findall(gateway.log_text()), [link])
gateway.stop()

gateway = Gateway.alone(context, "one-command", None)
gateway.start("--", everything["command"], *everything["args"])
with check("one command after `--`: its tools keep their names"):
    wire, _ = tools(gateway, "echo")
    equal(wire.call(2, "echo", {"message": "plain"})["result"]["content"][0]["text"], "Echo: plain")
gateway.stop()

servers = {server["id"]: {"command": server["command"], "args": server["args"]} for server in context["servers"][:2]}
config = Path(context["work"]) / "claude_desktop_config.json"
config.write_text(json.dumps({"mcpServers": servers}))
gateway = Gateway.alone(context, "mcp-servers", config)
gateway.start()
gateway.ready()
with check("a claude_desktop_config.json is a configuration as it is"):
    tools(gateway, "everything__echo", "filesystem__read_text_file")
with check("`status --json` tells the servers, their versions and states"):
    status = gateway.cli("status", "--json")
    contains(status, "2025-11-25")
    contains(status, "filesystem")
with check("/healthz, /readyz and /metrics answer"):
    for path in ("/healthz", "/readyz", "/metrics"):
        equal(Wire(gateway.url).send("GET", path).status, 200)
with check("`check` probes the servers without serving"):
    contains(gateway.cli("check"), "everything")
with check("it ends by itself when asked"):
    equal(gateway.stop(), 0)
finish()
