"""A bar for work of a known size, on a terminal alone: elsewhere nothing is drawn and nothing is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dlrun.cli.printing import notice


@dataclass(frozen=True, slots=True)
class Work:
    """Receiver of progress: `done` of a `total`, and messages, which are printed above the bar."""

    step: Callable[[int, int], None]
    notice: Callable[[str], None]


@contextmanager
def progress(title: str, *, quiet: bool = False, size: bool = False) -> Iterator[Work]:
    """A bar on stderr while the block runs, from its first step on; numbers are bytes with `size`."""
    from dlrun.cli.output.colour import drawn

    if quiet or not drawn(sys.stderr):
        yield Work(step=lambda _done, _total: None, notice=notice)
        return
    from dlrun.cli.output.bar import CountBar

    bar = CountBar(title, size=size)
    try:
        yield Work(step=bar.step, notice=bar.message)
    finally:
        bar.close()
