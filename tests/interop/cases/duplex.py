"""The Python SDK answering what the everything server asks, over a server on stdio and one on HTTP, and through
`lockkeeper stdio`."""

import os
import sys

import anyio
import mcp.types as types
from case import check, contains, context, equal, finish
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

HEADERS = {"Authorization": f"Bearer {context['directKey']}"}
LOCAL = StdioServerParameters(command=context["binary"], args=["stdio", "--config", context["config"]], env=dict(os.environ))
WAYS = {
    "stdio": (lambda: over_http("/mcp/everything"), ""),
    "http": (lambda: over_http("/mcp/everything-http"), ""),
    "merged": (lambda: over_http("/mcp"), "everything-http__"),
    "lockkeeper stdio": (lambda: stdio_client(LOCAL, errlog=sys.stderr), "everything-http__"),
}


def over_http(path):
    return streamablehttp_client(context["url"] + path, headers=HEADERS)


class Answers:
    """The client's answers to server requests, and the messages that it got."""

    def __init__(self):
        self.logs, self.updates = [], []

    async def sampling(self, _, params):
        return types.CreateMessageResult(role="assistant", model="interop", content=types.TextContent(type="text", text="a model answers"))

    async def elicitation(self, _, params):
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def roots(self, _):
        return types.ListRootsResult(roots=[types.Root(uri="file:///interop", name="interop")])

    async def logging(self, params):
        self.logs.append(params.data)

    async def message(self, message):
        if isinstance(getattr(message, "root", None), types.ResourceUpdatedNotification):
            self.updates.append(str(message.root.params.uri))


async def until(what, probe):
    with anyio.fail_after(60):
        while not probe():
            await anyio.sleep(0.05)


async def converse(way, transport, prefix):
    answers, steps = Answers(), []

    async def progress(step, total, message):
        steps.append(step)

    async with transport() as (read, write, *_):
        session = ClientSession(
            read, write, sampling_callback=answers.sampling, elicitation_callback=answers.elicitation,
            list_roots_callback=answers.roots, logging_callback=answers.logging, message_handler=answers.message,
        )
        async with session:
            await session.initialize()

            async def call(name, arguments=None):
                result = await session.call_tool(prefix + name, arguments or {})
                return "\n".join(part.text for part in result.content if part.type == "text")

            with check(f"{way}: the server has the client's model write"):
                contains(await call("trigger-sampling-request", {"prompt": "a lock", "maxTokens": 20}), "a model answers")
            with check(f"{way}: the server asks the person"):
                contains(await call("trigger-elicitation-request"), "Ada")
            with check(f"{way}: the server looks at the roots"):
                contains(await call("get-roots-list"), "file:///interop")
            with check(f"{way}: tools are listed, and progress comes"):
                contains([tool.name for tool in (await session.list_tools()).tools], f"{prefix}echo")
                name, arguments = f"{prefix}trigger-long-running-operation", {"duration": 0.4, "steps": 2}
                contains((await session.call_tool(name, arguments, progress_callback=progress)).content[0].text, "completed")
                await until("both steps", lambda: len(steps) == 2)
                equal(steps, [1, 2])
            with check(f"{way}: log messages come"):
                await session.set_logging_level("debug")
                await call("toggle-simulated-logging")
                await until("a log message", lambda: answers.logs)
                await call("toggle-simulated-logging")
            with check(f"{way}: an update of a resource comes"):
                uris = [resource.uri for resource in (await session.list_resources()).resources]
                uri = next(uri for uri in uris if not prefix or str(uri).startswith("everything-http+"))
                await session.subscribe_resource(uri)
                await call("toggle-subscriber-updates")
                await until("an update", lambda: str(uri) in answers.updates)
                await call("toggle-subscriber-updates")


for way, (transport, prefix) in WAYS.items():
    with check(f"{way}: the conversation comes to its end"):
        anyio.run(converse, way, transport, prefix)
finish()
