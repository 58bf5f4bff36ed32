"""A release of the Python SDK 1.x, whose clients have sessions, at each lock: `classic.py NAME VERSION`."""

import sys

import anyio
import mcp.types as types
from case import check, context, equal, finish
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

NAME, VERSION = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {context['directKey']}"}


class Answers:
    """The client's answers to server requests, and the messages that it got."""

    def __init__(self):
        self.action, self.logs, self.updates, self.changes = "accept", [], [], 0

    async def sampling(self, _, params):
        return types.CreateMessageResult(role="assistant", model="interop", content=types.TextContent(type="text", text="a weir"))

    async def elicitation(self, _, params):
        if self.action != "accept":
            return types.ElicitResult(action=self.action)
        [name] = params.requestedSchema["properties"]
        return types.ElicitResult(action="accept", content={name: "Ada" if name == "name" else "stone"})

    async def roots(self, _):
        return types.ListRootsResult(roots=[types.Root(uri="file:///interop", name="interop")])

    async def logging(self, params):
        self.logs.append(params.data)

    async def message(self, message):
        told = getattr(message, "root", None)
        if isinstance(told, types.ResourceUpdatedNotification):
            self.updates.append(told.params.uri)
        self.changes += isinstance(told, types.ToolListChangedNotification)


async def until(what, probe):
    with anyio.fail_after(60):
        while not await probe():
            await anyio.sleep(0.05)


def water(server):
    return AnyUrl(f"{server['mark']}lock://water")


async def visit(server, answers, session):
    """Everything at one lock, whose things are called `tool` + name and `mark` + URI."""

    async def call(name, given=None, **more):
        result = await session.call_tool(server["tool"] + name, given or {}, **more)
        return "\n".join(part.text for part in result.content if part.type == "text")

    async def spoken():
        return len(answers.logs) >= 2

    def told(sentence):
        return check(f"{NAME} at {server['name']}: {sentence}")

    equal((await session.initialize()).protocolVersion, VERSION)
    with told("it lists, and a call gives structured content"):
        equal(f"{server['tool']}measure" in [tool.name for tool in (await session.list_tools()).tools], True)
        result = await session.call_tool(f"{server['tool']}measure", {"boat": "Zeemeeuw"})
        equal(result.structuredContent, {"boat": "Zeemeeuw", "metres": 12})
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
    with told("progress comes"):
        steps = []

        async def step(progress, total, message):
            steps.append(progress)

        await call("fill", {"steps": 4}, progress_callback=step)
        equal(steps, [1, 2, 3, 4])
    with told("log messages come as asked for"):
        await session.set_logging_level("info")
        await call("speak")
        await until("two log messages", spoken)
        equal(answers.logs, ["a word of info", "a word of error"])
    with told("it hears of a resource that it subscribed to, and of a tool"):
        await subscribe(server, session, answers, call)
    with told("it reads, gets a prompt and completes"):
        equal((await session.read_resource(water(server))).contents[0].text.isdigit(), True)
        prompt = await session.get_prompt(f"{server['tool']}greet", {"name": "Ada"})
        equal(prompt.messages[0].content.text, "Greet Ada")
        reference = types.PromptReference(type="ref/prompt", name=f"{server['tool']}greet")
        found = await session.complete(reference, {"name": "name", "value": "Ad"})
        equal(found.completion.values, ["Ada", "Adam"])


async def subscribe(server, session, answers, call):
    async def updated():
        return water(server) in answers.updates

    async def changed():
        return answers.changes > 0

    async def listed():
        return server["tool"] + boat in [tool.name for tool in (await session.list_tools()).tools]

    await session.subscribe_resource(water(server))
    await call("raise")
    await until("the update", updated)
    await session.unsubscribe_resource(water(server))
    boat = await call("moor")
    await until("the change", changed)
    await until("the boat is listed", listed)
    equal(await call(boat), f"{boat} is moored")


async def go(server):
    answers = Answers()
    # a refused message is only logged by this client, which then waits without end
    with anyio.fail_after(300):
        async with streamablehttp_client(server["url"], headers=HEADERS) as (read, write, _):
            callbacks = {
                "sampling_callback": answers.sampling, "elicitation_callback": answers.elicitation, "list_roots_callback": answers.roots,
                "logging_callback": answers.logging, "message_handler": answers.message,
            }
            async with ClientSession(read, write, **callbacks) as session:
                await visit(server, answers, session)


for server in context["servers"]:
    try:
        anyio.run(go, server)
    except Exception as error:
        with check(f"{NAME} at {server['name']}: it stays to the end"):
            raise error
finish()
