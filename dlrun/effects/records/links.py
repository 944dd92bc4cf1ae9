"""Links in the usual directory of jobs to jobs that lie elsewhere, so that all commands find them there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def enter(base: Path, directory: Path, name: str) -> None:
    """Make a job of this name that is elsewhere known to `list`, `status` and the others: a link in `base`."""
    base = base.absolute()
    if directory.parent == base:
        return
    link = base / (directory.name if directory.name.startswith(name) else f"{name}-{directory.name}")
    with suppress(OSError, ValueError):  # nowhere to write it, or a name that no file can have
        base.mkdir(parents=True, exist_ok=True)
        link.symlink_to(directory)


def forget(base: Path, directory: Path) -> None:
    """Remove a job's link from `base`, if it has one."""
    with suppress(OSError):
        for link in base.absolute().iterdir():
            if link.is_symlink() and link.readlink() == directory:
                link.unlink()


def target(path: Path) -> Path | None:
    """The directory that a path is, or that it links to; None for a link of another user's, which could be called as any job."""
    try:
        if not path.is_symlink():
            return path
        return path.readlink() if path.lstat().st_uid == os.geteuid() else None
    except OSError:
        return None
