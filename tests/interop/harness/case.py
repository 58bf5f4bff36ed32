"""Frame of a case in Python: its context, one line per check, and an end."""

import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

context = json.loads(os.environ["INTEROP"])
HARNESS = Path(__file__).parent
_failed = []


@contextlib.contextmanager
def check(sentence):
    """One check that a user would notice. A failure is reported, and the case goes on."""
    try:
        yield
    except Exception as error:
        _failed.append(sentence)
        print(f"not ok - {sentence}", flush=True)
        for leaf in leaves(error):
            for line in (str(leaf) or repr(leaf)).splitlines()[:12]:
                print(f"# {line[:600]}", flush=True)
        traceback.print_exc()
    else:
        print(f"ok - {sentence}", flush=True)


def leaves(error):
    """The errors that a task group wraps, or the error itself."""
    return [leaf for part in error.exceptions for leaf in leaves(part)] if isinstance(error, BaseExceptionGroup) else [error]


def until(what, probe, seconds=60):
    """Asks `probe` again until it gives something true, and gives that. The time ends a hang."""
    end = time.monotonic() + seconds
    while not (found := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)
    return found


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"expected {expected!r}\nfound    {found!r}")


def contains(found, part):
    if part not in found:
        raise AssertionError(f"expected {part!r}\nin       {str(found)[:600]!r}")


def walk(url):
    """The redirect at the end of an authorization URL, walked as a person would."""
    return subprocess.run(
        [sys.executable, str(HARNESS / "walk.py"), str(url)],
        env={**os.environ, "INTEROP_KEY": context["key"]}, check=True, capture_output=True, text=True, timeout=120,
    ).stdout.strip()


def finish():
    sys.exit(1 if _failed else 0)
