"""Steps of a training in a log: after an error that some of them follow, the program has continued."""

from __future__ import annotations

import re

_NUMBERS = (
    r"(?P<{}>\d+\b(?!\.\d)(?:[\s\]:(%)]{{0,8}}[\[/]\s{{0,8}}\d+\b(?![.\d])|[\s:]{{1,8}}\d+(?=\s{{0,4}}/\s{{0,8}}\d)"
    r"|[\s,:|-]{{0,4}}(?:step|iter(?:ation)?|batch)s?\b[\s:=#\[]{{0,8}}\d+\b)*)"
)
"""The number of a step, and what is counted beside it: that of the epoch and how many there are."""
_RESULT = r"(?<![a-zA-Z])(?:loss|lr|ppl|perplexity|acc(?:uracy)?)\b"
_STEP = re.compile(
    rf"(?i:(?<![a-zA-Z])(?:step|iter(?:ation)?|epoch|batch|update|train)s?\b(?:\(\w+\))?[\]:=#\s/|]{{0,4}}\[?\s*"
    rf"{_NUMBERS.format('step')}.*{_RESULT})"
    r"|^\W*\{'(?:train_)?loss': (?P<loss>\S+)"
)
"""A step with what it has computed, as trainers print it."""
_COUNT = re.compile(
    rf"(?i:^.{{0,60}}?(?<![a-zA-Z])(?:step|iter(?:ation)?|epoch)s?\b[\]:=#\s/|]{{0,4}}\[?\s*{_NUMBERS.format('count')})"
    r"|(?i:^\W*batch=(?P<batch>\d+)/\d+\W*$)"
)
"""A step by its number alone."""
_BAR = re.compile(
    r"^\W*(?:(?i:(?:train|epoch|step|iter)[^|]{0,40}):?)?\s*\d+%\|.*?(?P<bar>\d+)/\d+ \[\d\d:\d\d"
    r"|^\W*(?P<of>\d+)/\d+ (?:\[[=>.]|━)"
)
"""A part of a progress bar of a training, of tqdm or Keras; what loads something has other names."""
_ABOUT_AN_ERROR = re.compile(
    r"(?i:error|fail|fatal|abort|exception|killed|signal|unable|cannot|could not|resum|restor|load)"
)
"""What has the number of a step, and is not one."""
_OTHERS = 2
"""Steps that other ranks may still compute after the error of one."""


class Steps:
    """The steps among lines of a log that were seen so far."""

    def __init__(self) -> None:
        self._results: set[str] = set()
        self._counts: set[str] = set()

    @property
    def seen(self) -> bool:
        """Whether there was any with a result: a bar may be drawn once more as a program ends."""
        return bool(self._results)

    def are_many(self, line: str) -> bool:
        """Whether the program has continued, now that this line was seen, too."""
        if (bar := _BAR.search(line)) is not None:
            self._counts.add(_number(bar))
        elif (step := _STEP.search(line)) is not None:
            self._results.add(_number(step))
        elif (count := _COUNT.search(line)) is not None and not _ABOUT_AN_ERROR.search(line):
            self._counts.add(_number(count))
        return max(len(self._results), len(self._counts)) > _OTHERS


def _number(match: re.Match[str]) -> str:
    """The number of a step."""
    return " ".join(next(value for value in match.groups() if value).split())
