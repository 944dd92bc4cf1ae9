"""Wait until a role is ready.

    python3 ready.py CHECK       until the role is ready; each answer replaces the one before on standard output

CHECK is JSON: `ready` as in roles.json, `host`, `port`, `directory`, that of the role, and `before`, what was there before
its start. `ready` is {"port": true}: the port accepts connections; {"http": PATH, "status": 200}: a request has this status;
{"log": TEXT}: a rank has written a line with it; {"file": PATH}: this file is there, and newer than the start. It is a process
of its own, for names of hosts are looked up and files are read by calls that may hang.
"""

import contextlib
import glob
import json
import os
import socket
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

ATTEMPT = 5.0
"""Maximum seconds of one attempt to connect, or of one HTTP request."""
LONGEST = 1.0
"""Maximum seconds between two attempts."""
CHUNK = 1 << 20
"""Maximum bytes of a log that are read at a time."""


class Check:
    """What makes a role ready, and how far its logs have been read."""

    def __init__(self, check: Dict[str, Any]) -> None:
        self.ready = check["ready"]
        self.host, self.port = check["host"], int(check.get("port") or 0)
        self.directory = str(check["directory"])
        before = check.get("before")
        # From before the start of the role: what it has written by the time that this program begins does count.
        self.before: Any = before
        self.read: Dict[str, Tuple[int, bytes]] = {}
        if self.ready.get("log"):
            self.read = {path: (size, b"") for path, size in (before or {}).items()}

    def look_before(self) -> Any:
        """What of an earlier start does not count: the sizes of the logs, or what marks the file; for `before`."""
        if self.ready.get("log"):
            return {path: os.path.getsize(path) for path in self.logs()}
        return self.mark() if self.ready.get("file") else None

    def ask(self) -> str:
        """Empty if the role is ready, else why not.

        Raises:
            OSError: the host does not answer, or a file cannot be read.
        """
        if self.ready.get("http"):
            return self.http()
        if self.ready.get("log"):
            return self.log()
        if self.ready.get("file"):
            now = self.mark()
            if now is None or now == self.before:
                return "{} {}".format(
                    self.path(), "is not there" if now is None else "is from before its start"
                )
            return ""
        with socket.create_connection((self.host, self.port), ATTEMPT) as link:
            # A connection from a port to itself, which Linux can make where nothing listens.
            return "connection refused" if link.getsockname() == link.getpeername() else ""

    def http(self) -> str:
        """One request; redirects are not followed, and of the answer only the first line counts."""
        wanted, deadline = int(self.ready.get("status") or 200), time.monotonic() + ATTEMPT
        request = "GET {} HTTP/1.1\r\nHost: {}:{}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        with socket.create_connection((self.host, self.port), ATTEMPT) as link:
            link.sendall(request.format(self.ready["http"], self.host, self.port).encode("utf-8"))
            answer = b""
            while b"\n" not in answer and len(answer) < 4096:
                link.settimeout(max(0.01, deadline - time.monotonic()))
                part = link.recv(4096)
                if not part:
                    break
                answer += part
        words = answer.split(b"\n")[0].decode("latin-1").split()
        if len(words) < 2 or not words[0].startswith("HTTP/"):
            return "no HTTP answer to {}".format(self.ready["http"])
        return "" if words[1] == str(wanted) else "HTTP status {} for {}".format(words[1], self.ready["http"])

    def log(self) -> str:
        """Read what the ranks have written since the last look."""
        text, paths = self.ready["log"].encode("utf-8"), self.logs()
        for path in paths:
            offset, rest = self.read.get(path, (0, b""))
            with open(path, "rb") as stream:
                stream.seek(offset)
                chunk = stream.read(CHUNK)
                while chunk:
                    if text in rest + chunk:
                        return ""
                    rest = (rest + chunk)[-len(text) :]
                    chunk = stream.read(CHUNK)
                self.read[path] = stream.tell(), rest
        return "no line with '{}' in {} logs".format(self.ready["log"], len(paths))

    def logs(self) -> List[str]:
        """The logs of the ranks."""
        place = os.path.join(glob.escape(self.directory), "logs")
        paths = glob.glob(os.path.join(place, "*-*.log")) + glob.glob(os.path.join(place, "*", "*-*.log"))
        return [path for path in paths if not os.path.basename(path).startswith("stage-")]

    def path(self) -> str:
        """The file that makes the role ready."""
        return os.path.join(self.directory, str(self.ready["file"]))

    def mark(self) -> Optional[List[int]]:
        """What changes if the file is written once more; None without it."""
        try:
            status = os.stat(self.path())
        except FileNotFoundError:
            return None
        return [status.st_ino, status.st_mtime_ns, status.st_size]


def wait(check: Check) -> int:
    """Ask until the role is ready."""
    pause, shown = 0.05, ""
    while True:
        try:
            answer = check.ask()
        except socket.timeout:
            answer = "no answer within {:g} s".format(ATTEMPT)
        except OSError as error:
            answer = (error.strerror or str(error)).lower()
        if not answer:
            return 0
        if answer != shown:
            shown = answer
            show(answer)
        time.sleep(pause)
        pause = min(LONGEST, pause * 1.2)


def show(answer: str) -> None:
    """Replace the answer on standard output, a file: its first line, in one call, for it may be read at any moment."""
    text = "".join(letter if letter.isprintable() else "?" for letter in answer)[:300].encode("utf-8")
    with contextlib.suppress(OSError):
        os.pwrite(1, text + b"\n", 0)


if __name__ == "__main__":
    sys.exit(wait(Check(json.loads(sys.argv[1]))))
