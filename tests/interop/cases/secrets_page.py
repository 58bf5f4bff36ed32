"""The pages on which a person enters, replaces and deletes a secret for a server, in Chromium (UP-2, UP-7)."""

import subprocess
from pathlib import Path

from case import check, context, equal, finish
from gateway import Gateway

BROWSER = Path(__file__).parent.parent.parent / "browser"
SECRET = "WIKI_KEY"

config = Path(context["work"]) / "secrets_page.toml"
gateway = Gateway.alone(context, "secrets_page", config)
# nobody answers there: the pages are for people, whatever the server does
config.write_text(f'[servers.wiki]\nurl = "http://127.0.0.1:9/mcp"\nheaders = {{ X-Key = "key ${{secret:{SECRET}}}" }}\n')
gateway.start()
try:
    given = ["--base", gateway.url, "--key", gateway.create_key("secrets"), "--server", "wiki", "--secret", SECRET]
    shown = ["--out", gateway.folder / "screenshots"]
    done = subprocess.run(["node", BROWSER / "secrets.mjs", *given, *shown], capture_output=True, text=True, timeout=300)
    print(done.stdout, end="", flush=True)
    with check("a person enters, replaces and deletes a secret by keyboard"):
        equal((done.returncode, done.stderr), (0, ""))
finally:
    gateway.stop()
finish()
