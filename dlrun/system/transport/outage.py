"""Limit the wait for a login node or scheduler that no longer answers."""

from __future__ import annotations

import time

from dlrun.errors import OperationFailed

_LONGEST = 600.0
"""Maximum duration of an outage in seconds."""


class Outage:
    """The time since the last answer of a login node or scheduler."""

    def __init__(self) -> None:
        # Two clocks: one that no change of the system time affects, one to show.
        self.began: float | None = None
        """Begin of the outage on `time.monotonic`; None while it answers."""
        self.since: float | None = None
        """Begin of the outage in seconds since 1970; None while it answers."""

    def failed(self, error: OperationFailed) -> None:
        """Record a failed attempt; raises `error` after `_LONGEST` seconds without an answer."""
        if self.began is None:
            self.began, self.since = time.monotonic(), time.time()
        if time.monotonic() - self.began > _LONGEST:
            raise error

    def answered(self) -> None:
        """Record an answer."""
        self.began = self.since = None
