"""Common log of the servers in a soak, one line for each call, to detect a call that runs twice.

`ran OWNER` begins a call; `ran OWNER/LEG` goes on with one that was ended with a question; `finished OWNER` and `cancelled OWNER`
end it. `WRONG` is something that a server must never be told.
"""

import os


class Ledger:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *words):
        os.write(self.file, (" ".join(words) + "\n").encode())
