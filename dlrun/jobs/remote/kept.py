"""What a fetch may replace: nothing but what dlrun itself has written here.

An edited `train.py` or a newer checkpoint has the name of a file of the job. Only a file that is as an earlier fetch left it,
or that dlrun wrote in the job's record, is replaced by a new version; all others are kept, unless the user asks for them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from dlrun.jobs.records import contents, directories, ownership
from dlrun.jobs.records.validation import read_json

FETCHED = "fetched.json"
"""In the job's record: directory -> name -> size and time (ns) of the files that were fetched there."""


class Kept:
    """The files of one directory that a fetch of a job may replace."""

    def __init__(self, record: Path, here: Path, *, force: bool = False) -> None:
        self._record, self._here, self._force = record, Path(os.path.realpath(here)), force
        known = (read_json(record / FETCHED) or {}).get("directories")
        self._directories: dict[str, dict[str, list[int]]] = known if isinstance(known, dict) else {}
        mine = self._directories.get(str(self._here))
        self._files = dict(mine) if isinstance(mine, dict) else {}

    def is_kept(self, name: str, here: os.stat_result, mtime_ns: int) -> bool:
        """Whether a file stays that differs from the job's, of which this is the time: dlrun did not write it as it is."""
        if self._force or not stat.S_ISREG(here.st_mode):
            return False
        if self._files.get(name) == [here.st_size, here.st_mtime_ns]:
            return False
        if self._here != self._record.resolve():
            return True
        # The record of an earlier version has no list of what dlrun wrote there.
        return here.st_mtime_ns > mtime_ns if self._own is None else name not in self._own

    @cached_property
    def _own(self) -> set[str] | None:
        """The names that dlrun wrote in the job's record; None without a list of them."""
        written = ownership.read(self._record)
        return None if written is None else {*contents.survey(self._record, written).own}

    def add(self, files: Iterable[tuple[str, int, int]]) -> None:
        """Record fetched files: name, size, time (ns). Without the record a later fetch keeps them; it never fails."""
        added = {name: [size, mtime_ns] for name, size, mtime_ns in files}
        if not added:
            return
        everything = self._directories | {str(self._here): self._files | added}
        with suppress(OSError):
            directories.write_json(self._record / FETCHED, {"version": 1, "directories": everything})
