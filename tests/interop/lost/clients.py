"""The clients of the table: name and version, command line, and what each cannot do by its own nature."""

import functools
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import machine

HERE = Path(__file__).parent
OLD_SSE = HERE.parent / "old_sse"
GO_PINS = [HERE / "go" / name for name in ("main.go", "go.mod", "classic.mod", "compiler.txt")]
RESTART, PASSED = "restart", "restart, socket kept"
CASES = ("cancel", "timeout", "cut", "freeze", "late error", RESTART, PASSED)


@dataclass
class Client:
    """One row.

    - `command` installs the client and gives its command line for a key and a URL. `optional`: it is left out where that fails.
    - `useless`: the most useless requests in a minute.
    - `ends`: its connection ends with its stream, and an application opens another.
    - `resumes`: it fetches the answer of a call whose connection was lost.
    - `hears`: it has a handler for changes.
    - `starting`: the seconds that it takes to begin a call, if each is a process.
    - `cases`: those that make sense.
    - `known`: what no server can change: for a case, what goes wrong and why.
    """

    name: str
    transport: str
    command: Callable
    useless: int = 1
    ends: bool = False
    resumes: bool = True
    starting: float = 0
    hears: bool = True
    cases: tuple = CASES
    known: dict = field(default_factory=dict)
    optional: bool = False

    @property
    def row(self):
        return f"{self.name}, {self.transport}"

    @property
    def slug(self):
        return "-".join("".join(letter if letter.isalnum() else " " for letter in self.row.lower()).split())


@functools.cache
def node():
    """The packages of the suite for HTTP+SSE: it pins the newest release of each client too."""
    pins = [OLD_SSE / "npm" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    return machine.node_modules("npm-old-sse", pins, HERE)


def typescript(package, transport, era="classic"):
    def command(*_):
        node()
        return ["node", HERE / "typescript_client.mjs", package, transport, era]

    return command


def python(environment, transport, era="classic"):
    return lambda *_: [machine.python(environment), HERE / "python_client.py", transport, era]


def mcp_remote(path, only):
    def command(key, url):
        bridge = ["node", node() / "mcp-remote/dist/proxy.js", f"{url}{path}", "--transport", only]
        return [sys.executable, HERE / "bridge_client.py", *bridge, "--header", f"Authorization: Bearer {key}"]

    return command


inspector_program = functools.cache(machine.inspector)


def inspector(path, transport):
    def command(key, url):
        options = ["--transport", transport, "--header", f"Authorization: Bearer {key}"]
        return [sys.executable, HERE / "inspector_client.py", *inspector_program(), f"{url}{path}", *options]

    return command


def go(modules, transport):
    """The Go SDK of one file of modules. Needs the Go module proxy; the compiler is a package of PyPI."""

    def build(folder):
        compiler = machine.python("go", HERE / "go" / "compiler.txt").parent / "go"
        for pin in GO_PINS:
            shutil.copy(pin, folder)
        for name in ("go", "classic"):
            machine.run(compiler, "build", "-mod=mod", f"-modfile={name}.mod", "-o", f"client-{name}", ".", cwd=folder)

    return lambda *_: [machine.kept("go-lost", GO_PINS, build) / f"client-{modules}", transport]


# it has no option for a bound, and shows no notifications
INSPECTED = {"hears": False, "starting": 3, "cases": tuple(case for case in CASES if case != "timeout")}
# 1.7.0 sends `subscriptions/listen` in `Client.Connect` and nowhere else (mcp/client.go), and has no function for it that an
# application could call. After the stream was lost, the recorder sees no second one, while calls go on
LISTENS_ONCE = {case: {"hears nothing": "listens only when it connects"} for case in ("cut", RESTART, PASSED)}
HTTP, SSE, MODERN = "Streamable HTTP", "HTTP+SSE", "Streamable HTTP of 2026-07-28"
CLIENTS = [
    Client("TypeScript SDK 1.32.2", HTTP, typescript("sdk-1.32", "http")),
    Client("TypeScript SDK 1.32.2", SSE, typescript("sdk-1.32", "sse"), resumes=False),
    Client("TypeScript SDK 2.4.0", HTTP, typescript("client-2", "http")),
    Client("TypeScript SDK 2.4.0", MODERN, typescript("client-2", "http", "modern"), resumes=False),
    Client("TypeScript SDK 2.4.0", SSE, typescript("client-2", "sse"), resumes=False),
    Client("Python SDK 1.30.0", HTTP, python("client-1", "http"), useless=2),
    Client("Python SDK 1.30.0", SSE, python("client-1", "sse"), useless=2, ends=True, resumes=False),
    Client("Python SDK 2.3.0", HTTP, python("servers", "http"), useless=2),
    Client("Python SDK 2.3.0", MODERN, python("servers", "http", "modern"), useless=2, resumes=False),
    Client("Python SDK 2.3.0", SSE, python("servers", "sse"), useless=2, ends=True, resumes=False),
    Client("mcp-remote 0.15.1", HTTP, mcp_remote("/mcp", "http-only")),
    Client("mcp-remote 0.15.1", SSE, mcp_remote("/sse", "sse-only"), resumes=False),
    Client("Inspector 2.12.0, command line", HTTP, inspector("/mcp", "http"), **INSPECTED),
    Client("Inspector 2.12.0, command line", SSE, inspector("/sse", "sse"), resumes=False, **INSPECTED),
    Client("Go SDK 1.6.1", HTTP, go("classic", "http"), optional=True),
    Client("Go SDK 1.7.0", MODERN, go("go", "http"), resumes=False, optional=True, known=LISTENS_ONCE),
    Client("Go SDK 1.7.0", SSE, go("go", "sse"), ends=True, resumes=False, optional=True),
]
