"""The rights of an API key, and the effect of its revocation."""

from case import check, contains, context, equal, finish
from gateway import Gateway
from wire import Stream, Wire

gateway = Gateway.at(context)


def events(key):
    """An open SSE stream, its first event read."""
    response = Wire(context["url"]).send("GET", "/sse", headers={"Authorization": f"Bearer {key}"})
    equal(response.status, 200)
    stream = Stream(response)
    contains(stream.next_event(), "/messages")
    return stream


with check("a key made for direct use is let in on /mcp as bearer"):
    wire = Wire(f"{context['url']}/mcp", context["directKey"])
    wire.initialize()
    equal(wire.echo(1, "direct"), "Echo: direct")
with check("a key without that right is refused there with 401 and a challenge"):
    response = Wire(f"{context['url']}/mcp", context["key"]).send("POST", "/mcp", "{}", {"Content-Type": "application/json"})
    equal(response.status, 401)
    contains(response.headers["WWW-Authenticate"], "resource_metadata=")
with check("`keys list` shows names and never a secret"):
    listed = gateway.cli("keys", "list")
    contains(listed, "interop-plain")
    assert context["key"].split("_")[2] not in listed, "a secret is shown"
with check("a revoked key ends its live SSE stream"):
    key = gateway.create_key("interop-short-lived")
    stream = events(key)
    gateway.cli("keys", "revoke", gateway.key_id(key))
    stream.until_end()
with check("a revoked key opens nothing any more"):
    response = Wire(context["url"]).send("GET", "/sse", headers={"Authorization": f"Bearer {key}"})
    equal(response.status, 401)
with check("a key for one server sees that server alone"):
    wire = Wire(f"{context['url']}/mcp", gateway.create_key("interop-time-only", "--direct", "--server", "time"))
    wire.initialize()
    _, _, messages = wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    names = sorted(tool["name"] for tool in messages[-1]["result"]["tools"])
    equal(names, ["time__convert_time", "time__get_current_time"])
    contains(str(wire.call(2, "everything__echo", {"message": "no"})["error"]), "everything__echo")
finish()
