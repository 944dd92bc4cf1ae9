"""Report the progress of a copy: text lines at intervals on stderr, or JSON lines on stdout.

In a job the text lines go to the log; the JSON lines are also appended to the file $DLRUN_STAGE_EVENTS.
"""

import json
import os
import sys
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

from . import text
from .safety import for_this_user

FIRST = 2.0  # seconds before the first line: a short copy reports only its end
VERSION = 1  # of the JSON lines


class Totals(NamedTuple):
    """Bytes and files to be copied, and those copied so far."""

    bytes: int
    files: int
    bytes_done: int
    files_done: int


class Progress:
    """Reports one data set: `json_lines` on stdout, else text on stderr each `interval` (s); `quiet`: only the end."""

    def __init__(self, name: str, json_lines: bool, quiet: bool, interval: float) -> None:
        self._name, self._json, self._quiet, self._interval = name, json_lines, quiet, interval
        self._events = os.environ.get("DLRUN_STAGE_EVENTS")
        self._drawn = "DLRUN_STAGE_BAR" in os.environ  # the reader of the events draws a progress bar
        self._began = time.monotonic()
        self._next = self._began + min(FIRST, interval)

    def event(self, what: str, **details: Any) -> None:
        """Write one JSON line to stdout (--json) and to $DLRUN_STAGE_EVENTS, if set."""
        line = json.dumps(dict(details, version=VERSION, event=what, name=self._name), sort_keys=True) + "\n"
        if self._json:
            sys.stdout.write(line)
            sys.stdout.flush()
        if self._events:
            with open(self._events, "a", encoding="ascii", opener=for_this_user) as file:
                file.write(line)

    def log(self, line: str) -> None:
        """Write one text line to stderr, except with --json or --quiet."""
        if not self._json and not self._quiet:
            sys.stderr.write("{}: {}\n".format(self._name, line))
            sys.stderr.flush()

    def update(
        self, totals: Callable[[], Totals], last: Optional[Callable[[], Dict[str, Any]]] = None
    ) -> None:
        """Report if the interval has passed; in a copy by several nodes `last` returns the node with the least data."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._interval
        counts = totals()
        seconds = now - self._began
        rate = counts.bytes_done / seconds
        left = (counts.bytes - counts.bytes_done) / rate if rate else 0.0
        self.event(
            "progress",
            seconds=round(seconds, 3),
            rate=round(rate),
            left=round(left, 1),
            **counts._asdict(),
            **({"last": last()} if last is not None else {}),
        )
        if self._drawn:
            return
        percent = 100.0 * counts.bytes_done / counts.bytes if counts.bytes else 100.0
        self.log(
            ", ".join(
                [
                    "{:.0f} %".format(percent),
                    "{} of {}".format(text.size(counts.bytes_done), text.size(counts.bytes)),
                    "{:,} of {}".format(counts.files_done, text.count(counts.files, "file")),
                    "{}/s".format(text.size(rate)),
                ]
                + (["{} left".format(text.seconds(left))] if rate else [])
            )
        )

    def unpacking(self, read: int, archive: int, written: int, files: int) -> None:
        """Report an archive that is being unpacked: bytes of it that are read, of all; bytes and files written so far."""
        self.event("unpacking", read=read, archive=archive, bytes=written, files=files)
        percent = 100.0 * read / archive if archive else 100.0
        line = "unpacking: {:.0f} % of {}, so far {} in {}"
        self.log(line.format(percent, text.size(archive), text.size(written), text.count(files, "file")))

    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began
