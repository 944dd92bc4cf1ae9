"""The target of the copies: a directory, or a new file system in an image file for each way.

ext4 does not reuse the inodes of files that were removed in the last minutes, and each new file searches past them. In a
directory where 50,000 files of another way had just been removed, a file took 400 microseconds, on a new file system 45: the
order of the ways would decide the result.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

CLONE_NEWNS = 0x20000  # linux/sched.h
MAKE = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")


class Disk:
    """The directory `path` for copies; `size` GB of an image file below `root`, or 0 for a plain directory."""

    def __init__(self, root: Path, size: int) -> None:
        self.path, self._image, self._device = root / "disk", root / "disk.img", ""
        self.path.mkdir()
        if size:
            if ctypes.CDLL(None).unshare(CLONE_NEWNS):
                raise SystemExit("--image needs root")
            run("mount", "--make-rprivate", "/")  # no other namespace keeps our mounts busy
            run("fallocate", "-l", f"{size}G", self._image)
            self._device = run("losetup", "--direct-io=on", "--find", "--show", self._image)
            self._new()

    def renew(self) -> None:
        """An empty directory, after all pending writes."""
        if self._device:
            run("umount", self.path)
            self._new()
        else:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir(exist_ok=True)
        os.sync()

    def _new(self) -> None:
        run(*MAKE, self._device)
        run("mount", "-o", "noatime", self._device, self.path)

    def close(self) -> None:
        """Unmount the image."""
        if self._device:
            subprocess.run(["umount", "-l", self.path], check=False)
            subprocess.run(["losetup", "-d", self._device], check=False)


def run(*words: object) -> str:
    """Run a program; returns its output."""
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True
    ).stdout.strip()
