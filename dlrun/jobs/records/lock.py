"""Lock a directory of several jobs, such as a study, for one process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlrun.errors import OperationFailed

NAME = ".lock"


@contextmanager
def exclusive(directory: Path, taken: str, help: str, wait: float = 0.0) -> Iterator[None]:
    """Lock a directory within the block; raises OperationFailed(taken, help) if another process has it for `wait` seconds.

    The kernel releases the lock at its holder's exit. Without locks (some NFS) nothing is checked.
    """
    # O_CLOEXEC: a child that outlives this process would keep the lock.
    descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise OperationFailed(taken, help=help) from None
                time.sleep(0.05)
                continue
            except OSError:  # no locks on this file system
                pass
            break
        yield
    finally:
        os.close(descriptor)
