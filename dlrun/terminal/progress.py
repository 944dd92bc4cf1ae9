"""Progress of work of known size: a bar on a terminal; elsewhere nothing is drawn, and `rich` is not imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dlrun.terminal.printing import notice


@dataclass(frozen=True, slots=True)
class Work:
    """Functions that receive the progress (`done`, `total`), and messages to print above the bar."""

    step: Callable[[int, int], None]
    notice: Callable[[str], None]


@contextmanager
def progress(title: str, *, quiet: bool = False, size: bool = False) -> Iterator[Work]:
    """Show a bar on stderr while the block runs, from its first step on; with `size`, numbers are bytes."""
    from dlrun.terminal.colour import drawn

    if quiet or not drawn(sys.stderr):
        yield Work(step=lambda _done, _total: None, notice=notice)
        return
    from dlrun.terminal.progress_bars import CountBar

    bar = CountBar(title, size=size)
    try:
        yield Work(step=bar.step, notice=bar.message)
    finally:
        bar.close()
