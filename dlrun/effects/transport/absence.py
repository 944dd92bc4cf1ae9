"""Limit the waiting for a login node or scheduler that no longer answers."""

from __future__ import annotations

import time

from dlrun.errors import OperationFailed

_PATIENCE = 600.0
"""Maximum seconds without an answer."""


class Absence:
    """The time since which it does not answer."""

    def __init__(self) -> None:
        self._since: float | None = None
        self.since: float | None = None
        """Begin of the absence in seconds since 1970; None while it answers."""

    def bear(self, error: OperationFailed) -> None:
        """Record a failed attempt; raises `error` after `_PATIENCE` seconds of absence."""
        if self._since is None:
            self._since, self.since = time.monotonic(), time.time()
        if time.monotonic() - self._since > _PATIENCE:
            raise error

    def over(self) -> None:
        """Record an answer."""
        self._since = self.since = None
