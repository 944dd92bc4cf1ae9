"""As much of a data set as fits a node; the rest is read where it is, through symbolic links to the source.

Small files come first: each saves an open at the metadata server for the fewest bytes.
"""

from array import array
from typing import Any, Dict, List, Set

from ..common import text
from .manifest import FILE, HARD, LINK, Manifest

CLUSTER = 4096  # bytes that a file's last piece, a directory and a long link take at least
_INSIDE = 60  # bytes of a link's target that ext4 keeps in the inode (Linux, Documentation/filesystems/ext4)
LINK_MODE = 0o777


def cost(manifest: Manifest) -> int:
    """Bytes of disk that a data set takes."""
    files = sum(_file(size) for size, kind in zip(manifest.sizes, manifest.kinds) if kind == FILE)
    links = sum(_link(len(target)) for target in manifest.links)
    return files + links + CLUSTER * len(manifest.dirs)


def whole_size(manifest: Manifest) -> int:
    """Bytes of the data set of which a manifest has a part, or all."""
    part: Dict[str, Any] = manifest.info.get("part") or {}
    return int(part.get("bytes", manifest.size()))


def fitted(manifest: Manifest, root: bytes, room: int) -> Manifest:
    """The manifest itself if it fits `room` bytes, else one that has links to `root` for the files that do not.

    It has no files if there is no room for the links alone.
    """
    if cost(manifest) <= room:
        return manifest
    left = room - CLUSTER * len(manifest.dirs) - sum(_link(len(target)) for target in manifest.links)
    files = [entry for entry, kind in enumerate(manifest.kinds) if kind == FILE]
    away = {entry: _link(len(root) + 1 + len(manifest.path(entry))) for entry in files}
    left -= sum(away.values())
    kept: Set[int] = set()
    for entry in sorted(files, key=lambda e: (manifest.sizes[e], e)):
        more = _file(manifest.sizes[entry]) - away[entry]
        if more > left:
            break
        left -= more
        kept.add(entry)
    return _with_links(manifest, root, kept)


def left_out(manifest: Manifest, root: str) -> str:
    """A line for the report: what of a data set is read where it is; empty if all of it is here."""
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


def _file(size: int) -> int:
    return -(-size // CLUSTER) * CLUSTER


def _link(length: int) -> int:
    return 0 if length < _INSIDE else CLUSTER


def _with_links(manifest: Manifest, root: bytes, kept: Set[int]) -> Manifest:
    """The manifest of the same names, with links for the files that are not kept and for their further names."""
    made = Manifest()
    made.info = dict(manifest.info)
    whole = manifest.info.get("part") or {"bytes": manifest.size(), "files": manifest.files()}
    made.info["part"] = dict(whole)
    for column in ("dirs", "names", "dir_modes", "dir_mtimes", "parents", "mtimes", "ctimes"):
        setattr(made, column, getattr(manifest, column)[:])
    made.kinds, made.modes, made.sizes = manifest.kinds[:], manifest.modes[:], manifest.sizes[:]
    targets, firsts = dict(manifest.link_targets()), dict(manifest.hard_links())
    hard: List[int] = []
    for entry, kind in enumerate(manifest.kinds):
        if kind == LINK:
            made.links.append(targets[entry])
        elif (kind == FILE and entry not in kept) or (kind == HARD and firsts[entry] not in kept):
            made.kinds[entry], made.modes[entry], made.sizes[entry] = LINK, LINK_MODE, 0
            made.links.append(root + b"/" + manifest.path(entry))
        elif kind == HARD:
            hard.append(firsts[entry])
    made.hard = array("I", hard)
    made.sparse = array("I", [entry for entry in manifest.sparse if entry in kept])
    made.xattrs = [(i, key, value) for i, key, value in manifest.xattrs if i < 0 or i in kept]
    return made
