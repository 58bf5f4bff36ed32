"""Runs one attack in a process of its own. The argument is its specification; prints `begun`, and a report at the end."""

import asyncio
import json
import resource
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "interop" / "harness"))
import connections
import floods
import users
from attack import Context

ATTACKS = {attack.name: attack for attack in (*connections.ATTACKS, *floods.ATTACKS, *users.ATTACKS)}


async def main(spec):
    attack, context = ATTACKS[spec["attack"]](), Context(spec)
    print(json.dumps({"begun": attack.name}), flush=True)
    await attack.run(context)
    print(json.dumps(context.report()), flush=True)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(json.loads(sys.argv[1])))
