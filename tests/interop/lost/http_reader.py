"""Reads HTTP/1.1 messages out of the bytes of one direction of a connection, as they pass. Knows framing, and nothing of MCP."""


class HttpReader:
    """Calls `head(line, headers)` for each message, `body(bytes)` for what it carries and `end()` after it. `head` says whether
    the message has a body; header names are in lower case."""

    def __init__(self, head, body, end):
        self.head, self.body, self.end = head, body, end
        self.buffer, self.left, self.step = b"", 0, self.read_head

    def feed(self, chunk):
        self.buffer += chunk
        while self.step():
            pass

    def line(self, separator=b"\r\n"):
        """What stands before a separator, or None while that has not come."""
        found, mark, rest = self.buffer.partition(separator)
        if not mark:
            return None
        self.buffer = rest
        return found

    def read_head(self):
        head = self.line(b"\r\n\r\n")
        if head is None:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines]
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if not self.head(first, headers):
            self.finish()
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self.step = self.read_size
        elif "content-length" in headers:
            self.left, self.step = int(headers["content-length"]), self.read_length
        elif first.startswith("HTTP/"):
            self.step = self.read_rest
        else:
            self.finish()
        return True

    def finish(self):
        self.step = self.read_head
        self.end()

    def take(self):
        """Hands on what is there of `left` bytes; whether that was all of them."""
        part, self.buffer = self.buffer[: self.left], self.buffer[self.left :]
        self.left -= len(part)
        if part:
            self.body(part)
        return self.left == 0

    def read_length(self):
        if not self.take():
            return False
        self.finish()
        return True

    def read_size(self):
        line = self.line()
        if line is None:
            return False
        self.left = int(line.partition(b";")[0], 16)
        self.step = self.read_chunk if self.left else self.read_trailer
        return True

    def read_chunk(self):
        if not self.take():
            return False
        self.step = self.read_chunk_end
        return True

    def read_chunk_end(self):
        if self.line() is None:
            return False
        self.step = self.read_size
        return True

    def read_trailer(self):
        line = self.line()
        if line is None:
            return False
        if not line:
            self.finish()
        return True

    def read_rest(self):
        """A body that lasts as long as the connection."""
        if self.buffer:
            self.body(self.buffer)
            self.buffer = b""
        return False
