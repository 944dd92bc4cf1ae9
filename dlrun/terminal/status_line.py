"""The status line below the logs of a followed job, or below the trials of a tuning, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.live import Live

from dlrun.terminal.drawing import Plain, console

_PER_SECOND = 2
"""Updates per second: the line counts seconds, and a login node is shared with others."""


class LiveLine:
    """One line on stderr, updated from `text` while it is shown and erased when it is hidden.

    Without a `thread`, which updates it, `show` does: for callers that start processes from Python code after a fork.
    """

    def __init__(self, text: Callable[[], str], *, thread: bool = True) -> None:
        self._text = text
        # Log lines are written to stdout as bytes, so `rich` must not take over the streams.
        self._live = Live(
            self, console=console(sys.stderr), transient=True, refresh_per_second=_PER_SECOND,
            auto_refresh=thread, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __rich__(self) -> Plain:
        """The current text, cut to the width of the terminal."""
        return Plain(self._text(), style="dim", no_wrap=True, overflow="ellipsis")

    def show(self) -> None:
        """Draw the line if it is not shown yet, or has no thread."""
        if not self._live.is_started:
            self._live.start(refresh=True)
        elif not self._live.auto_refresh:
            self._live.refresh()

    def hide(self) -> None:
        """Erase the line, so that log lines can be written."""
        self._live.stop()
