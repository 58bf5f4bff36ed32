"""The gateway killed in mid-use and started again: what people hold goes on working."""

from case import check, contains, context, equal, finish
from gateway import Gateway
from wire import Login, Wire

gateway = Gateway.alone(context, "restart", context["config"])
gateway.start()
printed = gateway.keys_printed()
plain, direct = gateway.create_key("plain"), gateway.create_key("direct", "--direct")
context["key"] = plain
login = Login(gateway.url)
wire = Wire(f"{gateway.url}/mcp", login.tokens["access_token"])
wire.initialize()
with check("before: the access token serves a call"):
    equal(wire.echo(1, "before"), "Echo: before")

stream = wire.open(2, "everything__trigger-long-running-operation", {"duration": 600, "steps": 1200})
with check("before: a long call reports progress"):
    contains(stream.next_event(), "notifications/progress")
gateway.kill()
with check("kill -9: the call that ran is cut off, not left hanging"):
    stream.until_end()
gateway.start()

with check("after: the same session goes on with the same access token"):
    equal(wire.echo(3, "after"), "Echo: after")
with check("after: a new session opens with the same access token"):
    fresh = Wire(f"{gateway.url}/mcp", login.tokens["access_token"])
    fresh.initialize()
    equal(fresh.echo(1, "fresh"), "Echo: fresh")
with check("after: the refresh token works, for the client as it was registered"):
    fresh = Wire(f"{gateway.url}/mcp", login.refresh())
    fresh.initialize()
    equal(fresh.echo(1, "refreshed"), "Echo: refreshed")
with check("after: the API keys work"):
    fresh = Wire(f"{gateway.url}/mcp", direct)
    fresh.initialize()
    response = Wire(gateway.url).send("GET", "/sse", headers={"Authorization": f"Bearer {plain}"})
    equal(response.status, 200)
    response.close()
with check("after: a person logs in again with the same key"):
    Login(gateway.url)
with check("after: no second first key was made"):
    equal(gateway.keys_printed(), printed)
with check("a session that a client ended is gone after another start too"):
    equal(fresh.send("DELETE", "/mcp").status, 204)
    gateway.kill()
    gateway.start()
    status, _, _ = fresh.post({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
    equal(status, 404)
gateway.stop()
finish()
