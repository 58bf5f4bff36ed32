"""Memory, descriptors and disk of the gateway. Knows the process by its id alone."""

import asyncio
import os
from pathlib import Path

MIB = 1 << 20


class Usage:
    """Samples a process ten times a second, and keeps the maximum."""

    def __init__(self, pid, data):
        self.pid, self.data, self.peak, self.task = pid, Path(data), {}, None

    def now(self):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":\t" in line)
        disk = sum(file.stat().st_size for file in self.data.rglob("*") if file.is_file())
        return {
            "mib": round(int(status["VmRSS"].split()[0]) / 1024, 1),
            "descriptors": len(os.listdir(f"/proc/{self.pid}/fd")),
            "disk": round(disk / MIB, 1),
        }

    def maximum(self):
        """The maximum since `start`; the kernel keeps the one of memory."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        exact = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
        return {**self.peak, "mib": round(max(self.peak["mib"], exact), 1)}

    def start(self):
        try:
            # proc(5): 5 resets the peak resident set size
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        except OSError:
            pass
        self.peak = self.now()
        self.task = asyncio.ensure_future(self.sample())

    async def sample(self):
        while True:
            await asyncio.sleep(0.1)
            try:
                now = self.now()
            except (OSError, KeyError):
                return
            self.peak = {name: max(value, self.peak[name]) for name, value in now.items()}

    def stop(self):
        self.task.cancel()
