"""A cluster ends with the process that brought it up, however that process ended.

The owner holds a lock on a file beside the cluster's directory, which the kernel releases when it dies, and the write
end of a pipe on which a watcher waits. When the pipe closes without a word, the watcher clears every cluster whose lock
is free; a watcher that was killed too leaves that to whoever brings up the next cluster.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECKOUT = Path(__file__).resolve().parents[2]
_WATCH = 'read -r word || exec "$@"'


class Owner:
    """This process as the owner of the cluster whose directory is `root`, until `release`."""

    def __init__(self, root: Path) -> None:
        self._path = _lock_of(root)
        self._lock = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clear = [sys.executable, "-m", "tests.cluster", "clear"]
        self._watcher = subprocess.Popen(
            ["bash", "-c", _WATCH, "watcher", *clear],
            cwd=_CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the owner's group does not end it
        )

    def release(self) -> Self:
        """Give the cluster up: it is gone, or stays without an owner."""
        assert self._watcher.stdin is not None
        with suppress(BrokenPipeError):
            self._watcher.stdin.write(b"released\n")
            self._watcher.stdin.close()
        self._watcher.wait(60)
        self._path.unlink(missing_ok=True)
        os.close(self._lock)
        return self


def abandoned(base: Path) -> Iterator[Path]:
    """The directories of clusters below `base` whose owner is dead; asked under the lock of `base`."""
    for path in sorted(base.glob(_lock_of(Path("*")).name)):
        handle = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            yield path.with_suffix("")
            path.unlink()
        finally:
            os.close(handle)


def _lock_of(root: Path) -> Path:
    return root.with_name(f"{root.name}.owner")
