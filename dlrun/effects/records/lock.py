"""Lock a directory of several jobs, such as a study, for one process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlrun.errors import OperationFailed


@contextmanager
def exclusive(directory: Path, taken: str, help: str) -> Iterator[None]:
    """Lock a directory within the block; raises OperationFailed(taken, help) if another process has it.

    The kernel releases the lock at its holder's exit. Without locks (some NFS) nothing is checked.
    """
    # O_CLOEXEC: a child that outlives this process would keep the lock.
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
