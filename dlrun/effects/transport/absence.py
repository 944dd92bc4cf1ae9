"""How long to wait for a login node or a scheduler that answered and does so no more."""

from __future__ import annotations

import time

from dlrun.errors import OperationFailed

_PATIENCE = 600.0
"""Seconds after which it is given up."""


class Absence:
    """Since when it does not answer."""

    def __init__(self) -> None:
        self._since: float | None = None
        self.since: float | None = None
        """The same by the clock, in seconds since 1970; None while it answers."""

    def bear(self, error: OperationFailed) -> None:
        """Note that it does not answer; raises the error if it has not for too long."""
        if self._since is None:
            self._since, self.since = time.monotonic(), time.time()
        if time.monotonic() - self._since > _PATIENCE:
            raise error

    def over(self) -> None:
        """Note that it answers."""
        self._since = self.since = None
