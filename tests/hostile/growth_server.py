"""A hostile MCP server on standard input and output: small messages that make a careless reader write, hold or compare far more
than it read. `growth.py` lists the cases; the name of the case is the argument `case` of its tool, or of this program for what
it does in a list.

    growth_server.py [legacy|modern] [CASE]
"""

import json
import sys

ERA, LISTED = (sys.argv[1:] + ["legacy", ""])[:2]
KIB, MIB = 1 << 10, 1 << 20
PREFIX = "io.modelcontextprotocol/"


def write(text):
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def message(**members):
    write(json.dumps({"jsonrpc": "2.0", **members}))


def notification(method, params):
    write('{"jsonrpc":"2.0","method":"%s","params":%s}' % (method, params))


def request(method, params, number=900):
    write('{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (number, method, params))


def result(number, text):
    write('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(number), text))


def repeated(name, size, last):
    """An object half of which is a repeated member and half its last value."""
    count = size // 2 // (len(name) + 6)
    return "{" + f'"{name}":0,' * count + f'"{name}":{last(size // 2)}' + "}"


def text_of(size):
    return '"' + "x" * size + '"'


def tool(more=""):
    return '{"name":"case","inputSchema":{"type":"object"}%s}' % more


def tools():
    """The entries of the list, for the cases of lists."""
    match LISTED:
        case "annotations":
            return [tool(',"title":%s,%s' % (text_of(200 * KIB), ",".join(['"annotations":{}'] * 12_000)))]
        case "mirrored":
            inner = ",".join('"p%d":{"type":"string","x-mcp-header":"H%d"}' % (at, at) for at in range(5_000))
            schema = '{"type":"object","properties":{"%s":{"type":"object","properties":{%s}}}}' % ("k" * 200 * KIB, inner)
            return [tool(), '{"name":"mirrored","inputSchema":%s}' % schema]
        case "left-out":
            return [tool()] + ["0"] * (7 * MIB)
        case _:
            return [tool()]


def ask(number, case):
    """Sends what belongs to a case during the call `number`; true if that ends it."""
    match case:
        case "logger":
            notification("notifications/message", '{"level":"error","data":"x",%s' % repeated("logger", 400 * KIB, text_of)[1:])
        case "properties":
            field = '{"type":"array","items":{"enum":["a"]},"title":"%s"}' % ("t" * 30_000)
            properties = ",".join(['"properties":{"a":%s}' % field] + ['"properties":{}'] * 2_000 + ['"properties":{"a":%s}' % field])
            request("elicitation/create", '{"message":"?","requestedSchema":{"type":"object",%s}}' % properties)
        case "choices":
            choices = ",".join(["0"] * (512 * KIB))
            request("elicitation/create", '{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"enum":[%s]}}}}}' % choices)
        case "role":
            blocks = ",".join(['{"type":"text","text":""}'] * 8_000)
            request("sampling/createMessage", '{"maxTokens":1,"messages":[{"role":%s,"content":[%s]}]}' % (text_of(200 * KIB), blocks))
        case "batch":
            write("[" + "1," * (7 * MIB) + "1]")
        case "content":
            blocks = ",".join(['"content":[]'] * 1_000)
            result(number, '{"content":[{"type":"text","text":%s}],%s,"content":[ ]}' % (text_of(64 * KIB), blocks))
            return True
        case "elements":
            result(number, '{"content":[{"type":"text","text":"ok"},%s]}' % ",".join(["0"] * (7 * MIB)))
            return True
        case "rounds":
            requests = ",".join('"%d":{"method":"roots/list"}' % at for at in range(120_000))
            result(number, '{"resultType":"input_required","inputRequests":{%s},"requestState":"s"}' % requests)
            return True
        case "both-null":
            write('{"jsonrpc":"2.0","id":%s,"result":null,"error":null}' % json.dumps(number))
            return True
        case "null-error":
            write('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}]},"error":null}' % json.dumps(number))
            return True
        case "text-code":
            write('{"jsonrpc":"2.0","id":%s,"error":{"code":"-32000","message":"said as text"}}' % json.dumps(number))
            return True
        case "array-error":
            write('{"jsonrpc":"2.0","id":%s,"error":[-32000,"x"]}' % json.dumps(number))
            return True
        case "twice":
            write('{"jsonrpc":"2.0","id":%s,"result":{},"result":{}}' % json.dumps(number))
            return True
        case "logged":
            # what a program logs of its callers' words ends nobody's call
            write('{"id":%s,"result":{},"error":"%s"}' % (json.dumps(number), case))
            write('{"jsonrpc":"2.0","id":%s,"id":%s,"result":{},"error":{}}' % (json.dumps(number), json.dumps(number)))
    return False


def main():
    for line in sys.stdin:
        received = json.loads(line)
        method, number = received.get("method"), received.get("id")
        if method == "initialize":
            if ERA == "modern":
                message(id=number, error={"code": -32601, "message": "Method not found"})
                continue
            capabilities = {"tools": {}, "logging": {}}
            message(id=number, result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "hostile", "version": "1"}})
        elif method == "server/discover" and ERA == "modern":
            message(id=number, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private", "_meta": {PREFIX + "serverInfo": {"name": "hostile", "version": "1"}}})
        elif method == "tools/list":
            more = ',"resultType":"complete","ttlMs":0,"cacheScope":"private"' if ERA == "modern" else ""
            result(number, '{"tools":[%s]%s}' % (",".join(tools()), more))
        elif method == "tools/call":
            if not ask(number, received["params"].get("arguments", {}).get("case", "")):
                message(id=number, result={"content": [{"type": "text", "text": "ok"}]} | ({"resultType": "complete"} if ERA == "modern" else {}))
        elif number is not None and method:
            message(id=number, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
