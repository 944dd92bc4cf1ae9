"""The directories in which a set is built and published (an interface), and the files beside its data: manifest and boot."""

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


class TargetDirectory:
    """Descriptors of the directory of published names, and of dlrun's hidden control directory."""

    directory: int
    control: int

    def open_unfinished(self, name: bytes) -> int:
        """A descriptor of the directory in which a set is built, with the remains of an earlier run."""
        raise NotImplementedError

    def published(self, name: bytes) -> Optional[int]:  # noqa: ARG002 - where versions replace one another
        """A descriptor of the published version's directory, or None."""
        return None

    def publish(self, name: bytes) -> None:
        """Publish the finished part atomically."""
        raise NotImplementedError

    def discard(self, directory: int, name: bytes) -> None:
        """Remove a tree, if it exists."""
        raise NotImplementedError
