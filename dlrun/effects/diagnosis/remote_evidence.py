"""What `why` reads of a job on a login node: notes of failures, stacks and the ends of logs, kilobytes of each.

They lie in `.why` of the job's record, laid out as the job directory is; the copies of whole logs are left alone.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from dlrun.effects.clusters.login import transport_of
from dlrun.effects.diagnosis import evidence as why_evidence
from dlrun.effects.diagnosis.evidence import First
from dlrun.effects.logs import files as log_files
from dlrun.effects.records.jobs import Job
from dlrun.effects.remote.copies import LOG, poll, pulling
from dlrun.effects.remote.fetch import Found, listing
from dlrun.errors import OperationFailed

_PLACE = ".why"
_SMALL = re.compile(r"(?:points/[0-9]+/)?(?:state\.json|(?:failures|ended|stacks)/[^./\0][^/\0]*)")
_OTHERS = 24
"""Logs of ranks that noted no failure, of each run, whose ends are fetched: the first to fall silent, and as many of the
last before the failure."""
_FILE_SERVER = 1_000_000_000
"""Nanoseconds that the clock of a file server may be ahead of a node's."""


def fetch(job: Job, runs: Sequence[Path]) -> dict[Path, Path]:
    """Copy the evidence of why these runs of a job failed; where each run's copy is.

    Raises TransportFailed if the login node cannot be reached, OperationFailed if the copies cannot be written.
    """
    remote = job.remote
    assert remote is not None  # noqa: S101 - only such jobs have copies
    place = job.directory / _PLACE
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    except OSError as error:
        raise OperationFailed(f"cannot write `{place}`: {error.strerror}") from None
    names = [run.relative_to(job.directory).as_posix() for run in runs]
    prefixes = ["" if name == "." else f"{name}/" for name in names]
    transport = transport_of(remote.host, remote.transport)
    small = [
        f"{prefix}{part}"
        for prefix in prefixes
        for part in ("state.json", "failures/*", "ended/*", "stacks/*")
    ]
    with pulling(transport, remote.directory, (), small, {}) as session:
        poll(session, lambda name: (place, name) if _SMALL.fullmatch(name) else None)
    found = listing(
        transport,
        remote.directory,
        [f"./{prefix}logs/{logs}" for prefix in prefixes for logs in ("*.log", "[0-9]*/*.log")],
    )
    chosen: dict[str, int] = {}
    for prefix in prefixes:
        chosen |= _chosen([one for one in found if one.name.startswith(f"{prefix}logs/")], place / prefix)
    with pulling(transport, remote.directory, [glob.escape(name) for name in chosen], (), chosen) as session:
        poll(session, lambda name: (place, name) if name in chosen and LOG.fullmatch(name) else None)
    for one in found:
        if (copy := place / one.name).is_file():
            os.utime(copy, ns=(one.mtime_ns, one.mtime_ns))
    return {run: place / name for run, name in zip(runs, names, strict=True)}


def _chosen(found: Sequence[Found], run: Path) -> dict[str, int]:
    """The logs to look into, each with the offset from which: those of processes that failed, the job's, some others."""
    by_process = {process: one for one in found for process in _processes(one)}
    noted = why_evidence.notes(run)
    theirs = (by_process.get((note.role, note.rank)) for note in noted)
    failed = list(dict.fromkeys(one for one in theirs if one is not None))
    left = set(found).difference(failed)
    scripts = [one for one in left if PurePosixPath(one.name).name == "job.log"]
    others = sorted(left.difference(scripts), key=lambda one: one.mtime_ns)
    lengths = dict.fromkeys(scripts, why_evidence.TAIL)
    for number, one in enumerate(failed[: why_evidence.MOST]):
        lengths[one] = why_evidence.TAIL if number < why_evidence.FULL else why_evidence.SHORT
    lengths |= dict.fromkeys([*others[: _OTHERS - 1], *others[_OTHERS - 1 :][-1:]], why_evidence.SHORT)
    lengths |= dict.fromkeys(_just_before(others, noted), why_evidence.SHORT)
    return {
        one.name: max(0, one.size - length * max(1, len(_processes(one)))) for one, length in lengths.items()
    }


def _just_before(others: Sequence[Found], failed: Sequence[First]) -> Sequence[Found]:
    """Those written last before the first failure: a rank that ended too early, of thousands, is among them."""
    if not failed:
        return ()
    return [one for one in others if one.mtime_ns <= failed[0].time * 1e9 + _FILE_SERVER][-_OTHERS:]


def _processes(one: Found) -> list[tuple[str, int]]:
    """The processes that write to a log."""
    return log_files.processes(PurePosixPath(one.name).name)
