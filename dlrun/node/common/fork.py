"""Compute a result in a forked process, on another core: because of the interpreter lock, a thread could not use one."""

import marshal
import os
from typing import Any, Callable, List, Optional, Sequence, TypeVar

from .system import die_with_parent, usable_cores

MAX_HELPERS = 3  # processes besides this one

Result = TypeVar("Result")


class ForkedCall:
    """A forked process that computes `work(*arguments)`; the result must be plain values that `marshal` supports."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._pipe, write = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(write)
            return
        try:
            # The child inherits the parent's open files, the lock of the data set among them: it must not outlive it.
            die_with_parent()
            with os.fdopen(write, "wb") as file:
                marshal.dump(work(*arguments), file)
        finally:
            # Not `sys.exit`: it would run the parent's cleanup, and write the parent's buffered output a second time.
            os._exit(0)

    def result(self) -> Any:
        """Wait for the process; its result, or None if it failed or was killed."""
        # Read before the wait: a child with more than a pipe's buffer of results ends only once they are read.
        with os.fdopen(self._pipe, "rb") as file:
            content = file.read()
        os.waitpid(self._pid, 0)
        try:
            return marshal.loads(content)  # noqa: S302 - from our own process
        except (EOFError, ValueError, TypeError):
            return None


def stretches(items: Sequence[Any], least: int) -> List[Sequence[Any]]:
    """The items in one part per core, in order, with at least `least` in each, if there are more parts than one."""
    count = max(1, min(MAX_HELPERS + 1, usable_cores(), len(items) // max(1, least)))
    ends = [len(items) * k // count for k in range(count + 1)]
    return [items[start:end] for start, end in zip(ends, ends[1:])]


def in_processes(call: Callable[[Any], Result], parts: Sequence[Any]) -> List[Optional[Result]]:
    """The results of a call for each part, one by this process and the others by forked ones; None: it was killed."""
    helpers = [ForkedCall(call, part) for part in parts[1:]]
    return [call(parts[0]), *[helper.result() for helper in helpers]]
