"""The addresses that attackers and other clients connect from, as the gateway sees them.

    loopback   127.0.0.0/8
    network    198.18.0.0/15 (RFC 2544), not loopback; exists only in the network namespace of the suite
    proxy      connections from 127.0.0.1, which is a trusted proxy; `X-Forwarded-For` names 198.18.0.0/15

An attack comes from `one` address or from `many`. Attackers and other clients have different addresses, unless the attack
says otherwise.
"""

import functools
import os
import ssl
from dataclasses import dataclass

KINDS = ("loopback", "network", "proxy")
SPREADS = ("one", "many")
MANY = 1000
# the address of the gateway for `network`
NETWORK_SERVER = "198.19.255.254"
NETWORK = "198.18.0.0/15"
PUBLIC = "gateway.test"
# the certificate of a gateway that is attacked over TLS
TLS = "LOCKKEEPER_HOSTILE_TLS"


@functools.cache
def trusting():
    """How clients shake hands: None over plain HTTP."""
    pem = os.environ.get(TLS)
    return ssl.create_default_context(cafile=pem) if pem else None


def secured(target):
    """The arguments of `create_connection` for TLS, if the gateway speaks it."""
    return {"ssl": trusting(), "server_hostname": target.authority, "ssl_handshake_timeout": 20} if trusting() else {}


@dataclass(frozen=True)
class Target:
    """The address to connect to, and the authority of the requests."""

    host: str
    port: int
    authority: str = PUBLIC

    @classmethod
    def of(cls, kind, port):
        return cls(NETWORK_SERVER if kind == "network" else "127.0.0.1", port)


@dataclass(frozen=True)
class Source:
    """The address that a connection is bound to, and the client address that a proxy forwards, if any."""

    bind: str
    forwarded: str | None = None

    @classmethod
    def attacker(cls, kind, number=0):
        return cls.of(kind, {"loopback": 16, "network": 18, "proxy": 18}[kind], number)

    @classmethod
    def client(cls, kind, number=0):
        return cls.of(kind, {"loopback": 9, "network": 19, "proxy": 19}[kind], number)

    @classmethod
    def of(cls, kind, second, number):
        tail = f"{number // 250 % 250}.{number % 250 + 1}"
        if kind == "loopback":
            return cls(f"127.{second}.{tail}")
        if kind == "network":
            return cls(f"198.{second}.{tail}")
        return cls("127.0.0.1", f"198.{second}.{tail}")


def attackers(kind, spread):
    """The sources of an attack."""
    return [Source.attacker(kind, number) for number in range(MANY if spread == "many" else 1)]
