"""A client on the Python SDK of the interpreter, at the server of every release: `client.py NAME VERSION`."""

import contextlib
import json
import re
import sys

import anyio
from case import check, context, equal, finish
from mcp import ClientSession
from offer import filled, known, offered
from pydantic import AnyUrl

NAME, VERSION = sys.argv[1:]
TOLD = re.compile(r"(\[resource_link\] )?(\{.*\})")


@contextlib.asynccontextmanager
async def streams(server):
    if VERSION == "2024-11-05":
        from mcp.client.sse import sse_client

        headers = {"Authorization": f"Bearer {context['key']}"}
        async with sse_client(f"{context['url']}/sse/{server}", headers=headers) as (read, write):
            yield read, write
    else:
        from mcp.client.streamable_http import streamablehttp_client

        headers = {"Authorization": f"Bearer {context['directKey']}"}
        async with streamablehttp_client(f"{context['url']}/mcp/{server}", headers=headers) as (read, write, _):
            yield read, write


def listed(kind, entry):
    """What is listed: clients of 2025-03-26 show a tool's title from its annotations."""
    if kind == "tools" and VERSION == "2025-03-26" and "title" in entry:
        return {**entry, "annotations": {"title": entry["title"]}}
    return entry


def told(members):
    """JSON in a text, as a value."""
    found = TOLD.fullmatch(members.get("text") or "")
    return {**members, "text": [found[1], json.loads(found[2])]} if found else members


def same(what, found, expected):
    """Compares the members that the client's version knows."""
    seen = lambda value: known(VERSION, json.loads(json.dumps(value), object_hook=told))
    equal({what: seen(found)}, {what: seen(expected)})


def wire(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def answers(thing, result):
    expected = filled(thing["lowered" if thing["since"] > VERSION else "result"], thing.get("arguments"))
    found = wire(result)
    same(thing["entry"]["name"], {member: found.get(member) for member in expected}, expected)


async def use(session, offers):
    hello = await session.initialize()
    equal(hello.protocolVersion, VERSION)
    lists = {
        "tools": session.list_tools, "prompts": session.list_prompts,
        "resources": session.list_resources, "resourceTemplates": session.list_resource_templates,
    }
    for kind, ask in lists.items():
        same(kind, wire(await ask())[kind], [listed(kind, thing["entry"]) for thing in offers(kind)])
    for tool in offers("tools"):
        answers(tool, await session.call_tool(tool["entry"]["name"], tool["arguments"]))
    for prompt in offers("prompts"):
        answers(prompt, await session.get_prompt(prompt["entry"]["name"], prompt.get("arguments")))
    for resource in offers("resources") + offers("resourceTemplates"):
        answers(resource, await session.read_resource(AnyUrl(resource["uri"])))


async def visit(server):
    # A refused message is only logged by the old clients, which then wait without end.
    with anyio.fail_after(120):
        async with streams(server["id"]) as (read, write):
            async with ClientSession(read, write) as session:
                await use(session, lambda kind: offered(kind, server["version"]))


for server in context["servers"]:
    with check(f"{NAME} lists, calls, gets and reads at {server['name']}"):
        anyio.run(visit, server)
finish()
