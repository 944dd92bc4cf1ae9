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
from dlrun.effects.records.jobs import Job
from dlrun.effects.remote.copies import poll, pulling
from dlrun.effects.remote.fetch import Found, listing
from dlrun.errors import OperationFailed

_PLACE = ".why"
_SMALL = re.compile(r"(?:points/[0-9]+/)?(?:state\.json|(?:failures|ended|stacks)/[^./\0][^/\0]*)")
_LOG = re.compile(r"(?:points/[0-9]+/)?logs/[^./\0][^/\0]*\.log")
_OTHERS = 24
"""Logs of ranks that noted no failure, of each run, whose ends are fetched."""


def fetch(job: Job, runs: Sequence[Path]) -> dict[Path, Path]:
    """Copy what tells why these runs of a job failed; where each run's copy is.

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
    found = listing(transport, remote.directory, [f"./{prefix}logs/*.log" for prefix in prefixes])
    chosen: dict[str, int] = {}
    for prefix in prefixes:
        chosen |= _chosen([one for one in found if one.name.startswith(f"{prefix}logs/")], place / prefix)
    with pulling(transport, remote.directory, [glob.escape(name) for name in chosen], (), chosen) as session:
        poll(session, lambda name: (place, name) if name in chosen and _LOG.fullmatch(name) else None)
    for one in found:
        if (copy := place / one.name).is_file():
            os.utime(copy, ns=(one.mtime_ns, one.mtime_ns))
    return {run: place / name for run, name in zip(runs, names, strict=True)}


def _chosen(found: Sequence[Found], run: Path) -> dict[str, int]:
    """The logs to look into, each with the offset from which: those of processes that failed, the job's, some others."""
    by_name = {PurePosixPath(one.name).name: one for one in found}
    failed = [f"{note.role}-{note.rank}.log" for note in why_evidence.notes(run)]
    rest = sorted((name for name in by_name if name not in failed), key=lambda name: by_name[name].mtime_ns)
    others = [name for name in rest if name != "job.log"]
    lengths = {"job.log": why_evidence.TAIL}
    for number, name in enumerate(failed[: why_evidence.MOST]):
        lengths[name] = why_evidence.TAIL if number < why_evidence.FULL else why_evidence.SHORT
    lengths |= dict.fromkeys([*others[: _OTHERS - 1], *others[_OTHERS - 1 :][-1:]], why_evidence.SHORT)
    return {
        one.name: max(0, one.size - length)
        for name, length in lengths.items()
        if (one := by_name.get(name)) is not None
    }
