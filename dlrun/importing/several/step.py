"""One of several launches of a script."""

from __future__ import annotations

from dataclasses import dataclass, field

from dlrun.importing.options import Option
from dlrun.importing.statement import Statement
from dlrun.importing.values import Values


@dataclass(slots=True)
class Step:
    """A launch: its command without options about its place, which are in `place`, and the statements before it."""

    command: Statement
    options: dict[str, Option]
    before: list[Statement]
    values: Values
    background: bool
    pids: set[str] = field(default_factory=set)
    waited: bool = False
    killed: bool = False
