"""A gateway with TLS of its own, as an operator runs it, and a client's way to it."""

import contextlib
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import time
from pathlib import Path

from gateway import Gateway, free_port

NAME = "mcp.example.com"
SECONDS = 60


class Secured(Gateway):
    """With a certificate of `authority`, or of files that the configuration names."""

    def __init__(self, binary, folder, authority=None, names=(NAME,), port=None, plain=None, tls="", top=""):
        self.names, self.plain = list(names), plain or free_port()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [top, "[tls]", f'http_listen = "127.0.0.1:{self.plain}"', tls]
        if authority:
            lines += [f'directory = "{authority.directory}"', f'ca_file = "{authority.pem}"']
        lines += ["[servers.demo]", 'builtin = "demo"']
        config = folder / "lockkeeper.toml"
        config.write_text("\n".join(lines) + "\n")
        super().__init__(binary, config, folder, port or free_port())
        self.secured = True

    def arguments(self):
        return [part for name in self.names for part in ("--domain", name)]

    def start(self, *arguments):
        """Starts, and waits until its commands reach it. There may be no certificate yet."""
        super().start(*self.arguments(), *arguments)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def has_certificate(self, root, name=None):
        with contextlib.suppress(OSError, ssl.SSLError):
            return self.shown(root, name)

    def wait_for_certificate(self, root, other_than=None, name=None):
        end = time.monotonic() + SECONDS
        while (shown := self.has_certificate(root, name)) in (None, other_than):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"no certificate after {SECONDS} s:\n{self.log_text()[-3000:]}")
            time.sleep(0.1)
        return shown

    def shown(self, root, name=None):
        """The serial number of the certificate that a client accepts for the name."""
        context = ssl.create_default_context(cafile=root)
        name = name or self.names[0]
        with socket.create_connection(("127.0.0.1", self.port), 5) as raw, context.wrap_socket(raw, server_hostname=name) as line:
            return line.getpeercert()["serialNumber"]

    def row(self):
        """What the database has of the certificate."""
        with contextlib.closing(sqlite3.connect(self.data / "lockkeeper.sqlite3", timeout=20)) as database:
            database.row_factory = sqlite3.Row
            return dict(database.execute("SELECT * FROM certificates").fetchone() or {})

    def set_due(self):
        """Lets the next order be due at once. For a gateway that does not run."""
        with contextlib.closing(sqlite3.connect(self.data / "lockkeeper.sqlite3", timeout=20)) as database, database:
            database.execute("UPDATE certificates SET due = 0")

    def wait_for_row(self, found, seconds=SECONDS):
        end = time.monotonic() + seconds
        while not found(row := self.row()):
            if time.monotonic() > end:
                raise AssertionError(f"not so after {seconds} s: {row}\n{self.log_text()[-2000:]}")
            time.sleep(0.05)
        return row
