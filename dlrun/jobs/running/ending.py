"""The end of a job that runs in the foreground: by itself, by Ctrl-C, or with the terminal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from dlrun.jobs.clusters import local
from dlrun.jobs.records.jobs import Job
from dlrun.system.process import descendants


@contextmanager
def ending(job: Job, report: Callable[[str], None]) -> Iterator[list[int]]:
    """Within the block the first signal (Ctrl-C, a closed terminal) ends the job's ranks, and the second kills them.

    The block gets the list of the received signals, and should last until the job has ended. At its end, also after an error,
    nothing of the job is left.
    """
    pid = int(str(job.job_id).partition(".")[0])
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only that may set handlers
        try:
            yield received
        finally:
            local.cancel(job)
        return

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
            report("ending all ranks; once more kills them")
        else:
            for process in descendants(pid)[1:]:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)

    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for signum, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, end)
    try:
        yield received
    finally:
        try:
            local.cancel(job)
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def has_ended(job: Job) -> bool:
    """Whether the job, and every process of it on this machine, has ended."""
    return not local.alive(str(job.job_id))
