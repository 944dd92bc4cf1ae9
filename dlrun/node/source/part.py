"""Strategy `part`: as many files as fit a node, and symbolic links to the source for the others.

The smallest files are copied first: per byte they save the most opens at the metadata server.
"""

from array import array
from typing import Any, Dict, List, Optional, Set

from ..common import text
from ..common.errors import SourceFault
from .manifest import FILE, HARD, LINK, Manifest

ALLOCATION_UNIT = 4096  # bytes: the allocation unit of files, directories and long links
_INLINE_TARGET = 60  # bytes of a link target in an inode of ext4 (Linux, Documentation/filesystems/ext4)
_LINK_MODE = 0o777
TOLERANCE = 0.1  # relative difference allowed between the source's size and the expected one


def cost(manifest: Manifest) -> int:
    """Bytes that a data set takes on the disk."""
    files = sum(_file_cost(size) for size, kind in zip(manifest.sizes, manifest.kinds) if kind == FILE)
    links = sum(_link_cost(len(target)) for target in manifest.links)
    return files + links + ALLOCATION_UNIT * len(manifest.dirs)


def whole_size(manifest: Manifest) -> int:
    """Bytes of the whole data set, for the manifest of a part or of all of it."""
    part: Dict[str, Any] = manifest.info.get("part") or {}
    return int(part.get("bytes", manifest.size()))


def fit(manifest: Manifest, root: bytes, room: int) -> Manifest:
    """The manifest itself if it fits `room` bytes, else one with links to `root` instead of the largest files.

    Without room for even the links it has no files.
    """
    if cost(manifest) <= room:
        return manifest
    left = (
        room
        - ALLOCATION_UNIT * len(manifest.dirs)
        - sum(_link_cost(len(target)) for target in manifest.links)
    )
    files = [entry for entry, kind in enumerate(manifest.kinds) if kind == FILE]
    away = {entry: _link_cost(len(root) + 1 + len(manifest.path(entry))) for entry in files}
    # First all files count as links; then each file that is kept gives back the space of its link.
    left -= sum(away.values())
    kept: Set[int] = set()
    for entry in sorted(files, key=lambda e: (manifest.sizes[e], e)):
        more = _file_cost(manifest.sizes[entry]) - away[entry]
        if more > left:
            break
        left -= more
        kept.add(entry)
    return _with_links(manifest, root, kept)


def left_at_source(manifest: Manifest, root: str) -> str:
    """The report's line about the files read from the source; empty if all are copied."""
    part = manifest.info.get("part")
    if not part:
        return ""
    return "{} of {} ({} of {}) are here; the rest is read from `{}`".format(
        manifest.files(),
        text.count(part["files"], "file"),
        text.size(manifest.size()),
        text.size(part["bytes"]),
        root,
    )


def _file_cost(size: int) -> int:
    return -(-size // ALLOCATION_UNIT) * ALLOCATION_UNIT


def _link_cost(length: int) -> int:
    return 0 if length < _INLINE_TARGET else ALLOCATION_UNIT


def _with_links(manifest: Manifest, root: bytes, kept: Set[int]) -> Manifest:
    """The same names, with links instead of files that are not kept and of their hard links."""
    made = Manifest()
    made.info = dict(manifest.info)
    whole = manifest.info.get("part") or {"bytes": manifest.size(), "files": manifest.files()}
    made.info["part"] = dict(whole)
    for column in ("dirs", "names", "dir_modes", "dir_mtimes", "parents", "mtimes", "ctimes", "inodes"):
        setattr(made, column, getattr(manifest, column)[:])
    made.kinds, made.modes, made.sizes = manifest.kinds[:], manifest.modes[:], manifest.sizes[:]
    targets, firsts = dict(manifest.link_targets()), dict(manifest.hard_links())
    hard: List[int] = []
    for entry, kind in enumerate(manifest.kinds):
        if kind == LINK:
            made.links.append(targets[entry])
        elif (kind == FILE and entry not in kept) or (kind == HARD and firsts[entry] not in kept):
            made.kinds[entry], made.modes[entry], made.sizes[entry] = LINK, _LINK_MODE, 0
            made.links.append(root + b"/" + manifest.path(entry))
        elif kind == HARD:
            hard.append(firsts[entry])
    made.hard = array("I", hard)
    made.sparse = array("I", [entry for entry in manifest.sparse if entry in kept])
    made.xattrs = [(i, key, value) for i, key, value in manifest.xattrs if i < 0 or i in kept]
    return made


def require_size(source: str, size: int, expected: Optional[int]) -> None:
    """Raise SourceFault if the size of a whole source differs from the expected one by more than `TOLERANCE`."""
    if expected is not None and abs(size - expected) > expected * TOLERANCE:
        raise SourceFault(
            "the source `{}` has {}, not the {} that were expected".format(
                source, text.size(size), text.size(expected)
            ),
            "check that the source is complete; if it is, correct the size",
        )
