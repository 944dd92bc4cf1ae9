"""How long to bear with a login node that was there and is gone."""

from __future__ import annotations

import time

from dlrun.effects.transport.protocol import TransportFailed

_PATIENCE = 600.0
"""Seconds after which it is given up."""


class Absence:
    """What is known about a login node being gone."""

    def __init__(self) -> None:
        self._since: float | None = None

    def bear(self, error: TransportFailed) -> None:
        """Note that it is gone; raises the error if it has been for too long."""
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > _PATIENCE:
            raise error

    def over(self) -> None:
        """Note that it is there."""
        self._since = None
