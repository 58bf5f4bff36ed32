"""What is open at each replica when the rights of its key change."""

import time

from .answers import recorded
from .client import Client
from .place import Findings, expect, replicas, scenario, within


@scenario
def narrower_rights_end_a_running_call_at_every_replica():
    found = Findings()
    with replicas(2) as place:
        running = {}
        for index, member in enumerate(place.members):
            client = Client(place.key, "/mcp/script").open(member.port)
            call = client.call(member.port, "slow", {"seconds": 60, "mark": f"r{index}"})
            within(10, lambda index=index: f"slow r{index}" in recorded(place), "the server has the call")
            running[index] = call
        other = Client(place.key).open(place.members[1].port)
        ident = place.key_id(place.key)
        place.cli("keys", "set", ident, "--server", "demo")
        changed = time.monotonic()
        for index, call in running.items():
            with found.part(f"replica {index}"):
                within(1, call.over.is_set, f"the call ends, {time.monotonic() - changed:.2f} s after the change", every=0.01)
                place.note(f"replica {index}: {time.monotonic() - changed:.2f} s")
                expect("seconds" not in call.text(), "it has no result")
        for member in place.members:
            refused = Client(place.key, "/mcp/script").initialize(member.port)
            found.expect(refused.status in (401, 403), f"a new session there is answered {refused}")
        found.expect(other.echo(place.members[1].port).result() is not None, "the session at a server that stays goes on")
        place.cli("keys", "set", ident, "--server", "demo", "--server", "script")
        for index, member in enumerate(place.members):
            opened = lambda member=member: Client(place.key, "/mcp/script").initialize(member.port).status == 200
            with found.part(f"replica {index}"):
                within(1, opened, "wider rights open the server again")
    found.tell()
