"""Collects decisions with reasons, and problems, while a plan is built; each with its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dlrun.model.origin import BUILT_IN, Decision, Layer, Origin
from dlrun.model.problem import Problem

T = TypeVar("T")


_FLAGS = (Layer.ENVIRONMENT, Layer.FLAG)
_OF_RANKS = ("placement", "resources.ranks", "resources.cpus_per_rank")


def _written(origin: Origin) -> bool:
    """False for a mapping that is absent from the file and was filled with defaults."""
    return origin.line > 0 or origin.layer in _FLAGS


class Ledger:
    """The decisions and problems of a plan while it is built; `origins` maps dotted keys to the places where they were set.

    has_ranks: False for a job whose ranks are those of its roles: warnings at keys of ranks are left out.
    """

    def __init__(
        self, origins: Mapping[str, Origin], notes: Sequence[Problem] = (), *, has_ranks: bool = True
    ) -> None:
        self.origins, self.has_ranks = origins, has_ranks
        self.decisions: list[Decision] = []
        self.problems: list[Problem] = [*notes]

    def origin(self, *keys: str) -> Origin | None:
        """The place of the first of these keys that was set, by user or site; an item falls back to the place of its mapping."""
        for key in keys:
            # An item of a mapping or list may have no place of its own, so its mapping is tried next.
            parts = key.split(".")
            for length in range(len(parts), 0, -1):
                origin = self.origins.get(".".join(parts[:length]))
                if origin is not None and origin.layer is not Layer.BUILT_IN and _written(origin):
                    return origin
        return None

    def given(self, key: str) -> bool:
        """True if this key was set, in contrast to dlrun's default."""
        origin = self.origins.get(key)
        return origin is not None and origin.layer is not Layer.BUILT_IN

    def decide(self, key: str, value: T, rule: str, because: str, *, origin: Origin | None = None) -> T:
        """Record a decision and return its value."""
        self.decisions.append(Decision(key=key, value=value, rule=rule, because=because, origin=origin))
        return value

    def take(self, key: str, value: T) -> T:
        """Record that a value was used as written."""
        origin = self.origins.get(key, BUILT_IN)
        return self.decide(key, value, "as-written", f"{origin.layer}: {origin}", origin=origin)

    def problem(self, code: str, message: str, *keys: str, help: str, warning: bool = False) -> None:
        """Add a problem; the first of `keys` that was set is its place."""
        if warning and not self.has_ranks and keys[0].startswith(_OF_RANKS):
            return
        self.problems.append(
            Problem(code=code, message=message, origin=self.origin(*keys), help=help, warning=warning)
        )
