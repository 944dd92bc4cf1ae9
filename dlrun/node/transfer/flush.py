"""Write copied data to the disk while the copy continues.

By itself the kernel begins when a tenth of the memory is dirty (vm.dirty_background_ratio) or after 30 s: a smaller set
would first be copied into memory, and written to the disk only afterwards.
"""

import contextlib
import os
import re
import threading
from typing import Callable, Iterator

from ..common.system import on_block_device, sync_file_system

PERIOD = 0.2  # seconds between two checks
MIN_BYTES = 32 << 20  # bytes written since the last flush, from which on another is worth its cost
MAX_RATIO = (
    2.0  # ratio of dirty to own bytes above which most are other jobs', which a flush would write, too
)


@contextlib.contextmanager
def flushed(directory: int, written: Callable[[], int]) -> Iterator[None]:
    """Within the block, flush the file system of a directory periodically; `written()` returns the bytes so far.

    Does nothing unless the directory is on a local disk. At the end it does not wait for a flush in progress.
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
        # syncfs flushes the whole file system, with the data of other jobs.
        if now - before >= MIN_BYTES and dirty_bytes() <= MAX_RATIO * (now - before):
            sync_file_system(directory)
            before = now
    os.close(directory)


def dirty_bytes() -> int:
    """Dirty bytes of all file systems; 0 if the kernel does not report them."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"^Dirty:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) << 10 if found else 0
