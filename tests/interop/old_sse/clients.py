"""The clients of the table: name and version, command line, and what each cannot do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import machine

HERE = Path(__file__).parent
# how a client brings its credential, in the order of the columns
WAYS = ("header", "query", "login")
WITHOUT_LOGIN = WAYS[:2]


@dataclass
class Client:
    """`command` installs the client and gives its command line for a way, a key and the gateway's URL. `ends`: its connection
    ends with its stream, and a program opens another. `once`: the ways in which the client itself cannot connect again."""

    name: str
    command: Callable
    ways: tuple = WAYS
    ends: bool = False
    once: tuple = ()

    @property
    def slug(self):
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())


def node():
    pins = [HERE / "npm" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    return machine.node_modules("npm-old-sse", pins, HERE)


def environment(name):
    return machine.python(f"old-sse-{name}", HERE / "python" / f"{name}.txt")


def python_sdk(version, interpreter, once=()):
    """A release of the Python SDK, and what gives its interpreter. The first with OAuth over HTTP+SSE is 1.9."""
    ways = WAYS if int(version.split(".")[1]) >= 9 else WITHOUT_LOGIN
    return Client(f"Python SDK {version}", lambda *_: [interpreter(), HERE / "python_client.py"], ways, ends=True, once=once)


def own(name):
    """An environment of the suite."""
    return lambda: machine.python(name)


def release(version, base):
    """A release of the Python SDK before an environment of the suite that has what it depends on."""
    return lambda: machine.release(f"mcp-{version}", base, machine.python(base))


def typescript_sdk(version, package, header, name="TypeScript SDK", ways=WAYS):
    """A release of the TypeScript SDK, and how a program on it sets a header (see the client)."""

    def command(*_):
        node()
        return ["node", HERE / "typescript_client.mjs", package, header]

    return Client(f"{name} {version}", command, ways)


def on_node(script):
    def command(*_):
        node()
        return ["node", HERE / script]

    return command


def on_python(name, script):
    return lambda *_: [environment(name), HERE / script]


def bridge(arguments):
    """A bridge from stdio to HTTP+SSE; `arguments` gives its command line for a URL and the lines of its headers."""

    def command(way, key, url):
        address = f"{url}/sse?api_key={key}" if way == "query" else f"{url}/sse"
        headers = [f"Authorization: Bearer {key}"] if way == "header" else []
        return [environment("bridges"), HERE / "bridge_client.py", *arguments(address, headers)]

    return command


def mcp_remote(address, headers):
    options = [part for header in headers for part in ("--header", header)]
    return ["node", node() / "mcp-remote/dist/proxy.js", address, "--transport", "sse-only", *options]


def supergateway(address, headers):
    options = [part for header in headers for part in ("--header", header)]
    return ["node", node() / "supergateway/dist/index.js", "--sse", address, *options]


def mcp_proxy(address, headers):
    options = [part for header in headers for part in ("--headers", *header.split(": ", 1))]
    return [environment("bridges").parent / "mcp-proxy", "--transport", "sse", *options, address]


CLIENTS = [
    python_sdk("1.1.3", release("1.1.3", "client-old")),
    python_sdk("1.2.1", release("1.2.1", "client-old")),
    python_sdk("1.6.0", release("1.6.0", "client-old")),
    python_sdk("1.9.4", own("client-old")),
    # with a token, 1.12 sends each request twice, and first reads the answer to the first one to its end: a stream has none
    python_sdk("1.12.4", lambda: environment("mcp-1.12.4"), once=("login",)),
    python_sdk("1.22.0", release("1.22.0", "client-1")),
    python_sdk("1.26.0", release("1.26.0", "client-1")),
    python_sdk("1.30.0", own("client-1")),
    # 1.0 has no option for a header, and 1.7 is the first with OAuth
    typescript_sdk("1.0.4", "sdk-1.0", "none", ways=("query",)),
    typescript_sdk("1.7.0", "sdk-1.7", "fetch"),
    typescript_sdk("1.9.0", "sdk-1.9", "fetch"),
    typescript_sdk("1.12.3", "sdk-1.12", "init"),
    typescript_sdk("1.17.5", "sdk-1.17", "init"),
    typescript_sdk("1.22.0", "sdk-1.22", "init"),
    typescript_sdk("1.32.2", "sdk-1.32", "init"),
    typescript_sdk("1.32.2, header set twice", "sdk-1.32", "fetch", ways=("header",)),
    typescript_sdk("2.4.0", "client-2", "init"),
    Client("mcp-remote 0.15.1", bridge(mcp_remote)),
    Client("supergateway 4.0.0", bridge(supergateway), WITHOUT_LOGIN),
    Client("mcp-proxy 0.13.0", bridge(mcp_proxy), WITHOUT_LOGIN, ends=True),
    Client("LangChain MCP adapters 0.3.2", on_python("bridges", "langchain_client.py")),
    Client("OpenAI Agents 0.24.0", on_python("agents", "agents_client.py"), ends=True),
    Client("AI SDK (`@ai-sdk/mcp`) 2.0.99", on_node("ai_sdk_client.mjs"), ends=True),
    Client("Java SDK 0.10 (simulated)", on_python("bridges", "java_client.py"), WITHOUT_LOGIN, ends=True),
]
