"""A server on the Python SDK of the interpreter: `server.py VERSION [PORT]`; on pipes, or over Streamable HTTP."""

import contextlib
import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from offer import filled, offered

VERSION = sys.argv[1]
LISTS = {
    "tools": (types.ListToolsRequest, types.ListToolsResult),
    "prompts": (types.ListPromptsRequest, types.ListPromptsResult),
    "resources": (types.ListResourcesRequest, types.ListResourcesResult),
    "resourceTemplates": (types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult),
}


def answers(form, find):
    """A handler as the SDK keeps them: its decorators take other things from release to release."""

    async def handler(request):
        return types.ServerResult(form.model_validate(find(request.params)))

    return handler


def listing(kind):
    return lambda _: {kind: [thing["entry"] for thing in offered(kind, VERSION)]}


def named(kind):
    def find(params):
        thing = next(thing for thing in offered(kind, VERSION) if thing["entry"]["name"] == params.name)
        return filled(thing["result"], params.arguments)

    return find


def read(params):
    things = offered("resources", VERSION) + offered("resourceTemplates", VERSION)
    return next(thing["result"] for thing in things if thing["uri"] == str(params.uri))


def build():
    server = Server("python")
    for kind, (request, form) in LISTS.items():
        server.request_handlers[request] = answers(form, listing(kind))
    server.request_handlers[types.CallToolRequest] = answers(types.CallToolResult, named("tools"))
    server.request_handlers[types.GetPromptRequest] = answers(types.GetPromptResult, named("prompts"))
    server.request_handlers[types.ReadResourceRequest] = answers(types.ReadResourceResult, read)
    return server


async def on_pipes(server):
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def over_http(server, port):
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/", manager.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if len(sys.argv) > 2:
    over_http(build(), int(sys.argv[2]))
else:
    anyio.run(on_pipes, build())
