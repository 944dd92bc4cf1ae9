"""A scheduler's job id as a user may have it, in the form of records: some clients print several forms."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from dlrun import backends
from dlrun.errors import DlrunError


def recorded(word: str, schedulers: Iterable[str]) -> list[str]:
    """The ids that a word may be in the records of these schedulers; a scheduler that is not installed has none."""
    ids = []
    for name in sorted(schedulers):
        with suppress(DlrunError):
            ids.append(backends.scheduler(name).recorded(word))
    return [job_id for job_id in ids if job_id is not None]
