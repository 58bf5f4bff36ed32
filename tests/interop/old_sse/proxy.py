"""A TCP proxy before the gateway, for connections that are lost on their way."""

import asyncio
import contextlib
import threading


class Proxy:
    """Listens at one port and forwards to another. Runs in a thread of its own."""

    def __init__(self, port, target):
        self.port, self.target = port, target
        self.loop, self.writers = asyncio.new_event_loop(), set()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.call(asyncio.start_server(self.forward, "127.0.0.1", port, backlog=512))

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    async def forward(self, reader, writer):
        """Carries one connection. Without a gateway behind it the client sees its connection closed."""
        writers = [writer]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(far_writer)
            self.writers.update(writers)
            await asyncio.gather(self.copy(reader, far_writer), self.copy(far_reader, writer))
        except OSError:
            pass
        finally:
            self.writers.difference_update(writers)
            for end in writers:
                end.close()

    @staticmethod
    async def copy(reader, writer):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def cut(self):
        """Cuts every open connection at both ends. New ones are accepted at once."""

        async def abort():
            found = list(self.writers)
            for writer in found:
                writer.transport.abort()
            return len(found) // 2

        return self.call(abort())
