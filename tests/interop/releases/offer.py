"""The lists of the servers of all releases, in the form of a protocol version."""

import json
import re
from pathlib import Path

OFFER = json.loads((Path(__file__).parent / "offer.json").read_text())
MEMBERS = OFFER.pop("members")


def known(version, value):
    """The members that `version` has, at any depth: others may pass, but are not required to."""
    if isinstance(value, list):
        return [known(version, part) for part in value]
    if isinstance(value, dict):
        return {name: known(version, part) for name, part in value.items() if MEMBERS.get(name, "") <= version}
    return value


def offered(kind, version):
    """Of `tools`, `prompts`, `resources` or `resourceTemplates`, those that a server of `version` can have."""
    return known(version, [thing for thing in OFFER[kind] if thing["since"] <= version])


def filled(answer, given):
    """An answer with the arguments in it."""
    return json.loads(re.sub(r"\{(\w+)\}", lambda found: (given or {})[found[1]], json.dumps(answer)))
