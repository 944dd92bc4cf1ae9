"""The draft of an imported spec: values by dotted key, what is not converted, and what the user has to check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dlrun.model.text import digits


@dataclass(frozen=True, slots=True)
class Left:
    """A line of the batch script, or a part of one, that is not in the spec, with the reason."""

    line: int
    text: str
    because: str


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of a program that the script starts; `gpus_per_node` is None where the script has no number of them."""

    nodes: int
    ranks: int
    ranks_per_node: int
    gpus_per_node: int | None


@dataclass(slots=True)
class SpecDraft:
    """Values nested as in a spec; `counts` are numbers of the script, converted to keys once all are known."""

    values: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    line: int = 0
    """The line of the script that is read; 0 where values come from no single line."""
    origins: dict[str, list[int]] = field(default_factory=dict)
    """Dotted key, or `count` and the name of a number -> the lines that it comes from."""
    left_out: list[Left] = field(default_factory=list)
    """What the job does not need, because dlrun does it or it has no effect on the training."""
    to_check: list[Left] = field(default_factory=list)
    """What may make the job differ from the script: the import of such a script is a draft."""
    counts: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Text of an option -> why the user has to look at it, until it is recorded."""
    tasks: tuple[int, ...] = ()
    """Indexes of the job array."""
    at_once: int | None = None
    index_names: tuple[str, ...] = ()
    """The scheduler's variables with the index of an array's task."""
    anywhere: tuple[str, ...] = ()
    """The profile that stands for any site of the script's scheduler, and settings that it needs; empty: there is none."""
    sizes: dict[str, Size] = field(default_factory=dict)
    """Role -> its numbers, the plan must have the same; an empty name is that of the only program."""
    first_part_only: bool = False
    """The job is heterogeneous, and the directives that follow are those of another part."""
    starts_in_submit_directory: bool = True
    """Where the scheduler starts the script, unless it changes its directory."""
    of_role: bool = False
    """Of one of several programs: names of nodes are markers in its values."""
    inherits_environment: bool = False
    """The script wants the variables of the submitting shell, from a scheduler that does not pass them by itself."""

    def put(self, key: str, value: Any, comment: str = "") -> None:
        """Set a dotted key unless it is set: directives are read before the body, and have priority."""
        *path, last = key.split(".")
        place = self.values
        for name in path:
            place = place.setdefault(name, {})
        if last not in place:
            place[last] = value
            self.came_from(key)
        if comment:
            self.comments.setdefault(key, comment)

    def add(self, key: str, *items: Any) -> None:
        """Append to the list under a dotted key."""
        *path, last = key.split(".")
        place = self.values
        for name in path:
            place = place.setdefault(name, {})
        place.setdefault(last, []).extend(items)
        self.came_from(key)

    def came_from(self, key: str, line: int = 0) -> None:
        """Note the line that a key comes from: the one that is read, if no other is given."""
        line = line or self.line
        if line and line not in self.origins.setdefault(key, []):
            self.origins[key].append(line)

    def get(self, key: str) -> Any:
        """The value under a dotted key, or None."""
        place: Any = self.values
        for name in key.split("."):
            place = place.get(name) if isinstance(place, dict) else None
        return place

    def leave(self, line: int, text: str, because: str) -> None:
        """Record what is left out because the job does not need it."""
        self.left_out.append(Left(line, text, because))

    def check(self, line: int, text: str, because: str, key: str = "") -> None:
        """Record what the user has to check; `key`: the key of the spec at which it stands."""
        entry = Left(line, text, because)
        if entry not in self.to_check:
            self.to_check.append(entry)
        if key:
            before = self.comments.get(key)
            mark = f"check this: {because}"
            self.comments[key] = f"{before}\n{mark}" if before and mark not in before else mark

    def count(self, name: str, text: str) -> bool:
        """Record a number; False if the text is not one."""
        if not digits(text):
            return False
        if name not in self.counts:
            self.counts[name] = int(text)
            self.came_from(f"count {name}")
        return True
