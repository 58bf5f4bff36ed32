"""Secrets where none may be: in the database, the log and the metrics of a gateway. Knows the forms of its secrets, and those
that a client recorded, and nothing of how they came about."""

import base64
import os
import re
import urllib.parse
from pathlib import Path

FORMS = {
    "API key": re.compile(rb"lkk_[0-9A-Za-z]{8,32}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}"),
    "invitation": re.compile(rb"lkv_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}"),
    "refresh token": re.compile(rb"lkr_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}"),
    "JWT": re.compile(rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
}
# the one place where a link belongs: the first start shows it to whoever started the gateway
SHOWN_LINK = re.compile(rb"^ *Invited +\S*/invite\?i=lkv_\w+$", re.MULTILINE)
# the key that everything is sealed with is a file, and belongs there
MASTER_KEY = "master.key"
# what is shorter is found anywhere by chance
LEAST = 16


def record(*secrets):
    """Notes secrets that were issued, for the search at the end of the suite."""
    if "INTEROP_SECRETS" in os.environ:
        with open(os.environ["INTEROP_SECRETS"], "a") as file:
            file.writelines(f"{secret}\n" for secret in secrets if secret and len(secret) >= LEAST)


def recorded(file):
    return set(file.read_text().split()) if file.exists() else set()


def kept(folder):
    """What a gateway left in its folder: every file of its data, and its log."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and path.name != MASTER_KEY]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def written(secret):
    """The ways in which a secret may be written."""
    raw = secret.encode()
    return {raw, urllib.parse.quote(secret, safe="").encode(), base64.b64encode(raw), raw.hex().encode(), raw[: len(raw) * 2 // 3]}


def found(texts, secrets):
    """Each secret that is in one of the texts, without the secret."""
    leaks = []
    for place, text in texts.items():
        text = SHOWN_LINK.sub(b"", text)
        leaks += [f"{place}: a text in the form of a {form}" for form, pattern in FORMS.items() if pattern.search(text)]
        leaks += [f"{place}: {secret[:4]}… ({len(secret)} characters)" for secret in sorted(secrets) if any(way in text for way in written(secret))]
    return leaks
