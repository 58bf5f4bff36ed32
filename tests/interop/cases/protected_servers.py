"""Real protected servers behind `auth = "oauth"`, one of sessions alone and one that needs none, each with its own authorization
server: two users connect their accounts from clients of three versions, call, and lose the access again."""

import json
import subprocess
from pathlib import Path

from case import check, contains, context, equal, finish, until
from gateway import Gateway, free_port
from person import Person
from servers import Server
from walk import summary
from wire import Wire

PROGRAMS = Path(__file__).parent.parent / "protected"
# The interpreter of each server.
SERVERS = {"sessions": "client-1", "stateless": "servers"}
LEGACY, PAGES, MODERN = "mcp-1.22.0", "client-1", "servers"
# What the clients of each interpreter speak, and how they are told of a page.
CLIENTS = {LEGACY: ("2025-06-18", "words"), PAGES: ("2025-11-25", "-32042"), MODERN: ("2026-07-28", "input_required")}


class Program:
    """A process that answers each line with a line of JSON. Its errors are those of the case."""

    def __init__(self, peer, name, *arguments):
        command = [context["pythons"][peer], PROGRAMS / name, *arguments]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.first = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.process.args[1:3]} ended with {self.process.wait(20)}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        return self.read()

    def stop(self):
        self.process.kill()
        self.process.wait()


class World:
    """The gateway in front of the two servers, and its users."""

    def __init__(self):
        self.config = Path(context["work"]) / "protected_servers.toml"
        ports = {name: free_port() for name in SERVERS}
        self.servers = {name: Program(peer, "server.py", ports[name]) for name, peer in SERVERS.items()}
        backends = [Server(name, url=f"http://127.0.0.1:{port}/mcp").toml() + 'auth = "oauth"\n' for name, port in ports.items()]
        self.config.write_text("\n".join(backends))
        self.gateway = Gateway.alone(context, "protected_servers", self.config)
        self.gateway.start()
        self.users = {name: Person(name, self.gateway.create_key(name, "--user", name, "--direct")) for name in ("ada", "bob")}
        self.clients = []

    def client(self, user, server, peer):
        """A client of this user at this server, which speaks the version of its interpreter."""
        client = Program(peer, "client.py", self.endpoint(server), self.users[user].key)
        self.clients.append(client)
        equal(client.first, CLIENTS[peer][0])
        return client

    def endpoint(self, server):
        return f"{self.gateway.url}/mcp/{server}"

    def connect(self, user, server, told, peer):
        """Follows what a client was told, by the means of its version, to the page that ends it."""
        equal(told["by"], CLIENTS[peer][1])
        page = told["page"]
        assert page.startswith(f"{self.gateway.url}/connect/{server}?t=") and user not in page, page
        status, _, text = self.users[user].visit(page, f"/connect/{server}")
        equal(status, 200)
        contains(summary(text), f"{server} is connected")

    def connected(self):
        """The accounts in the store, by user and server."""
        rows = json.loads(self.gateway.cli("upstream", "list", "--json"))["accounts"]
        return sorted((row["user"], row["server"]) for row in rows)

    def stop(self):
        for program in [*self.clients, *self.servers.values()]:
            program.stop()
        self.gateway.stop()


def connects(world, name, user, peer):
    """A client with a session: from the one tool of a stranger to the user's own."""
    client = world.client(user, name, peer)
    equal(client.ask("list"), ["connect_account"])
    world.connect(user, name, client.ask("call connect_account"), peer)
    # lists are fetched in the background
    until("the user's own tools", lambda: client.ask("list") == ["whoami"])
    equal(client.ask("call whoami"), {"text": user})
    return client


def visit(world, name):
    server = world.servers[name]
    with check(f"{name}: ada connects her account from a client of 2025-06-18, which has the address in words"):
        of_ada = connects(world, name, "ada", LEGACY)
    with check(f"{name}: bob connects his from a client of 2025-11-25, which has it in an error, and each has their own (UP-1, UP-7)"):
        of_bob = connects(world, name, "bob", PAGES)
        equal(of_ada.ask("call whoami"), {"text": "ada"})
        equal(server.ask("log"), ["register", "code ada", "code bob"])
    with check(f"{name}: access that the account took back is asked for anew, and is never the gateway's 401 (N-117)"):
        server.ask("forget")
        world.connect("bob", name, of_bob.ask("call whoami"), PAGES)
        equal(of_bob.ask("call whoami"), {"text": "bob"})
        wire = Wire(world.endpoint(name), world.users["ada"].key)
        wire.initialize()
        answer = wire.call(1, "whoami", {})
        equal(answer["result"]["isError"], True)
        contains(answer["result"]["content"][0]["text"], f"/connect/{name}?t=")
        # hers stay in the store until others take their place: a refusal may pass
        equal([owner for owner, where in world.connected() if where == name], ["ada", "bob"])
    with check(f"{name}: a call of 2026-07-28 asks ada for the page, and goes on when she was there (UP-7)"):
        stateless = world.client("ada", name, MODERN)
        world.connect("ada", name, stateless.ask("call whoami"), MODERN)
        equal(stateless.ask("was there"), {"text": "ada"})
        equal(of_ada.ask("call whoami"), {"text": "ada"})
        equal(server.ask("log"), ["code bob", "code ada"])
    with check(f"{name}: tokens that have ended are refreshed, once for each user (UP-9)"):
        server.ask("expire")
        equal([of_ada.ask("call whoami"), of_bob.ask("call whoami"), of_ada.ask("call whoami")], [{"text": "ada"}, {"text": "bob"}, {"text": "ada"}])
        equal(sorted(server.ask("log")), ["refresh ada", "refresh bob"])
    with check(f"{name}: ada disconnects on the account page, which revokes her tokens there and leaves bob his (UP-10)"):
        world.users["ada"].visit(f"{world.gateway.url}/account", "/account/disconnect")
        until("the revocation", lambda: "revoke ada" in server.ask("log"))
        equal(of_ada.ask("call whoami")["by"], "words")
        equal(of_bob.ask("call whoami"), {"text": "bob"})


world = World()
try:
    for name in SERVERS:
        visit(world, name)
    with check("no server has seen a token that it did not issue"):
        equal([server.ask("strangers") for server in world.servers.values()], [0, 0])
finally:
    world.stop()
finish()
