"""Compute something in a process of its own: a further core for work that the interpreter lock would hold up."""

import marshal
import os
from typing import Any, Callable

from .system import end_with_parent


class ForkedCall:
    """A forked process that computes `work(*arguments)`: plain values only, as `marshal` writes them."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._end, write = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(write)
            return
        try:
            end_with_parent()  # it has what its parent has open, the lock of the data set, too
            with os.fdopen(write, "wb") as file:
                marshal.dump(work(*arguments), file)
        finally:
            os._exit(0)

    def result(self) -> Any:
        """What was computed, or None when the process failed or was killed; waits for it."""
        with os.fdopen(self._end, "rb") as file:
            content = file.read()
        os.waitpid(self._pid, 0)
        try:
            return marshal.loads(content)  # noqa: S302 - from our own process
        except (EOFError, ValueError, TypeError):
            return None
