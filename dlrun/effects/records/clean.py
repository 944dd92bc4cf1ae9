"""Find and remove directories of ended jobs, by age and size."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dlrun.effects.records import jobs, links
from dlrun.effects.records.jobs import Job
from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration

_OWN = re.compile(
    r"lib|logs|points|failures|ended|stacks|hosts|hosts-first|bad-nodes|job-id|files|rendezvous|environment|nodes|abort|dump|idle|kept|usage"
    r"|stage-secret|(?:hostfile|in-place)-.*|.*\.(?:sh|json|jsonl|yaml|pyz|py|log)"
)
"""Names that dlrun, the job script and the scheduler create in a job directory."""

_OF_A_JOB = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""The end of a job directory's default name."""


@record(frozen=True, slots=True, kw_only=True)
class Removable:
    """The directory of an ended job: seconds since its last change, and its size.

    foreign: names not created by dlrun, such as checkpoints in `{{ run_dir }}`.
    """

    job: Job
    age: Duration
    size: Bytes
    foreign: tuple[str, ...]


def removable(
    found: Sequence[Job], states: Mapping[Path, Sequence[JobStatus]], *, older: Duration, larger: Bytes
) -> Iterator[Removable]:
    """The ended jobs with at least the age `older` and the size `larger`."""
    for job in found:
        runs = states.get(job.directory, ())
        # A job whose submission was interrupted may still be queued.
        if job.damage is not None or job.submitting or not all(one.state.final for one in runs):
            continue
        size, changed = _measure(job.directory)
        age = Duration(max(0, int(time.time() - changed)))
        if age >= older and size >= larger:
            yield Removable(job=job, age=age, size=size, foreign=tuple(_foreign(job)))


def remove(one: Removable) -> None:
    """Remove a job's directory and its link; raises OperationFailed if a file cannot be removed."""
    try:
        shutil.rmtree(one.job.directory)
    except OSError as error:
        raise OperationFailed(f"cannot remove `{error.filename}`: {error.strerror}") from None
    links.forget(jobs.home(), one.job.directory)


def _is_ours(link: str, directory: str) -> bool:
    """Whether `links.enter` gives a link to that directory this name."""
    return _OF_A_JOB.search(directory) is not None or link.endswith(f"-{directory}")


def forget_lost(base: Path) -> int:
    """Remove links to missing job directories (purged scratch); returns their number.

    Only links with dlrun's names: `$DLRUN_JOBS` may be a directory with links of the user.
    """
    found = [path for path in base.glob("*") if path.is_symlink()]
    lost = [path for path in found if not path.exists() and _is_ours(path.name, path.readlink().name)]
    for path in lost:
        path.unlink(missing_ok=True)
    return len(lost)


def _measure(directory: Path) -> tuple[Bytes, float]:
    """(bytes on disk, time of the last change in seconds since 1970) of a directory tree."""
    size, changed = 0, 0.0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118 - many files
            except OSError:
                continue
            # Allocated blocks, not lengths: files may be sparse or compressed.
            size += found.st_blocks * 512
            changed = max(changed, found.st_mtime)
    return Bytes(size), changed


def _foreign(job: Job) -> Iterator[str]:
    for place in (job.directory, *(job.run_directories() if job.array is not None else ())):
        try:
            names = sorted(path.name for path in place.iterdir())
        except OSError:
            continue
        for name in names:
            if not name.startswith(".") and not _OWN.fullmatch(name):
                yield name if place == job.directory else f"points/{place.name}/{name}"
