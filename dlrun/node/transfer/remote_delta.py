"""A changed S3 source: only the changed objects are fetched, and the other files are links to the published version's.

No client may write in a directory with such links: it would write to the published files. What is fetched gets into a
directory of its own, and is renamed when it is complete.
"""

import os
import stat
from typing import Dict, List

from ..blocks.hashing import Hasher
from ..common.safety import DIRECTORY_FLAGS, closing
from ..source.manifest import FILE, Manifest
from ..source.objects import STATE, Object
from ..source.subset import subset
from ..store.area import Area
from ..store.versions import open_published

RECORDED = "objects"
"""The key of a manifest's `info` with the state of each entry's object, in the order of the entries."""


class Reuse:
    """How a download may use the published version of the set: its name, and whether its files must be read first."""

    def __init__(self, name: bytes, hasher: Hasher, verify: bool) -> None:
        self.name, self.hasher, self.verify = name, hasher, verify


def record(manifest: Manifest, states: Dict[bytes, str]) -> None:
    """Add the states of the objects to the manifest of their download."""
    unknown = "-" * STATE
    recorded = [
        states.get(manifest.path(entry), unknown) for entry in range(len(manifest.names) if states else 0)
    ]
    manifest.info[RECORDED] = "".join(recorded)


def link_unchanged(
    area: Area, reuse: Reuse, url: str, states: Dict[bytes, str], size: int, directory: str
) -> Dict[bytes, bytes]:
    """Link the published files of unchanged objects into a directory; path -> hashes of those that are there then.

    Nothing is linked if that is less than half of the source's `size` in bytes.
    """
    published = open_published(area, reuse.name, reuse.hasher, reuse.verify)
    if published is None:
        return {}
    with published:
        old = published.manifest
        known = _unchanged(old, url, states)
        if not known or 2 * sum(old.sizes[entry] for entry in known) < size:
            return {}
        part = subset(old, set(known).__contains__)
        pairs = list(enumerate(known))
        with closing(os.open(directory, DIRECTORY_FLAGS)) as root:
            made = published.create(part, root, pairs)
        hashes = old.hashes()
        return {part.path(place): hashes[entry] for place, entry in pairs if place in made}


def _unchanged(old: Manifest, url: str, states: Dict[bytes, str]) -> List[int]:
    """The entries of a published manifest whose objects have the same state now."""
    recorded = old.info.get(RECORDED)
    # A hard link may stand for an object of its own, and a shard has other entries than the download.
    if not isinstance(recorded, str) or len(recorded) != STATE * len(old.names) or set(old.kinds) - {FILE}:
        return []
    if (old.info.get("source") or {}).get("root") != url:
        return []
    entries = []
    for entry in range(len(old.names)):
        state = states.get(old.path(entry))
        if state and state == recorded[STATE * entry : STATE * (entry + 1)]:
            entries.append(entry)
    return entries


def take(objects: List[Object], source: str, directory: str) -> bool:
    """Move fetched objects from one directory to another; False if one is missing or has another size."""
    here, there = os.fsencode(source), os.fsencode(directory)
    for stored in objects:
        path = os.path.join(there, stored.path)
        try:
            status = os.lstat(os.path.join(here, stored.path))
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != stored.size:
            return False
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(os.path.join(here, stored.path), path)
    return True


def finish_directories(directory: str) -> None:
    """Remove empty directories and give the others the mode of a download: S3 has no directories."""
    for above, _, _ in os.walk(os.fsencode(directory), topdown=False):
        if above != os.fsencode(directory) and not os.listdir(above):
            os.rmdir(above)
        elif above != os.fsencode(directory):
            os.chmod(above, 0o755)  # noqa: S103 - below a private directory


def set_time(path: bytes, time: int) -> None:
    """Set a file's modification time in ns; never that of a published file, to which `path` may be a link."""
    status = os.lstat(path)
    if status.st_mtime_ns == time:
        return
    if status.st_nlink > 1:
        copy = path + b".copy"
        with open(path, "rb") as source, open(copy, "wb") as target:
            target.writelines(iter(lambda: source.read(1 << 20), b""))
        os.chmod(copy, stat.S_IMODE(status.st_mode))
        os.rename(copy, path)
    os.utime(path, ns=(time, time))
