"""The client that the suite judges in its scenarios of authorization: a gateway in front of the suite's protected server, and the
person who connects it. `upstream_client.py URL`, with the scenario in the environment, as the suite calls it; the binary is
`$LOCKKEEPER_BIN`. Ends with 0 if the tool of the server was called."""

import json
import os
import sys
import tempfile
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

HARNESS = Path(__file__).resolve().parent.parent / "interop" / "harness"
sys.path.insert(0, str(HARNESS))
from gateway import Gateway, free_port
from person import Person
from wire import Wire

SERVER = "tested"
TOOL = "test-tool"
# The suite's URL of a metadata document: that of the gateway is below its `public_url`, which the suite cannot reach.
DOCUMENT = "https://conformance-test.local/client-metadata.json"


def options(url, scenario, given):
    """What an operator configures for the server, beside its URL."""
    if scenario == "auth/basic-cimd":
        return {"auth": "oauth", "client_id": DOCUMENT}
    client = {name: given[name] for name in ("client_id", "client_secret") if name in given}
    if "client_secret" in client:
        client["issuer"] = issuer(url)
    is_own = "client-credentials" in scenario
    return {"auth": "client-credentials" if is_own else "oauth", **client}


def configuration(url, scenario, given):
    members = {"url": url, **options(url, scenario, given)}
    return "\n".join([f"[servers.{SERVER}]", *(f"{name} = {json.dumps(value)}" for name, value in members.items())])


def issuer(url):
    """The authorization server of the suite, which an operator would know: the first that its server lists."""
    parts = urlsplit(url)
    for path in (parts.path.rstrip("/"), ""):
        try:
            with urlopen(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{path}") as answer:
                return json.load(answer)["authorization_servers"][0]
        except HTTPError:
            continue
    return f"{parts.scheme}://{parts.netloc}"


class Visit:
    """One person at one gateway."""

    def __init__(self, gateway):
        self.url, key = gateway.url, gateway.create_key("suite", "--direct")
        self.person, self.wire = Person("suite", key), Wire(f"{gateway.url}/mcp/{SERVER}", key)

    def connect(self, page):
        status, address, text = self.person.visit(page, f"/connect/{SERVER}")
        if not address.endswith("/done"):
            sys.exit(f"{status} at {address}: not connected:\n{text}")

    def call(self):
        """The text of the tool's answer. Where it leads to a page, the person goes there once."""
        text = self.answer()
        page = next((word for word in text.split() if word.startswith(f"{self.url}/connect/")), None)
        if page is None:
            return text
        self.connect(page)
        return self.answer()

    def answer(self):
        answer = self.wire.call("call", TOOL, {})
        return answer["result"]["content"][0]["text"] if "result" in answer else json.dumps(answer)


def main(url):
    scenario, given = os.environ["MCP_CONFORMANCE_SCENARIO"], json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory(prefix="lockkeeper-suite-") as folder:
        config = Path(folder) / "lockkeeper.toml"
        config.write_text(configuration(url, scenario, given))
        gateway = Gateway(os.environ["LOCKKEEPER_BIN"], config, folder, free_port())
        gateway.start()
        try:
            visit = Visit(gateway)
            if options(url, scenario, given)["auth"] == "oauth":
                visit.connect(f"{gateway.url}/connect/{SERVER}")
            visit.wire.initialize()
            visit.wire.post({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
            text = visit.call()
            if text != "test":
                sys.exit(f"the tool says: {text}")
        finally:
            gateway.stop()
            print(gateway.log_text(), file=sys.stderr)


main(sys.argv[1])
