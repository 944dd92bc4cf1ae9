"""Links in the base directory of jobs to job directories elsewhere, by which all commands find these."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def enter(base: Path, directory: Path, name: str) -> None:
    """Link the directory of a job of this name in `base`, if it is elsewhere."""
    base = base.absolute()
    if directory.parent == base:
        return
    link = base / (directory.name if directory.name.startswith(name) else f"{name}-{directory.name}")
    with suppress(OSError, ValueError):  # `base` cannot be written, or the name is not a valid file name
        base.mkdir(parents=True, exist_ok=True)
        link.symlink_to(directory)


def forget(base: Path, directory: Path) -> None:
    """Remove a job's link from `base`, if it has one."""
    with suppress(OSError):
        for link in base.absolute().iterdir():
            if link.is_symlink() and link.readlink() == directory:
                link.unlink()


def target(path: Path) -> Path | None:
    """The path, or the target of a link; None for another user's link, which may have the name of any job."""
    try:
        if not path.is_symlink():
            return path
        return path.readlink() if path.lstat().st_uid == os.geteuid() else None
    except OSError:
        return None
