"""The files beside the data in a set's directory: its manifest, and the boot in which it was last known to be whole."""

import contextlib
import os
from typing import Optional

from ..common.errors import Damaged
from ..common.safety import read_existing
from ..common.system import boot
from ..source.manifest import Manifest, unpack

MANIFEST = b"manifest"
TREE = b"data"
BOOT = b"boot"


def write_file(directory: int, name: bytes, content: bytes) -> None:
    """Write a file of mode 0600 atomically."""
    temporary = b"new-" + name
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(content)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def confirm(directory: int) -> None:
    """Record that a published set has just been read back without errors."""
    write_file(directory, BOOT, boot().encode("ascii"))
    os.utime(MANIFEST, dir_fd=directory)


def on_disk(directory: int, manifest: Manifest) -> bool:
    """Whether the files are safe from a power failure: they were synced, or the node has not rebooted since."""
    if manifest.info.get("complete") and manifest.info.get("synced"):
        return True
    return read_existing(directory, BOOT) == boot().encode("ascii")


def read_manifest(directory: int, trusted: bool = True) -> Optional[Manifest]:
    """The manifest in the directory of a set; None without one that this version can read. trusted: see `unpack`."""
    with contextlib.suppress(Damaged):
        blob = read_existing(directory, MANIFEST)
        return None if blob is None else unpack(blob, trusted)
    return None
