"""Copy by one node: all workers read, hash and write until no blocks are left."""

import contextlib
import os
import re
import threading
import time
from typing import Callable, Iterator, List, Optional, Tuple

from ..blocks.progress_board import DONE
from ..common import text
from ..common.errors import NodeError, NoSpace, SourceFault, Unreadable
from ..common.system import on_block_device, sync_file_system
from .task import Task, Tokens
from .workers import Workers

REPORT_INTERVAL = 0.2  # seconds between progress updates
Fault = Tuple[str, bool]  # message about a file of the source, and whether it could not be read
# A range of blocks per worker, not every fourth block: processes that create files in one directory wait for its lock.
TOKEN_BYTES = 32 << 20
# Up to this much is copied before a second worker, forked from a process with all names, has started (about 5 ms).
ALONE_BYTES, ALONE_BLOCKS = 4 << 20, 1000


class DeadlineExceeded(NodeError):
    """The --deadline passed."""


def copy(task: Task, worker_count: int, report: Callable[[], None], end: Optional[float] = None) -> None:
    """Copy all blocks that are not done; calls `report` every `REPORT_INTERVAL` seconds.

    Raises DeadlineExceeded after `end` (monotonic clock), SourceFault for files that changed or cannot be read, NoSpace for a
    full disk, NodeError for other disk errors. Copied blocks stay for the next run.
    """
    tokens = Tokens()
    faults: List[Fault] = []
    board, left = task.board, task.board.numbers(DONE, False)
    length = sum(task.blocks[number].length for number in left)
    # Not with a rate, of which each worker has a share.
    if length <= ALONE_BYTES and len(left) <= ALONE_BLOCKS and not task.rate:
        worker_count = 1
    with Workers(task, tokens, worker_count) as workers, flushed(
        task.directory, lambda: board.total("bytes")
    ):
        tokens.distribute(task, left, TOKEN_BYTES)
        workers.send_all({"do": "read"})
        reading = worker_count
        while reading:
            for message in workers.wait(REPORT_INTERVAL):
                if message["event"] == "failed":
                    raise disk_failed(message["message"], message["full"])
                if message["event"] == "faulty":
                    faults.append((message["message"], message["unreadable"]))
                if message["event"] == "read":
                    reading -= 1
            report()
            if end is not None and reading and time.monotonic() > end:
                raise _deadline_exceeded(task)
    if faults:
        raise source_failed(faults)


def _deadline_exceeded(task: Task) -> DeadlineExceeded:
    left = text.count(task.board.plane(DONE).count(0), "block")
    return DeadlineExceeded("deadline reached with {} left to copy".format(left), "the next run resumes")


def disk_failed(message: str, full: bool) -> NodeError:
    """The error for a failed write."""
    if full:
        whole = "the disk filled up while the data was written: {}".format(message)
        return NoSpace(whole, "remove sets with `dlrun stage-data --evict NAME`, or stage to another disk")
    return NodeError("the data could not be written: {}".format(message))


def source_failed(faults: List[Fault]) -> SourceFault:
    """The error for a source that has changed or cannot be read: up to three files, unreadable ones first."""
    broken = sorted(message for message, unreadable in faults if unreadable)
    listed = broken or sorted(message for message, _ in faults)
    more = " and {} more".format(len(listed) - 3) if len(listed) > 3 else ""
    what = "; ".join(listed[:3]) + more
    if broken:
        return Unreadable(
            "the source is not readable as a whole: " + what,
            "nothing was published; run again once it is readable (only what is missing is copied)",
        )
    return SourceFault(
        "the source changed while it was copied: " + what,
        "nothing was published; run again once the source no longer changes (only changed files are copied)",
    )


# Write copied data to the disk while the copy continues.
#
# By itself the kernel begins when a tenth of the memory is dirty (vm.dirty_background_ratio) or after 30 s: a smaller set
# would first be copied into memory, and written to the disk only afterwards.

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
            match = re.search(r"^Dirty:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(match.group(1)) << 10 if match else 0
