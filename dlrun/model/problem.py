"""One problem in a user's file, with its place and help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dlrun.errors import Invalid
from dlrun.model.origin import Origin
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Problem:
    """Message, place and help of a problem.

    `code` (`DLR012`) is set for problems documented by `dlrun explain`; `width` is the number of underlined characters; a
    `warning` does not prevent submission.
    """

    message: str
    origin: Origin | None = None
    code: str = ""
    help: str = ""
    width: int = 1
    warning: bool = False


MAX_PROBLEMS = 100
"""Maximum number of problems that are printed at once."""


class InvalidFile(Invalid):
    """One or more problems in a user's file, all of them, sorted by place."""

    def __init__(self, problems: Sequence[Problem], sources: dict[str, str] | None = None) -> None:
        self.problems = tuple(sorted(_once(problems), key=by_place))
        self.sources = sources or {}
        super().__init__(self.problems[0].message, help=self.problems[0].help or None)


def _once(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, with the number of occurrences: all points of a sweep have the same command."""
    counts = Counter(problems)
    return [
        problem if count == 1 else replace(problem, message=f"{problem.message} ({count:,} times)")
        for problem, count in counts.items()
    ]


def by_place(problem: Problem) -> tuple[str, int, int]:
    """Sorting key: file, line, column; problems without a place come last."""
    origin = problem.origin
    return (origin.name, origin.line, origin.column) if origin else ("~", 0, 0)
