"""Progress of `dlrun tune`: a line for each ended trial and, on a terminal, one for the trial that runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dlrun.terminal.colour import drawn
from dlrun.terminal.printing import notice
from dlrun.trials.tune.race import upcoming
from dlrun.trials.tune.record import directory_name
from dlrun.trials.tune.run import described
from dlrun.usage.formats import clock

if TYPE_CHECKING:
    from dlrun.trials.tune.record import Tuning


@contextmanager
def progress(tuning: Tuning) -> Iterator[Progress]:
    """Show the progress of a tuning; its status line is erased at the end."""
    shown = Progress(tuning)
    try:
        yield shown
    finally:
        shown.hide()


class Progress:
    """Prints messages above the status line; the trials that had ended before are not printed."""

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self._seen = len(tuning.trials())
        self._shown = ""
        self._line = None
        if drawn(sys.stderr):
            from dlrun.terminal.status_line import LiveLine

            # Trials are started with a function between fork and exec, which is not safe beside a thread.
            self._line = LiveLine(lambda: self._shown, thread=False)

    def notice(self, text: str) -> None:
        """Print a message."""
        self.hide()
        notice(text)

    def print_new_trials(self) -> None:
        """Print the trials that have ended since the last call."""
        trials = self._tuning.trials()
        for number, trial in enumerate(trials[self._seen :], self._seen + 1):
            self.notice(described(number, trial))
        self._seen = len(trials)

    def update(self) -> None:
        """Draw the status line, if a trial runs."""
        if self._line is not None:
            self._shown = self._text()
            if self._shown:
                self._line.show()

    def hide(self) -> None:
        """Erase the status line."""
        if self._line is not None:
            self._line.hide()

    def _text(self) -> str:
        running = self._tuning.running()
        if not running:
            return ""
        trials, now = self._tuning.trials(), time.time()
        seconds = [max(0.0, now - began) for _, began in running]
        names = [name for name, _ in running]
        coming = upcoming(self._tuning.candidates, trials, repeat=self._tuning.repeat)
        if coming is not None and names == [directory_name(coming.candidate.name)]:
            names = [coming.candidate.name]
        used = self._tuning.used() + self._tuning.hours(sum(seconds))
        last = len(trials) + len(names)
        number = f"{len(trials) + 1}-{last}" if len(names) > 1 else str(last)
        return (
            f"{number}: {', '.join(names)}: running for {clock(max(seconds))}; "
            f"{used / self._tuning.budget:.0%} of {self._tuning.budget:.3g} node-hours used"
        )
