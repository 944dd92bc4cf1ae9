"""Directories that a killed process left incomplete: `.NAME.HEX.new`, renamed to NAME only when everything is in them.

One is removed only with proof: its list has its inode, so that it is not a copy, and names the process, which has ended; and
everything in it is on the list. The directory of a process that was killed before its list had a byte is empty.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.records import contents, ownership, process_mark
from dlrun.jobs.records.contents import Contents
from dlrun.jobs.records.ownership import LIST, Written
from dlrun.jobs.records.validation import is_recent

_NAME = re.compile(r"\..{1,200}\.[0-9a-f]{8}\.new", re.DOTALL)
_EMPTY = 3600.0
"""Seconds after which an empty directory is not one that another process has just made."""


def name_for(name: str) -> str:
    """A new name for the incomplete directory of that name."""
    return f".{name[:200]}.{os.urandom(4).hex()}.new"


def find(base: Path) -> Iterator[tuple[Path, Contents]]:
    """The incomplete directories in a directory whose processes have ended, and that have nothing else; with their contents."""
    try:
        names = sorted(os.listdir(base))  # noqa: PTH208 - many names, of which few are paths
    except OSError:
        return
    for name in names:
        if _NAME.fullmatch(name) and _is_left(directory := base / name):
            written = ownership.read(directory) or ownership.NONE
            survey = contents.survey(directory, written)
            if all(
                other.path == LIST or _is_cut_off(directory, other.path, written) for other in survey.others
            ):
                yield directory, survey


def _is_left(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    written = ownership.read(directory)
    if written is None:
        return not is_recent(status.st_mtime, _EMPTY) and _is_empty(directory)
    by = ownership.made_by(directory)
    return bool(by) and written.inode == status.st_ino and not process_mark.in_progress(by or {}, own=True)


def _is_empty(directory: Path) -> bool:
    try:
        paths = list(directory.iterdir())
        return all(path.name == LIST and path.lstat().st_size == 0 for path in paths)
    except OSError:
        return False


def remove(base: Path) -> list[Path]:
    """Remove them as far as possible; returns those that are gone."""
    gone = []
    for directory, survey in find(base):
        with suppress(OperationFailed):
            if contents.remove(directory, survey, others=True):
                gone.append(directory)
    return gone


def _is_cut_off(directory: Path, path: str, written: Written) -> bool:
    """Whether a path is a file of the list of which the killed process had written only the begin."""
    proof = written.files.get(path)
    try:
        status = (directory / path).lstat()
    except OSError:
        return False
    return (
        proof is not None
        and proof.size is not None
        and stat.S_ISREG(status.st_mode)
        and status.st_size < proof.size
    )
