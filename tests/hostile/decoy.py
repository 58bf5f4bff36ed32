"""The target of an attacker in a run that attacks nothing: accepts every connection, answers every request with a few bytes.

The latency of clients beside an attack is compared with their latency beside the same attacker at work on the decoy.
"""

import asyncio
import os
import resource
import ssl
import sys
from pathlib import Path

from sources import TLS

ANSWER = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}"


class Decoy(asyncio.Protocol):
    def __init__(self):
        self.last = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        text = self.last + data
        whole = text.count(b"\r\n\r\n")
        self.last = text[-3:] if not text.endswith(b"\r\n\r\n") else b""
        if whole and not self.transport.is_closing() and self.transport.get_write_buffer_size() < 1 << 20:
            self.transport.write(ANSWER * whole)


async def main(port):
    context = None
    if pem := os.environ.get(TLS):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem, Path(pem).with_suffix(".key"))
    server = await asyncio.get_running_loop().create_server(Decoy, "127.0.0.1", port, backlog=1024, ssl=context)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(int(sys.argv[1])))
