"""The real servers behind the gateway: how each is started, and the configuration that names them all."""

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from gateway import free_port


@dataclass
class Server:
    id: str
    command: str = ""
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    url: str = ""
    share: str = ""
    era: str = ""
    # with replicas: where what several clients share is in its process
    home: str = ""

    def toml(self):
        lines = [f"[servers.{self.id}]"]
        if self.url:
            lines.append(f"url = {json.dumps(self.url)}")
        else:
            lines += [f"command = {json.dumps(self.command)}", f"args = {json.dumps(self.args)}"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in (("share", self.share), ("era", self.era), ("home", self.home)) if value]
        if self.env:
            lines.append("env = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.env.items()) + " }")
        return "\n".join(lines) + "\n"


def stdio(modules, python, work):
    """The seven, each as a child on pipes."""
    npm, pypi = Path(modules) / ".bin", Path(python).parent
    memory = {"MEMORY_FILE_PATH": str(work / "memory.jsonl")}
    return [
        Server("everything", str(npm / "mcp-server-everything"), ["stdio"], home="one"),
        Server("filesystem", str(npm / "mcp-server-filesystem"), [str(work / "files")]),
        Server("memory", str(npm / "mcp-server-memory"), env=memory, home="one"),
        Server("thinking", str(npm / "mcp-server-sequential-thinking")),
        Server("fetch", str(pypi / "mcp-server-fetch"), ["--allow-private-ips"]),
        Server("git", str(pypi / "mcp-server-git"), ["--repository", str(work / "repository")]),
        Server("time", str(pypi / "mcp-server-time"), ["--local-timezone", "Etc/UTC"]),
    ]


def everything_over_http(modules, log, environment):
    """One more server-everything, over Streamable HTTP: the process and where it listens."""
    port = free_port()
    command = [str(Path(modules) / ".bin" / "mcp-server-everything"), "streamableHttp"]
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**environment, "PORT": str(port)},
        )
    end = time.monotonic() + 60
    while b"listening" not in Path(log).read_bytes():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"server-everything does not listen:\n{Path(log).read_text()[-1000:]}")
        time.sleep(0.05)
    return process, Server("everything-http", url=f"http://127.0.0.1:{port}/mcp", home="one")


def files(work):
    """What the servers serve: a folder, and a repository of one commit."""
    (work / "files").mkdir()
    repository = work / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=Interop", "-c", "user.email=interop@example.com"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "log.txt").write_text("one boat\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--no-gpg-sign", "-m", "The first boat"], check=True)
