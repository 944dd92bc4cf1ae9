"""Compute something in a forked process: a second core, which threads cannot use because of the interpreter lock."""

import marshal
import os
from typing import Any, Callable

from .system import end_with_parent


class ForkedCall:
    """A forked process that computes `work(*arguments)`; the result must be plain values that `marshal` supports."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._end, write = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(write)
            return
        try:
            end_with_parent()  # it inherits its parent's open files, also the data set's lock
            with os.fdopen(write, "wb") as file:
                marshal.dump(work(*arguments), file)
        finally:
            # Not `sys.exit`: the parent's cleanup and its buffered output are not this process's.
            os._exit(0)

    def result(self) -> Any:
        """Wait for the process; its result, or None if it failed or was killed."""
        with os.fdopen(self._end, "rb") as file:
            content = file.read()
        os.waitpid(self._pid, 0)
        try:
            return marshal.loads(content)  # noqa: S302 - from our own process
        except (EOFError, ValueError, TypeError):
            return None
