"""Start writing copied data to the disk while the copy continues.

By itself the kernel begins when a tenth of the memory waits to be written, or after half a minute: a set that is smaller
than that is copied into memory first and then written, one after the other.
"""

import contextlib
import os
import re
import threading
from typing import Callable, Iterator

from ..common.system import on_block_device, sync_file_system

PERIOD = 0.2  # seconds between two looks at what waits
WORTH = 32 << 20  # bytes that are worth a call
OTHERS = 2.0  # where more than so many times what we wrote waits, most of it is others', for which we would wait, too


@contextlib.contextmanager
def flushed(directory: int, written: Callable[[], int]) -> Iterator[None]:
    """While this lasts, what was written below a directory goes to its disk; `written` gives the bytes so far.

    Does nothing where the directory is not on a disk of this node. What is under way at the end is not waited for.
    """
    ended = threading.Event()
    if on_block_device(directory):
        own = os.dup(directory)
        threading.Thread(target=_flush, args=(own, written, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _flush(directory: int, written: Callable[[], int], ended: threading.Event) -> None:
    before = 0
    while not ended.wait(PERIOD):
        now = written()
        # The call flushes the whole file system, so the data of other jobs, too.
        if now - before >= WORTH and waiting() <= OTHERS * (now - before):
            sync_file_system(directory)
            before = now
    os.close(directory)


def waiting() -> int:
    """The bytes in memory that wait to be written to any disk; 0 where the kernel does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"^Dirty:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) << 10 if found else 0
