"""The lock on the Python SDK 2.x: `server.py ERA [PORT]`; on pipes, or over Streamable HTTP.

As `modern` it serves clients of 2026-07-28 alone, as `dual` what the SDK serves by itself.
"""

import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.shared.exceptions import MCPError
from mcp_types import Completion, CreateMessageResult, EmptyResult, ListRootsResult, SamplingMessage, SetLevelRequestParams, TextContent
from pydantic import BaseModel, Field

ERA, *PORT = sys.argv[1:]
WATER = "lock://water"


async def refuse_sessions(context, call_next):
    """The SDK serves both eras, and has no word for a server of one."""
    if context.method == "initialize":
        requested = (context.params or {}).get("protocolVersion")
        raise MCPError(-32022, "Unsupported protocol version", {"supported": ["2026-07-28"], "requested": requested})
    return await call_next(context)


lock = MCPServer("lock", version="2.0.0", log_level="WARNING", middleware=[refuse_sessions] if ERA == "modern" else [])
seen = {"level": 0, "abandoned": 0, "boats": 0}


class Name(BaseModel):
    name: str


class Load(BaseModel):
    load: str


class Measured(BaseModel):
    boat: str
    metres: int


async def who() -> Elicit[Name]:
    return Elicit("Who goes there?", Name)


async def upstream() -> Sample:
    question = TextContent(type="text", text="What is upstream?")
    return Sample([SamplingMessage(role="user", content=question)], max_tokens=20)


async def roots() -> ListRoots:
    return ListRoots()


async def load(name: Annotated[Name, Resolve(who)]) -> Elicit[Load]:
    return Elicit(f"What does {name.name} carry?", Load)


@lock.tool()
def measure(boat: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Boat"})]) -> Measured:
    return Measured(boat=boat, metres=12)


@lock.tool("ask-name", structured_output=False)
def ask_name(answer: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    accepted = isinstance(answer, AcceptedElicitation)
    return f"{answer.data.name} may pass" if accepted else f"nobody passes: {answer.action}"


@lock.tool("ask-model", structured_output=False)
def ask_model(answer: Annotated[CreateMessageResult, Resolve(upstream)]) -> str:
    return f"the model says: {answer.content.text}"


@lock.tool("ask-roots", structured_output=False)
def ask_roots(answer: Annotated[ListRootsResult, Resolve(roots)]) -> str:
    return " ".join(str(root.uri) for root in answer.roots)


@lock.tool("ask-twice", structured_output=False)
def ask_twice(name: Annotated[Name, Resolve(who)], load: Annotated[Load, Resolve(load)]) -> str:
    return f"{name.name} carries {load.load}"


@lock.tool(structured_output=False)
async def fill(steps: int, context: Context) -> str:
    try:
        for step in range(steps):
            await context.report_progress(step + 1, steps)
            await anyio.sleep(0.02)
    except anyio.get_cancelled_exc_class():
        seen["abandoned"] += 1
        raise
    return f"filled in {steps} steps"


@lock.tool(structured_output=False)
def abandoned() -> str:
    return str(seen["abandoned"])


@lock.tool(structured_output=False)
async def speak(context: Context) -> str:
    for level in ("debug", "info", "error"):
        await context.log(level, f"a word of {level}", logger_name="lock")
    return "spoken"


@lock.tool("raise", structured_output=False)
async def raise_water(context: Context) -> str:
    seen["level"] += 1
    await context.notify_resource_updated(WATER)
    return f"the water is at {seen['level']}"


@lock.tool(structured_output=False)
async def moor(context: Context) -> str:
    seen["boats"] += 1
    name = f"boat-{seen['boats']}"
    lock.add_tool(lambda: f"{name} is moored", name, structured_output=False)
    await context.notify_tools_changed()
    return name


@lock.resource(WATER, name="water", mime_type="text/plain")
def water() -> str:
    return str(seen["level"])


@lock.prompt()
def greet(name: str) -> str:
    return f"Greet {name}"


@lock.completion()
async def complete(_, argument, __):
    values = [name for name in ("Ada", "Adam", "Grace") if name.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


async def set_level(_, __):
    """Where this can be set, the SDK says that there are log messages at all."""
    return EmptyResult()


lock._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
if PORT:
    lock.run("streamable-http", port=int(PORT[0]))
else:
    lock.run()
