"""Copy the evidence of a job on a login node: failure notes, stacks and the ends of logs, some kilobytes of each.

The copies are in a temporary directory with the layout of a job directory, until dlrun ends; copies of complete logs are
separate.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.logs import files as log_files
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote.copies import LOG, RUN, LocalCopy, poll, pulling
from dlrun.jobs.remote.fetch import listing
from dlrun.jobs.remote.target import RemoteFile
from dlrun.model.job import role_directory
from dlrun.why import evidence as why_evidence
from dlrun.why.evidence import ProcessEnd

_copies: list[tempfile.TemporaryDirectory[str]] = []
"""The directories of the copies; each is removed at the end of this process."""
_SMALL = re.compile(RUN + r"(?:state\.json|(?:failures|ended|stacks)/[^./\0][^/\0]*)")
_OTHERS = 24
"""Logs per run of ranks without failure notes: the first to fall silent, and as many of the last before the failure."""
_FILE_SERVER = 1_000_000_000
"""Maximum nanoseconds by which a file server's clock may be ahead of a node's."""


def fetch(job: Job, remote: Remote, runs: Sequence[Path]) -> dict[Path, Path]:
    """Copy the evidence of failed runs of a job on a login node; returns run -> directory of its copy.

    Raises TransportFailed if the login node cannot be reached, OperationFailed if the copies cannot be written.
    """
    try:
        _copies.append(tempfile.TemporaryDirectory(prefix="dlrun-why-"))
    except OSError as error:
        raise OperationFailed(f"cannot make a temporary directory: {error.strerror}") from None
    place = Path(_copies[-1].name)
    names = [run.relative_to(job.directory).as_posix() for run in runs]
    prefixes = ["" if name == "." else f"{name}/" for name in names]
    prefixes += [f"{role_directory(role)}/" for role in job.roles]
    transport = transport_of(remote.host, remote.transport)
    parts = ("state.json", "failures/*", "ended/*", "stacks/*")
    small = [f"{prefix}{part}" for prefix in prefixes for part in parts]
    with pulling(transport, remote.directory, (), small, {}) as session:
        poll(session, lambda name: LocalCopy(place, name) if _SMALL.fullmatch(name) else None)
    files = listing(
        transport,
        remote.directory,
        [f"./{prefix}logs/{logs}" for prefix in prefixes for logs in ("*.log", "[0-9]*/*.log")],
    )
    chosen: dict[str, int] = {}
    for prefix in prefixes:
        chosen |= _chosen([file for file in files if file.name.startswith(f"{prefix}logs/")], place / prefix)
    with pulling(transport, remote.directory, [glob.escape(name) for name in chosen], (), chosen) as session:
        poll(session, lambda name: LocalCopy(place, name) if name in chosen and LOG.fullmatch(name) else None)
    for file in files:
        if (copy := place / file.name).is_file():
            # The search orders logs by the time of their last line.
            os.utime(copy, ns=(file.mtime_ns, file.mtime_ns))
    return {run: place / name for run, name in zip(runs, names, strict=True)}


def _chosen(files: Sequence[RemoteFile], run: Path) -> dict[str, int]:
    """Log name -> offset of the part to fetch, for failed processes, the job, and some others."""
    by_process = {process: file for file in files for process in _processes(file)}
    noted = why_evidence.notes(run)
    theirs = (by_process.get((note.role, note.rank)) for note in noted)
    failed = list(dict.fromkeys(file for file in theirs if file is not None))
    left = set(files).difference(failed)
    scripts = [file for file in left if PurePosixPath(file.name).name == "job.log"]
    others = sorted(left.difference(scripts), key=lambda file: file.mtime_ns)
    lengths = dict.fromkeys(scripts, why_evidence.TAIL)
    for number, file in enumerate(failed[: why_evidence.MOST]):
        lengths[file] = why_evidence.TAIL if number < why_evidence.FULL else why_evidence.SHORT
    lengths |= dict.fromkeys([*others[: _OTHERS - 1], *others[_OTHERS - 1 :][-1:]], why_evidence.SHORT)
    lengths |= dict.fromkeys(_just_before(others, noted), why_evidence.SHORT)
    return {
        file.name: max(0, file.size - length * max(1, len(_processes(file))))
        for file, length in lengths.items()
    }


def _just_before(others: Sequence[RemoteFile], failed: Sequence[ProcessEnd]) -> Sequence[RemoteFile]:
    """The logs last written before the first failure: among thousands, they include a rank that ended too early."""
    if not failed:
        return ()
    return [file for file in others if file.mtime_ns <= failed[0].time * 1e9 + _FILE_SERVER][-_OTHERS:]


def _processes(file: RemoteFile) -> list[tuple[str, int]]:
    """(role, rank) of each process that writes to a log."""
    return log_files.processes(PurePosixPath(file.name).name)
