"""What happens to replicas in the field, at random: killed, stopped for longer than their lease, cut off from the database;
the database restarted; keys revoked meanwhile. Each time one thing, and then a time of calm."""

import http.client
import random
import socket
import threading
import time

KINDS = {"kill": 3, "pause": 3, "cut": 3, "leave": 2, "failover": 1}
# a lease, and a bit
LONGER_THAN_A_LEASE = (7.5, 11)
CALM = (18, 30)
# by when a revocation is known everywhere
KNOWN_WITHIN = 1.0


class Cable:
    """The connection of one replica to the database, which can be cut: nothing passes, and nobody is told."""

    def __init__(self, to):
        self.to, self.open = to, threading.Event()
        self.open.set()
        # from where it connected to the database
        self.ports = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            self.ports.add(far.getsockname()[1])
            for source, target in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(source, target), daemon=True).start()

    def carry(self, source, target):
        try:
            while data := source.recv(1 << 16):
                self.open.wait()
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.open.clear()

    def mend(self):
        self.open.set()


class Disturber:
    def __init__(self, cluster, seed, tell):
        self.cluster, self.dice, self.tell = cluster, random.Random(f"{seed}/disturb"), tell
        self.counts, self.wrong, self.ended = {kind: 0 for kind in (*KINDS, "revoked")}, [], threading.Event()
        # the moments between which something was disturbed, and their aftermath
        self.since, self.until, self.begun = None, 0, []
        self.threads = [threading.Thread(target=body, daemon=True) for body in (self.disturb, self.revive, self.revoke)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(60)

    def was_disturbed(self, since):
        """True if anything was disturbed after this moment, or a short time before."""
        return self.since is not None or self.until > since

    def disturb(self):
        while not self.ended.wait(self.dice.uniform(*CALM)):
            kind = self.dice.choices(list(KINDS), list(KINDS.values()))[0]
            index = self.dice.randrange(self.cluster.count)
            self.since = time.monotonic()
            self.begun.append(self.since)
            self.counts[kind] += 1
            self.tell(f"disturb: {kind} {index}")
            try:
                getattr(self, kind)(index)
            finally:
                self.until, self.since = time.monotonic() + 15, None

    def kill(self, index):
        self.cluster.members[index].kill()

    def leave(self, index):
        self.cluster.members[index].stop()

    def pause(self, index):
        self.cluster.pause(index)
        self.ended.wait(self.dice.uniform(*LONGER_THAN_A_LEASE))
        self.cluster.resume(index)

    def cut(self, index):
        self.cluster.cables[index].cut()
        self.ended.wait(self.dice.uniform(*LONGER_THAN_A_LEASE))
        self.cluster.cables[index].mend()

    def failover(self, _):
        self.cluster.database.restart()

    def revive(self):
        """Starts again what has ended, as whatever runs gateways does."""
        while not self.ended.wait(0.5):
            for index in range(self.cluster.count):
                if not self.cluster.is_running(index):
                    try:
                        self.cluster.start_member(index)
                    except RuntimeError as error:
                        self.tell(f"disturb: {index} does not start: {str(error)[-300:]}")

    def revoke(self):
        """Nothing that was revoked is alive a second later, at any replica."""
        while not self.ended.wait(self.dice.uniform(1, 4)):
            try:
                key = self.cluster.create_key("revoked", "--direct", "--user", "rev")
                for index in range(self.cluster.count):
                    self.status(index, key)
                self.cluster.cli("keys", "revoke", self.cluster.key_id(key))
            except RuntimeError:
                # the database is away
                continue
            revoked = time.monotonic()
            self.counts["revoked"] += 1
            time.sleep(KNOWN_WITHIN)
            while time.monotonic() < revoked + 4 and not self.ended.is_set():
                for index in range(self.cluster.count):
                    asked = time.monotonic()
                    if self.status(index, key) == 200:
                        self.wrong.append(f"replica {index} let a key in {asked - revoked:.2f} s after it was revoked")
                time.sleep(0.2)

    def status(self, index, key):
        """What a replica says to a key; `None` if it says nothing."""
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.members[index].port, timeout=3)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        body = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"revoked","version":"1"}}}'
        try:
            connection.request("POST", "/mcp", body, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
