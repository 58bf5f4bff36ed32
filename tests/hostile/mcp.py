"""Headers and bodies of MCP requests to `/mcp/demo`, with a session and without."""

import json

PATH = "/mcp/demo"
MODERN = "2026-07-28"
LEGACY = "2025-06-18"
PREFIX = "io.modelcontextprotocol/"


def headers(key, session=None):
    given = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if session:
        given |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    return given


def body(method, params, number=1):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def initialize():
    return body("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "hostile", "version": "1"}})


INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


def echo(text, number=1):
    """A call of `echo` in a session."""
    return body("tools/call", {"name": "echo", "arguments": {"message": text}}, number)


def modern(key, method, params, number=1, more=None):
    """Headers and body of a request without session, with `more` in its `_meta`."""
    meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientInfo": {"name": "hostile", "version": "1"}, f"{PREFIX}clientCapabilities": {}, **(more or {})}
    given = {**headers(key), "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if "name" in params:
        given["Mcp-Name"] = params["name"]
    return given, body(method, {**params, "_meta": meta}, number)


def modern_echo(key, text, number=1):
    return modern(key, "tools/call", {"name": "echo", "arguments": {"message": text}}, number)


def listen(key, number=1):
    """A listen to the counter."""
    return modern(key, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["demo://counter"]}}, number)
