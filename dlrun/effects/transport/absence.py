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

    def bear(self, error: OperationFailed) -> None:
        """Note that it does not answer; raises the error if it has not for too long."""
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > _PATIENCE:
            raise error

    def over(self) -> None:
        """Note that it answers."""
        self._since = None
