"""What the servers of a soak write down together, one line each, so that a call that runs twice is found whoever ran it.

`ran OWNER` begins a call; `ran OWNER/LEG` goes on with one that was ended with a question; `finished OWNER` and `cancelled OWNER`
end it. `WRONG` is something that a server must never be told.
"""

import os


class Ledger:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *words):
        os.write(self.file, (" ".join(words) + "\n").encode())
