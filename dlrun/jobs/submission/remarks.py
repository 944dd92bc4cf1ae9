"""What a scheduler's client prints beside the job id when it accepts a job: remarks of a submission plug-in or a wrapper."""

from __future__ import annotations

from contextlib import suppress

from dlrun.errors import DlrunError
from dlrun.schedulers.protocol import Scheduler
from dlrun.system.process import Completed

_MOST = 20
"""Lines that are kept."""
_LONGEST = 300
"""Characters of a line that are kept."""


def remarks(scheduler: Scheduler, done: Completed) -> list[str]:
    """The lines of an accepted submission or check that are neither the job id nor the expected start."""
    found = []
    for line in f"{done.stderr}\n{done.stdout}".splitlines():
        text = "".join(letter for letter in line if letter.isprintable()).strip()
        text = text.removeprefix(f"{scheduler.CLIENT}: ")
        if text and not _is_result(scheduler, text):
            found.append(text[:_LONGEST])
    return list(dict.fromkeys(found))[:_MOST]


def _is_result(scheduler: Scheduler, line: str) -> bool:
    if scheduler.estimate(line) is not None or scheduler.cluster(line) is not None:
        return True
    with suppress(DlrunError):
        scheduler.submitted(line)
        return True
    return False
