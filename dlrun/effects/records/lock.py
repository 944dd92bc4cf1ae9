"""One process at a time in a directory of several jobs, such as a study."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlrun.errors import OperationFailed


@contextmanager
def alone(directory: Path, taken: str, help: str) -> Iterator[None]:
    """Lock the directory for this process; raises OperationFailed with the message `taken` if another one has it.

    The kernel releases the lock when its holder dies. Where locks do not work (some NFS), nothing is checked.
    """
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationFailed(taken, help=help) from None
        except OSError:  # no locks on this file system
            pass
        yield
    finally:
        os.close(descriptor)
