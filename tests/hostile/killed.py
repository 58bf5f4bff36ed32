"""`kill -9` in a loop during logins, token exchanges, refreshes, revocations, registrations, key creations and calls.

After each restart nothing acknowledged is lost: a registered client is known; an unused code works; an access token works; a
refresh token works, also if the answer to its use was lost; a created key works; what was revoked stays revoked. And nothing
works twice: not a used code, nor a code that is redeemed twice at once, nor a refresh token whose successor was used.
"""

import asyncio
import collections
import random
import re
import secrets

import mcp
from gateway import KEY
from http1 import Gone, fetch
from login import App, Refused, authorization
from sources import Source, Target
from trial import gateway_for

PEOPLE, CALLERS, KEY_MAKERS, RACERS = 4, 2, 1, 1
# A key has 64 browser sessions: one whose login waits a second for the disk would lose its own to the logins after it.
LOGIN_KEYS = 16
ROUND_SECONDS = (0.5, 2.5)
# number of each kind that is checked after a restart; all of them after the last
MOST_CHECKED = 40
INTERRUPTED = {"asked": "code exchanges", "refreshing": "refreshes", "revoking": "revocations"}
# without grace, a refresh token that is used again ends its family if its successor was used
LIFETIMES = '\n[auth]\ncode_lifetime = "10m"\nrefresh_grace = "0s"\n'


class Code:
    """A code: `given`, `asked` (sent, no answer yet), `used`, or `raced` (sent twice at once)."""

    def __init__(self, app, code, verifier):
        self.app, self.code, self.verifier, self.state, self.grant, self.wins = app, code, verifier, "given", None, 0


class Grant:
    """Tokens of one grant: `held`, `refreshing` or `revoking` (no answer yet), `revoked`, or `lost`."""

    def __init__(self, app, tokens):
        self.app, self.state, self.spent = app, "held", []
        self.take(tokens)

    def take(self, tokens):
        self.access, self.refresh = tokens["access_token"], tokens["refresh_token"]


class Ledger:
    """What the gateway acknowledged, the checks, and their failures."""

    def __init__(self):
        self.clients, self.codes, self.grants, self.keys = [], [], [], {}
        self.checked, self.faults, self.done = collections.Counter(), [], collections.Counter()

    def expect(self, what, good, found=""):
        self.checked[what] += 1
        if not good:
            self.faults.append(f"{what}: it does not hold {found}".rstrip())


class World:
    def __init__(self, gateway):
        self.gateway, self.target, self.ledger = gateway, Target.of("proxy", gateway.port), Ledger()
        self.dice, self.numbers, self.keys, self.direct = random.Random(9), 0, [], None

    def source(self):
        """A new address each time, so that no limit applies."""
        self.numbers += 1
        return Source.client("proxy", self.numbers)

    # === the mix

    async def person(self):
        app = App(self.target, self.source())
        self.ledger.clients.append(await app.register())
        code = Code(app, *await app.code(self.dice.choice(self.keys)))
        self.ledger.codes.append(code)
        if self.dice.random() < 0.2:
            return
        code.state = "asked"
        code.grant = grant = Grant(app, await app.redeem(code.code, code.verifier))
        code.state = "used"
        self.ledger.grants.append(grant)
        for _ in range(self.dice.randrange(4)):
            await self.refresh(grant)
        if self.dice.random() < 0.3:
            grant.state = "revoking"
            await app.revoke(grant.refresh)
            grant.state = "revoked"
        self.ledger.done["logins"] += 1

    async def refresh(self, grant):
        grant.state = "refreshing"
        tokens = await grant.app.refresh(grant.refresh)
        grant.spent.append(grant.refresh)
        grant.take(tokens)
        grant.state = "held"
        self.ledger.done["refreshes"] += 1

    async def racer(self):
        """Redeems a code twice at the same time."""
        app = App(self.target, self.source())
        await app.register()
        code = Code(app, *await app.code(self.dice.choice(self.keys)))
        code.state = "raced"
        self.ledger.codes.append(code)

        async def race():
            await app.redeem(code.code, code.verifier)
            code.wins += 1

        for outcome in await asyncio.gather(race(), race(), return_exceptions=True):
            if isinstance(outcome, Gone):
                raise outcome

    async def caller(self):
        if await self.call(self.direct) == 200:
            self.ledger.done["calls"] += 1

    async def key_maker(self):
        """Uses the command line, which works while the gateway is down."""
        made = await self.cli("keys", "create", f"key {secrets.token_hex(3)}", "--direct", "--user", "ann", "--json")
        key = KEY.search(made).group()
        self.ledger.keys[key] = "live"
        if self.dice.random() < 0.4:
            self.ledger.keys[key] = "revoking"
            await self.cli("keys", "revoke", key.split("_")[1])
            self.ledger.keys[key] = "revoked"

    async def cli(self, *arguments):
        gateway = self.gateway
        command = [gateway.binary, *arguments, *gateway.configured, "--data-dir", str(gateway.data)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, cwd=gateway.folder, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        self.ledger.expect("a command succeeds", process.returncode == 0, err.decode()[-300:])
        return out.decode()

    async def call(self, credential):
        """The status of a call with a key or a token."""
        headers, body = mcp.modern(credential, "tools/call", {"name": "demo__echo", "arguments": {"message": "hello"}})
        answer = await fetch(self.target, self.source(), "POST", "/mcp", headers, body)
        return answer.status if answer.status != 200 or '"hello"' in answer.text else -1

    async def forever(self, act):
        """Repeats until the gateway is gone."""
        while True:
            await act()

    async def live(self):
        """One round: the gateway is killed under load."""
        acts = [self.person] * PEOPLE + [self.racer] * RACERS + [self.caller] * CALLERS
        tasks = [asyncio.ensure_future(self.forever(act)) for act in acts]
        # a command is not interrupted: it continues while the gateway is down
        makers = [asyncio.ensure_future(self.key_maker()) for _ in range(KEY_MAKERS)]
        await asyncio.sleep(self.dice.uniform(*ROUND_SECONDS))
        self.gateway.kill()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(outcome, (Gone, OSError)):
                self.ledger.faults.append(f"before the kill: {outcome!r}")
        for outcome in await asyncio.gather(*makers, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.ledger.faults.append(f"a command: {outcome!r}")

    # === the checks

    async def check(self, most):
        ledger = self.ledger
        for found in (*ledger.codes, *ledger.grants):
            if found.state in INTERRUPTED:
                ledger.done[f"interrupted {INTERRUPTED[found.state]}"] += 1
        newest = lambda found: list(found)[-most:]
        for client in newest(ledger.clients):
            answer = await fetch(self.target, self.source(), "GET", authorization(client, "v" * 50), {"Accept": "text/html"})
            ledger.expect("a client that was registered is known", answer.status == 200, answer.status)
        for code in newest(ledger.codes):
            await self.check_code(code)
        for grant in newest(ledger.grants):
            await self.check_grant(grant)
        for key, state in newest(ledger.keys.items()):
            if state != "revoking":
                expected = 200 if state == "live" else 401
                ledger.expect(f"a key that is {state} is answered {expected}", (found := await self.call(key)) == expected, found)

    async def check_code(self, code):
        ledger = self.ledger
        again = await self.redeemed(code)
        code.wins += bool(again)
        if code.state == "given":
            ledger.expect("a code that was given and not used works", bool(again))
        elif code.state == "used":
            ledger.expect("a code that was used does not work again", not again)
            if code.grant:
                # one repetition within ten seconds is a client that tries again (OA-85); after the next one what it bought is
                # revoked (RFC 6749 4.1.2)
                ledger.expect("nor a third time", await self.redeemed(code) is None)
                code.grant.state = "revoked"
        ledger.expect("a code is redeemed at most once", code.wins <= 1 and not (again and code.state == "used"), code.wins)
        if again:
            code.grant = Grant(code.app, again)
            ledger.grants.append(code.grant)
        # used now, or used before the answer was lost
        code.state = "used"

    async def redeemed(self, code):
        code.app.source = self.source()
        try:
            return await code.app.redeem(code.code, code.verifier)
        except Refused as refused:
            self.ledger.expect("the token endpoint refuses with 400", refused.status == 400, refused)
            return None

    async def check_grant(self, grant):
        ledger = self.ledger
        grant.app.source = self.source()
        if grant.state == "revoked":
            ledger.expect("a token that was revoked stays revoked", (found := await self.call(grant.access)) == 401, found)
            ledger.expect("a refresh token that was revoked stays revoked", await self.refreshed(grant, grant.refresh) is None)
        elif grant.state == "revoking":
            # no answer came: either state is right until the client repeats it
            await grant.app.revoke(grant.refresh)
            grant.state = "revoked"
        elif grant.state in ("held", "refreshing"):
            what = "a refresh token whose answer was lost works" if grant.state == "refreshing" else "a refresh token that was given works"
            ledger.expect("an access token that was given works", (found := await self.call(grant.access)) == 200, found)
            tokens = await self.refreshed(grant, grant.refresh)
            ledger.expect(what, tokens is not None)
            grant.state = "held" if tokens else "lost"
            if tokens:
                grant.spent.append(grant.refresh)
                grant.take(tokens)
                ledger.expect("the new access token works", (found := await self.call(grant.access)) == 200, found)
                if self.dice.random() < 0.3:
                    await self.check_spent(grant)

    async def check_spent(self, grant):
        """A refresh token that is used again ends its family (RFC 9700 4.14.2)."""
        ledger = self.ledger
        ledger.expect("a refresh token that was used does not work again", await self.refreshed(grant, grant.spent[-1]) is None)
        ledger.expect("its second use revokes the grant", (found := await self.call(grant.access)) == 401, found)
        grant.state = "revoked"

    async def refreshed(self, grant, token):
        try:
            return await grant.app.refresh(token)
        except Refused as refused:
            self.ledger.expect("the token endpoint refuses with 400", refused.status == 400, refused)
            return None


async def run(options, folder, log):
    """Runs all rounds; counts of operations and checks, and the failures."""
    gateway = gateway_for(options.binary, "proxy", folder)
    gateway.log = options.out / "kill-9.log"
    with (folder / "lockkeeper.toml").open("a") as config:
        config.write(LIFETIMES)
    gateway.start()
    world = World(gateway)
    try:
        world.keys = [gateway.create_key(f"login {number}", "--user", "ann") for number in range(LOGIN_KEYS)]
        world.direct = gateway.create_key("direct", "--direct", "--user", "ann")
        for number in range(options.rounds):
            await world.live()
            gateway.start()
            last = number == options.rounds - 1
            await world.check(1_000_000 if last else MOST_CHECKED)
            if world.ledger.faults:
                log(f"# kill -9, round {number + 1}: {len(world.ledger.faults)} faults")
        world.ledger.expect("the gateway ends by itself when asked", gateway.stop() == 0)
    finally:
        gateway.stop()
    return summary(world, options.rounds)


def summary(world, number):
    ledger = world.ledger
    states = collections.Counter(grant.state for grant in ledger.grants)
    done = {
        "clients": len(ledger.clients), "codes": len(ledger.codes), "grants": len(ledger.grants), "keys": len(ledger.keys), **ledger.done,
    }
    said = ", ".join(f"{count} {what}" for what, count in done.items())
    counts = {re.sub(r"\s+", " ", what): count for what, count in ledger.checked.items()}
    text = f"{said}; {sum(counts.values())} checks, {len(ledger.faults)} faults"
    return {"rounds": number, "summary": text, "done": done, "grants": dict(states), "checks": counts, "faults": ledger.faults}
