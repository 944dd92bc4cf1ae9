"""Steps of a training in a log: after an error that some of them follow, the program has continued."""

from __future__ import annotations

import re

_STEP = re.compile(
    r"(?i:\b(?:step|iter(?:ation)?|epoch|batch|update)s?\b[\]:=#\s/|]{0,4}\[?\s*(\d+)\b.*\b(?:loss|lr|ppl|perplexity|acc(?:uracy)?)\b)"
    r"|^\W*\{'(?:train_)?loss': (\S+)"
)
"""A step with what it has computed, as trainers print it."""
_OTHERS = 2
"""Steps that other ranks may still compute after the error of one."""


class Steps:
    """The steps among lines of a log that were seen so far."""

    def __init__(self) -> None:
        self._numbers: set[str] = set()

    @property
    def seen(self) -> bool:
        """Whether there was any."""
        return bool(self._numbers)

    def are_many(self, line: str) -> bool:
        """Whether the program has continued, now that this line was seen, too."""
        if (step := _STEP.search(line)) is not None:
            self._numbers.add(step[1] or step[2])
        return len(self._numbers) > _OTHERS
