"""The draft of an imported spec: values by dotted key, and lines left out with reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dlrun.model.text import digits


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line of the batch script that is not in the spec, with the reason."""

    line: int
    text: str
    because: str


@dataclass(slots=True)
class SpecDraft:
    """Values nested as in a spec; `counts` are numbers of the script, converted to keys once all are known."""

    values: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    loop: int | None = None
    """Line of the loop or condition that contains the training, if no simple command starts it."""

    def put(self, key: str, value: Any, comment: str = "") -> None:
        """Set a dotted key unless it is set: directives are read before the body, and have priority."""
        *path, last = key.split(".")
        place = self.values
        for name in path:
            place = place.setdefault(name, {})
        place.setdefault(last, value)
        if comment:
            self.comments.setdefault(key, comment)

    def add(self, key: str, *items: Any) -> None:
        """Append to the list under a dotted key."""
        *path, last = key.split(".")
        place = self.values
        for name in path:
            place = place.setdefault(name, {})
        place.setdefault(last, []).extend(items)

    def get(self, key: str) -> Any:
        """The value under a dotted key, or None."""
        place: Any = self.values
        for name in key.split("."):
            place = place.get(name) if isinstance(place, dict) else None
        return place

    def leave(self, line: int, text: str, because: str) -> None:
        """Record a line, or a part of one, that is left out."""
        self.left_out.append(LeftOut(line, text, because))

    def count(self, name: str, text: str) -> bool:
        """Record a number; False if the text is not one."""
        if not digits(text):
            return False
        self.counts.setdefault(name, int(text))
        return True
