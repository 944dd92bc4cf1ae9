"""Measure data sets with `strategy: auto` and no size, by a bounded walk, if the source is visible on this host."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.model.observed import DataSize
from dlrun.model.units import Bytes

if TYPE_CHECKING:
    from dlrun.model.data import DataSet
    from dlrun.model.spec import Spec

MOST_FILES = 200_000
"""Maximum number of entries: some seconds on a parallel file system."""

MOST_SECONDS = 5.0
"""Time limit of the walk in seconds: the submission waits for it."""


def measure_data(spec: Spec, directory: Path) -> dict[str, DataSize]:
    """Name -> size of each data set with `strategy: auto` and no `size` whose source is visible on this host."""
    base = directory / (spec.directory or "")
    unknown = {
        name: data for name, data in spec.data.items() if data.strategy == "auto" and data.size is None
    }
    return dict(_all(unknown, base, time.monotonic() + MOST_SECONDS))


def _all(sets: Mapping[str, DataSet], base: Path, end: float) -> Iterator[tuple[str, DataSize]]:
    for name, data in sets.items():
        path = base / data.source
        # Globs and filters are left to the node program, which applies them: the size of everything would be misleading.
        if any(c in data.source for c in "*?[") or data.include or data.exclude:
            continue
        try:
            if path.is_dir():
                yield name, _tree(str(path), end)
            else:
                yield name, DataSize(size=Bytes(path.stat().st_size), files=1)
        except OSError:
            continue


def _tree(root: str, end: float) -> DataSize:
    """The size of a directory tree, as far as it could be walked until `end` (monotonic time)."""
    size = files = entries_seen = 0
    waiting, linked = [root], set()
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                entries_seen += 1
                if entries_seen > MOST_FILES or time.monotonic() > end:
                    return DataSize(size=Bytes(size), files=files, whole=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_nlink > 1:  # a file with several names is copied once
                        if (status.st_dev, status.st_ino) in linked:
                            continue
                        linked.add((status.st_dev, status.st_ino))
                    size += status.st_size
                    files += 1
    return DataSize(size=Bytes(size), files=files)
