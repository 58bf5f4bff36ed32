"""Rows that no replica can read, or only a newer one: they stand in nobody's way."""

import base64
import hashlib
import http.client
import json
import secrets
import time
import urllib.parse

import walk

from .client import Client
from .place import Findings, becomes, expect, levels, replicas, scenario, within

CALLBACK = "http://127.0.0.1:7779/callback"


@scenario
def an_unknown_kind_of_revocation():
    found = Findings()
    with replicas() as place:
        clients = [Client(place.key).open(port) for port in place.ports()]
        streams = [client.get(port) for client, port in zip(clients, place.ports())]
        place.database.query("INSERT INTO revocations (kind, subject, at) VALUES ('unheard', 'of', 1)")
        # whatever runs when the row is read is taken for revoked, within a second; what comes then is verified anew
        time.sleep(1)
        until = time.monotonic() + 4
        while time.monotonic() < until and not found.wrong:
            for index, client in enumerate(clients):
                answer = client.echo(place.members[index].port, seconds=20)
                found.expect(answer.result(), f"a call at replica {index} is answered {answer}")
                fresh = Client(place.key).initialize(place.members[index].port)
                found.expect(fresh.result(), f"initialize at replica {index} is answered {fresh}")
            time.sleep(0.1)
        over = [index for index, stream in enumerate(streams) if stream.over.is_set()]
        place.note(f"open streams ended at replicas {over}")
    found.tell()


def insert_replica(place, address, key, seconds):
    lease = f"(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {seconds * 1000}"
    place.database.query(f"INSERT INTO replicas (address, public_key, lease_until) VALUES ('{address}', {key}, {lease})")


@scenario
def a_row_of_a_replica_that_nobody_can_read():
    found = Findings()
    with replicas(2) as place:
        good = f"(SELECT public_key FROM replicas WHERE number = {place.number(0)})"
        for seconds in (-60, 8):
            insert_replica(place, "no address", good, seconds)
            insert_replica(place, "127.0.0.1:9", "'\\x00ff'", seconds)
        inserted = time.monotonic()
        try:
            index = place.add()
            with found.part("a replica that is new"):
                becomes(200, 10, lambda: place.probe(index), "its /readyz")
        except RuntimeError as error:
            found.expect(False, f"a replica that is new does not start: {str(error)[-300:]}")
        unread = "SELECT count(*) FROM replicas WHERE address IN ('no address', '127.0.0.1:9')"
        left = lambda: int(place.database.query(unread))
        with found.part():
            becomes(0, inserted + 8 + 10 - time.monotonic(), left, "rows that nobody can read, after their lease")
        alive = [index for index in range(place.count) if place.is_running(index) and place.number(index)]
        found.expect(alive == list(range(place.count)), f"replicas that are there at the end: {alive}")
        answer = Client(place.key).open(place.port).echo(place.port)
        found.expect(answer.result(), f"a call at the end is answered {answer}")
    found.tell()


class Login:
    """An app that logs in, through the replicas in turn."""

    def __init__(self, place, login_key):
        self.place, self.client = place, Client("none")
        app = {"client_name": "Promises", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        answer = self.client.post(place.port, app, "/oauth/register")
        expect(answer.status == 201, f"POST /oauth/register is answered {answer}")
        self.id, verifier = json.loads(answer.text)["client_id"], secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.id, "redirect_uri": CALLBACK, "state": "s",
            "code_challenge": challenge, "code_challenge_method": "S256", "resource": f"{place.url}/mcp/demo",
        }
        end = walk.walk(f"{place.url}/oauth/authorize?{urllib.parse.urlencode(query)}", login_key)
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(end).query)["code"][0]
        proof = {"code": code, "redirect_uri": CALLBACK, "code_verifier": verifier}
        self.tokens = self.token(place.port, grant_type="authorization_code", **proof)

    def token(self, port, **form):
        resource = f"{self.place.url}/mcp/demo"
        body = urllib.parse.urlencode({"client_id": self.id, "resource": resource, **form})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/oauth/token", body, {"Content-Type": "application/x-www-form-urlencoded"})
        response = connection.getresponse()
        text = response.read().decode()
        expect(response.status == 200, f"POST /oauth/token is answered {response.status} {text[:300]}")
        return json.loads(text)

    def works(self, port):
        answer = Client(self.tokens["access_token"]).initialize(port)
        expect(answer.result(), f"initialize with an access token is answered {answer}")

    def refreshes(self, port):
        self.tokens = self.token(port, grant_type="refresh_token", refresh_token=self.tokens["refresh_token"])


@scenario
def a_signing_key_that_does_not_open():
    found = Findings()
    with replicas() as place:
        key = place.create_key("person")
        before = Login(place, key)
        # both would sign, as the newest
        later = "created + 1000, signs_from + 1000, NULL FROM signing_keys WHERE kid NOT IN ('closed', 'garbled')"
        for row in ("'closed', x, y, '\\x00010203'", "'garbled', '?', '', sealed"):
            place.database.query(f"INSERT INTO signing_keys SELECT {row}, {later}")
        with found.part("replicas that were there before"):
            before.works(place.port)
            before.refreshes(place.port)
            Login(place, key).works(place.port)
        with found.part("a replica that is started anew"):
            place.restart(2)
            before.works(place.members[2].port)
            before.refreshes(place.members[2].port)
            before.works(place.members[2].port)
        with found.part("a login at the end"):
            Login(place, key).works(place.port)
        lines = [line for line in levels(place.log_since(0, 0), "ERROR") if "signing key" in line]
        place.note(f"{len(lines)} ERROR lines about signing keys at replica 0")
    found.tell()


@scenario
def a_session_row_that_nobody_can_read():
    found = Findings()
    with replicas() as place:
        client = Client(place.key).open(place.members[0].port)
        digest = hashlib.sha256(client.session.encode()).hexdigest()
        place.members[0].kill()
        place.database.query(f"UPDATE mcp_sessions SET subscriptions = 'garbage' WHERE encode(digest, 'hex') = '{digest}'")
        expect(place.database.query("SELECT subscriptions FROM mcp_sessions").strip() == "garbage", "the row is not changed")
        answers = []

        def lost():
            answers.append(answer := client.echo(place.members[1].port, seconds=30))
            return not answer.is_retry()

        # 503 while the lease of the lost replica runs
        within(15, lost, "another answer than 503 with Retry-After", 0.3)
        found.expect(answers[-1].status == 404, f"a call at another replica is answered {answers[-1]}")
        fresh = Client(place.key).open(place.members[1].port).echo(place.members[1].port)
        found.expect(fresh.result(), f"a call of a new session is answered {fresh}")
    found.tell()
