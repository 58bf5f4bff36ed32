"""A client over stdio at a bridge to HTTP+SSE: `bridge_client.py COMMAND…`. The login of a bridge is the URL that it prints."""

import json
import queue
import re
import subprocess
import sys
import threading
import urllib.request

import frame
from case import walk

LOGIN = re.compile(r"https?://\S+[?&]response_type=code\S*(?=\s)")


class Bridge:
    def __init__(self, command):
        self.command, self.process, self.logins, self.calls = command, None, 0, 0

    def connect(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        self.answers = queue.Queue()
        threading.Thread(target=self.read, args=(self.process, self.answers), daemon=True).start()
        threading.Thread(target=self.watch, args=(self.process,), daemon=True).start()
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old-bridge", "version": "1"}}
        self.request("initialize", hello, frame.CONNECT_SECONDS)
        self.write({"method": "notifications/initialized"})

    @staticmethod
    def read(process, answers):
        for line in process.stdout:
            if line.startswith("{"):
                answers.put(json.loads(line))
        answers.put(None)

    def watch(self, process):
        """Copies stderr to the log, and walks the first login that it names."""
        said = ""
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            said += line
            if frame.WAY == "login" and (found := LOGIN.search(said)):
                said, self.logins = "", self.logins + 1
                urllib.request.urlopen(walk(found.group()), timeout=20).read()

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def request(self, method, params, seconds):
        self.calls += 1
        number = self.calls
        self.write({"id": number, "method": method, "params": params})
        while True:
            try:
                message = self.answers.get(timeout=seconds)
            except queue.Empty:
                raise TimeoutError(f"no answer within {seconds} s") from None
            if message is None:
                raise frame.Ended("the bridge ended")
            if message.get("id") == number and "method" not in message:
                break
        if "error" in message:
            raise RuntimeError(json.dumps(message["error"]))
        return message["result"]

    def call(self, text):
        return self.request("tools/call", {"name": frame.TOOL, "arguments": {"text": text}}, frame.SECONDS)["content"][0]["text"]

    def leave(self):
        self.process.kill()
        self.process.wait()


frame.serve_blocking(Bridge(sys.argv[1:]))
