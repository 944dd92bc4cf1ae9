"""Compute a result in a forked process, on another core: because of the interpreter lock, a thread could not use one."""

import marshal
import os
from typing import Any, Callable

from .system import die_with_parent


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
