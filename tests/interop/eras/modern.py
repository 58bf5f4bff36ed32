"""The Python SDK 2.x as a client of 2026-07-28, at each lock: `modern.py`."""

import anyio
import httpx2
import mcp.types as types
from case import check, context, equal, finish
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

HEADERS = {"Authorization": f"Bearer {context['directKey']}"}
LEVEL = "io.modelcontextprotocol/logLevel"


class Answers:
    """The client's answers to server requests, and the messages that it got."""

    def __init__(self):
        self.action, self.logs = "accept", []

    async def sampling(self, _, params):
        return types.CreateMessageResult(role="assistant", model="interop", content=types.TextContent(type="text", text="a weir"))

    async def elicitation(self, _, params):
        if self.action != "accept":
            return types.ElicitResult(action=self.action)
        [name] = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={name: "Ada" if name == "name" else "stone"})

    async def roots(self, _):
        return types.ListRootsResult(roots=[types.Root(uri="file:///interop", name="interop")])

    async def logging(self, params):
        self.logs.append(params.data)


async def until(what, probe):
    with anyio.fail_after(60):
        while not await probe():
            await anyio.sleep(0.05)


def water(server):
    return f"{server['mark']}lock://water"


async def visit(server, answers, client):
    """Everything at one lock, whose things are called `tool` + name and `mark` + URI."""

    async def call(name, given=None, **more):
        result = await client.call_tool(server["tool"] + name, given or {}, **more)
        return "\n".join(part.text for part in result.content if part.type == "text")

    async def spoken():
        return len(answers.logs) >= 2

    def told(sentence):
        return check(f"Python 2.3.0 at {server['name']}: {sentence}")

    equal(client.protocol_version, "2026-07-28")
    with told("it lists, and a call gives structured content"):
        equal(f"{server['tool']}measure" in [tool.name for tool in (await client.list_tools()).tools], True)
        result = await client.call_tool(f"{server['tool']}measure", {"boat": "Zeemeeuw"})
        equal(result.structured_content, {"boat": "Zeemeeuw", "metres": 12})
    with told("it is asked for a name, and gives or declines it"):
        equal(await call("ask-name"), "Ada may pass")
        answers.action = "decline"
        equal(await call("ask-name"), "nobody passes: decline")
    answers.action = "accept"
    with told("it is asked for its model and its roots"):
        equal(await call("ask-model"), "the model says: a weir")
        equal(await call("ask-roots"), "file:///interop")
    with told("it is asked twice in one call"):
        equal(await call("ask-twice"), "Ada carries stone")
    with told("progress comes, and a cancel reaches the server"):
        await progress(call)
    with told("log messages come as asked for"):
        await call("speak")
        await call("speak", meta={LEVEL: "info"})
        await until("two log messages", spoken)
        equal(answers.logs, ["a word of info", "a word of error"])
    with told("a listen hears of a resource and of a tool"):
        await listen(server, client, call)
    with told("it reads, gets a prompt and completes"):
        equal((await client.read_resource(water(server))).contents[0].text.isdigit(), True)
        prompt = await client.get_prompt(f"{server['tool']}greet", {"name": "Ada"})
        equal(prompt.messages[0].content.text, "Greet Ada")
        reference = types.PromptReference(type="ref/prompt", name=f"{server['tool']}greet")
        found = await client.complete(reference, {"name": "name", "value": "Ad"})
        equal(found.completion.values, ["Ada", "Adam"])


async def progress(call):
    steps = []

    async def step(progress, total, message):
        steps.append(progress)

    async def filled():
        return len(steps) >= 4

    await call("fill", {"steps": 4}, progress_callback=step)
    await until("four steps", filled)
    equal(steps, [1, 2, 3, 4])
    before = int(await call("abandoned"))
    with anyio.CancelScope() as scope:

        async def leave(progress, total, message):
            scope.cancel()

        await call("fill", {"steps": 100_000}, progress_callback=leave)

    async def abandoned():
        return int(await call("abandoned")) > before

    await until("the server abandons the call", abandoned)


async def hears(listen, event):
    """Waits for an event; others change the same lock."""
    with anyio.fail_after(60):
        while await anext(listen) != event:
            pass


async def listen(server, client, call):
    async with client.listen(tools_list_changed=True, resource_subscriptions=[water(server)]) as heard:
        await call("raise")
        await hears(heard, ResourceUpdated(uri=water(server)))
        boat = await call("moor")
        await hears(heard, ToolsListChanged())

        async def listed():
            return server["tool"] + boat in [tool.name for tool in (await client.list_tools()).tools]

        await until("the boat is listed", listed)
        equal(await call(boat), f"{boat} is moored")


async def go(server):
    answers = Answers()
    with anyio.fail_after(300):
        async with httpx2.AsyncClient(headers=HEADERS, timeout=120) as http:
            callbacks = {
                "sampling_callback": answers.sampling, "elicitation_callback": answers.elicitation,
                "list_roots_callback": answers.roots, "logging_callback": answers.logging,
            }
            async with Client(streamable_http_client(server["url"], http_client=http), mode="auto", **callbacks) as client:
                await visit(server, answers, client)


for server in context["servers"]:
    try:
        anyio.run(go, server)
    except Exception as error:
        with check(f"Python 2.3.0 at {server['name']}: it stays to the end"):
            raise error
finish()
