"""`lockkeeper connect`: the bridge by which clients that only know stdio reach a protected server, driven by the Python SDK
as desktop applications do: started, spoken to at once, killed."""

import json
import os
import pty
import re
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import anyio
from case import check, contains, context, equal, finish, until, walk
from gateway import Gateway
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

LOGIN = re.compile(r"https?://\S+[?&]response_type=code\S*")

gateway = Gateway.alone(context, "connect", context["config"])
gateway.start()
gateway.ready()
context["key"] = gateway.create_key("connect")
home = Path(context["work"]) / "connect-home"
home.mkdir()


class Bridge:
    """One process of the bridge, with what it says on standard error."""

    made = 0

    def __init__(self, *arguments):
        Bridge.made += 1
        self.log = home / f"{Bridge.made}.log"
        self.parameters = StdioServerParameters(
            command=context["binary"],
            args=["connect", f"{gateway.url}/mcp", "--data-dir", str(home), *arguments],
            env={**os.environ, "BROWSER": "/bin/true"},
        )

    def page(self):
        """The page that it asks a person to open."""
        return until("the page of the login", lambda: (LOGIN.findall(self.said()) or [None])[0])

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    async def use(self, visit=None, calls=1):
        """A session of the SDK: it lists tools and calls one."""
        with self.log.open("w") as log:
            async with stdio_client(self.parameters, errlog=log) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                names = [tool.name for tool in (await session.list_tools()).tools]
                contains(names, "everything__echo")
                for number in range(calls):
                    if visit:
                        await visit(number)
                    result = await session.call_tool("everything__echo", {"message": f"call {number}"})
                    equal(result.content[0].text, f"Echo: call {number}")


def log_in(page):
    """Logs in as a person does; gives the text of the last page."""
    with urllib.request.urlopen(walk(page)) as answer:
        return answer.read().decode()


async def together(*tasks):
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)


def login_file():
    [found] = (home / "logins").glob("*.json")
    return found


def refused():
    """Whether the gateway refuses the token of the login. It applies what the command line revokes within a second."""
    token = json.loads(login_file().read_text())["tokens"]["access"]
    request = urllib.request.Request(f"{gateway.url}/mcp", b"{}", {"Authorization": f"Bearer {token}"})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as answer:
        return answer.code == 401
    return False


with check("a client that is killed while a person logs in leaves the page usable for the next one"):
    command = [context["binary"], "connect", f"{gateway.url}/mcp", "--data-dir", str(home)]
    killed = Bridge()
    with killed.log.open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=killed.parameters.env)
        process.stdin.write(json.dumps({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "killed", "version": "1"}},
        }).encode() + b"\n")
        process.stdin.flush()
        page = killed.page()
        process.send_signal(signal.SIGKILL)
        process.wait()
    bridges = [Bridge() for _ in range(10)]

    async def person():
        # whichever of the ten waits for the response to the page
        await anyio.to_thread.run_sync(until, "the page again", lambda: any(page in bridge.said() for bridge in bridges))
        contains(await anyio.to_thread.run_sync(log_in, page), "You are logged in")

    anyio.run(lambda: together(person, *(bridge.use for bridge in bridges)))
    pages = {found for bridge in [killed, *bridges] for found in LOGIN.findall(bridge.said())}
    equal(pages, {page})
with check("the login is kept, in a file for its owner alone"):
    equal(login_file().stat().st_mode & 0o777, 0o600)
    later = Bridge()
    anyio.run(later.use)
    equal(LOGIN.findall(later.said()), [])
with check("a token that ends between calls is refreshed once for all who share it"):
    login = json.loads(login_file().read_text())
    # not the answer to a login of this moment, whose rejection would be a fault of the server
    login["tokens"]["issued"] = 0
    login_file().write_text(json.dumps(login))
    arrived = []

    async def end_token(number):
        if number != 1:
            return
        arrived.append(number)
        if len(arrived) == 5:
            form = urllib.parse.urlencode({"token": login["tokens"]["access"], "client_id": login["client"]["id"]})
            equal(urllib.request.urlopen(f"{gateway.url}/oauth/revoke", form.encode()).status, 200)
            arrived.append("all")
        await anyio.to_thread.run_sync(until, "the others", lambda: arrived[-1] == "all")

    running = [Bridge() for _ in range(5)]
    anyio.run(lambda: together(*(lambda bridge=bridge: bridge.use(end_token, 3) for bridge in running)))
    equal([found for bridge in running for found in LOGIN.findall(bridge.said())], [])
    assert json.loads(login_file().read_text())["tokens"]["access"] != login["tokens"]["access"]
with check("a remote that restarts in mid-session is used again"):
    async def restart(number):
        if number == 1:
            gateway.kill()
            gateway.start()
            gateway.ready()

    anyio.run(lambda: Bridge().use(restart, 3))
with check("a login that was revoked asks the person again, and nobody else can"):
    gateway.cli("grants", "revoke", "--user", "connect")
    until("the gateway to have heard of it", refused)
    again = Bridge()

    async def log_in_again():
        page = await anyio.to_thread.run_sync(again.page)
        contains(await anyio.to_thread.run_sync(log_in, page), "You are logged in")

    anyio.run(lambda: together(again.use, log_in_again))
with check("a client that the authorization server has forgotten is registered anew before a person sees a page"):
    login = json.loads(login_file().read_text())
    login["client"]["id"], login["tokens"] = "forgotten", None
    login_file().write_text(json.dumps(login))
    anew = Bridge()

    async def log_in_anew():
        page = await anyio.to_thread.run_sync(anew.page)
        assert "forgotten" not in page, page
        contains(await anyio.to_thread.run_sync(log_in, page), "You are logged in")

    anyio.run(lambda: together(anew.use, log_in_anew))
with check("`--logout` forgets the login, `--login` begins one without a client"):
    out = subprocess.run([*command, "--logout"], capture_output=True, text=True, timeout=30)
    contains(out.stdout, "Logged out of")
    equal(list((home / "logins").glob("*.json")), [])
    # a person at a terminal whose browser is on another machine: its last address is pasted
    terminal, theirs = pty.openpty()
    with (home / "login.log").open("w") as said:
        login = subprocess.Popen([*command, "--login", "--no-browser"], stdin=theirs, stdout=subprocess.PIPE, stderr=said, text=True)
    read = (home / "login.log").read_text
    page = until("the page of the login", lambda: (LOGIN.findall(read()) or [None])[0])
    contains(read(), "paste the address")
    os.write(terminal, b"nonsense\n")
    until("advice", lambda: "paste the whole address" in read())
    os.write(terminal, walk(page).encode() + b"\n")
    contains(login.communicate(timeout=30)[0], "Logged in at")
    assert login_file().exists()
with check("a key in a header needs no login"):
    key = gateway.create_key("direct", "--direct")
    os.environ["LOCKKEEPER_TEST_KEY"] = key
    direct = Bridge("--header", "Authorization: Bearer ${LOCKKEEPER_TEST_KEY}")
    anyio.run(direct.use)
    equal(LOGIN.findall(direct.said()), [])
gateway.stop()
finish()
