"""The Inspector's command line at the gateway over HTTP, with its login: the browser's part is walked from the URL that it
prints, its own callback server takes the code. Each command is a process, and all share the Inspector's file of tokens. With
`clientDocument` in the context it does not register: that URL is its id."""

import json
import os
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from case import check, contains, context, equal, finish, until, walk
from gateway import Gateway, free_port

LOGIN = re.compile(r"https?://\S+[?&]response_type=code\S*")

home = Path(tempfile.mkdtemp(dir=context["work"], prefix="inspector-"))
document = ["--client-metadata-url", context["clientDocument"]] if "clientDocument" in context else []
gateway = Gateway.at(context)
callback = f"http://127.0.0.1:{free_port()}/oauth/callback"


def command(era, *arguments):
    where = ["--server-url", f"{gateway.url}/mcp", "--callback-url", callback, "--protocol-era", era, *document]
    return [*context["inspector"], *where, "--format", "json", *arguments]


ENVIRONMENT = {**os.environ, "HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "file", "BROWSER": "/bin/true", "MCP_AUTO_OPEN_ENABLED": "true"}
ECHO = ["--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=inspected"]


def inspect(era, *arguments):
    """A command that must not ask anybody: its exit code, what it prints, and its errors."""
    done = subprocess.run(command(era, "--stored-auth-only", *arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def log_in(era, *arguments):
    """A command that asks a person to log in: its result."""
    errors = home / "errors.txt"
    with errors.open("w") as told:
        process = subprocess.Popen(command(era, *arguments), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=told, text=True)
        url = until("the page of the login", lambda: (LOGIN.findall(errors.read_text()) or [None])[0])
        urllib.request.urlopen(walk(url), timeout=20).read()
        output, _ = process.communicate(timeout=120)
    equal((process.returncode, errors.read_text() if process.returncode else ""), (0, ""))
    return output


def grants():
    """The live grants of the Inspector."""
    listed = json.loads(gateway.cli("grants", "list", "--json"))["grants"]
    return [grant for grant in listed if "inspector" in grant["client_name"].lower()]


with check("the Inspector says what is missing where it may not ask for a login"):
    code, _, errors = inspect("modern", "--method", "tools/list")
    equal(code != 0, True)
    contains(errors, "auth_required")
with check("the Inspector logs in, and lists the tools"):
    contains(log_in("modern", "--method", "tools/list"), "everything__echo")
for era in ("modern", "legacy"):
    with check(f"{era}: the Inspector calls with the tokens of that login, and asks nobody"):
        code, output, errors = inspect(era, *ECHO)
        equal((code, errors if code else ""), (0, ""))
        contains(output, "Echo: inspected")
with check("the Inspector logs in again where it is told to forget its tokens, as the same client"):
    contains(log_in("modern", "--relogin", *ECHO), "Echo: inspected")
    [client] = {grant["client"] for grant in grants()}
with check("a revoked grant leads to a new login"):
    gateway.cli("grants", "revoke", "--client", client)
    # another process revoked it: the gateway applies that within a second, perhaps between two requests of one command
    until("the end of the tokens", lambda: "auth_required" in inspect("modern", *ECHO)[2])
    contains(log_in("modern", *ECHO), "Echo: inspected")
    equal([grant["client"] for grant in grants()], [client])
finish()
