"""Where the program begins: the handlers of signals are there before anything else is imported."""

from __future__ import annotations

import gc

from dlrun.cli import ending

OBJECTS = 100_000
"""New objects after which Python looks for garbage. To start and to plan makes 50,000, nearly all of which stay; with
Python's own 700 it looks through them again and again, for a tenth of a dry run's time."""


def main() -> None:
    """Run `dlrun`."""
    gc.set_threshold(OBJECTS)
    ending.watch()
    from dlrun.cli.main import main as command

    command()
