"""Copy on one node: every worker reads, hashes and writes until the blocks are used up."""

import time
from typing import Callable, List, Optional, Tuple

from ..blocks.progress_board import DONE
from ..common import text
from ..common.errors import NodeError, NoSpace, SourceFault, Unreadable
from .flush import flushed
from .task import Task, Tokens
from .workers import Workers

TICK = 0.2  # seconds between looks at the progress
Fault = Tuple[str, bool]  # what could not be copied from the source, and whether it could not be read
STRETCH = 32 << 20  # bytes for a worker at a time: those that make files in one directory wait for each other


class DeadlineExceeded(NodeError):
    """The --deadline passed."""


def copy(task: Task, worker_count: int, report: Callable[[], None], end: Optional[float] = None) -> None:
    """Copy all blocks that are not done, until `end` on the monotonic clock; `report` is called from time to time.

    Raises DeadlineExceeded at the end of the time, SourceFault naming what the source did not give, NoSpace when the
    disk filled up, NodeError when it failed otherwise. What was copied stays, for the next run.
    """
    tokens = Tokens()
    faults: List[Fault] = []
    board = task.board
    with Workers(task, tokens, worker_count) as workers, flushed(
        task.directory, lambda: board.total("bytes")
    ):
        tokens.deal(task, board.numbers(DONE, False), STRETCH)
        workers.send_all({"do": "read"})
        reading = worker_count
        while reading:
            for message in workers.wait(TICK):
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
    """The error for a disk that did not take what was written."""
    if full:
        return NoSpace("the disk filled up while the data was written: {}".format(message))
    return NodeError("the data could not be written: {}".format(message))


def source_failed(faults: List[Fault]) -> SourceFault:
    """The error for a source that is not what its manifest states, or that cannot be read."""
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
