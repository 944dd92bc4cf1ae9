"""Links in the base directory of jobs to job directories elsewhere, by which all commands find these.

A list beside them has those that dlrun made: the base may be a directory with links of the user.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dlrun.system.paths import read_bytes

_LIST = ".dlrun-links"
_MOST = 64 << 20


def enter(base: Path, directory: Path, name: str) -> None:
    """Link the directory of a job of this name in `base`, if it is elsewhere."""
    base = base.absolute()
    if directory.parent == base:
        return
    link = base / (directory.name if directory.name.startswith(name) else f"{name}-{directory.name}")
    with suppress(OSError, ValueError):  # `base` cannot be written, or the name is not a valid file name
        base.mkdir(parents=True, exist_ok=True)
        with (base / _LIST).open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps([link.name, str(directory)]) + "\n")
        link.symlink_to(directory)


def _made(base: Path) -> Iterator[Path]:
    """The links in `base` that dlrun made, and that still lead where they led."""
    try:
        lines = set(read_bytes(base / _LIST, _MOST).splitlines())
    except OSError:
        return
    for line in lines:
        with suppress(OSError, ValueError, TypeError):
            name, target = json.loads(line)
            link = base / name
            if link.parent == base and link.is_symlink() and str(link.readlink()) == target:
                yield link


def forget(base: Path, directory: Path) -> None:
    """Remove a job's link from `base`, if it has one."""
    for link in _made(base.absolute()):
        with suppress(OSError):
            if link.readlink() == directory:
                link.unlink()


def forget_lost(base: Path) -> int:
    """Remove links to missing job directories (purged scratch); returns their number."""
    lost = [link for link in _made(base.absolute()) if not link.exists()]
    for link in lost:
        link.unlink(missing_ok=True)
    return len(lost)


def target(path: Path) -> Path | None:
    """The path, or the target of a link; None for another user's link, which may have the name of any job."""
    try:
        if not path.is_symlink():
            return path
        return path.readlink() if path.lstat().st_uid == os.geteuid() else None
    except OSError:
        return None
