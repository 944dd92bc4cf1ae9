"""The programs of nodes in the store of code: one file for all job directories, which have hard links to it.

They are objects like the files of a snapshot, so that `clean` keeps those that a job directory has. Without a safe store on the
same file system, and on one without links, a job directory has copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.code import store

_PROGRAMS = frozenset({"node.pyz", "libxxhash.so.0"})
"""The large ones."""


def keys(files: Mapping[str, str]) -> dict[str, str]:
    """The name of each program in the store, `ab/REST`, by its name in a job directory with these files (name -> text)."""
    keys_by_name = {}
    for name, text in files.items():
        if name.rpartition("/")[2] in _PROGRAMS:
            keys_by_name[name] = _key(text)
    return keys_by_name


@lru_cache(maxsize=len(_PROGRAMS))
def _key(text: str) -> str:
    """The name of a text in the store: roles, the record of a job on a login node, and what is sent there have the same texts."""
    key = sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()
    return f"{key[:2]}/{key[2:]}"


def shared(base: Path, target: Path, files: Mapping[str, str]) -> dict[str, Path]:
    """The paths in the store of the programs of a new job directory, by their names in it; they may be missing there.

    base: of job directories; the store is made. Empty if the job directory needs copies.
    """
    place = store.beside(base)
    paths = {name: place / "objects" / key for name, key in keys(files).items()}
    if not paths or store.place_for(base, target) != place:
        return {}
    try:
        store.make(place)
        for path in paths.values():
            path.parent.mkdir(mode=0o700, exist_ok=True)
    except (OSError, OperationFailed):
        return {}
    return paths
