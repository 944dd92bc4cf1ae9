"""Entry point of the `dlrun` program; installs the signal handlers before it imports anything else."""

from dlrun.cli import signals

signals.install()

import gc  # noqa: E402 - after the handlers

GC_THRESHOLD = 100_000
"""Allocations between garbage collections. A plan allocates 50,000 objects and keeps nearly all of them; with Python's default
of 700, repeated collections take a tenth of a dry run's time."""


def main() -> None:
    """Run `dlrun`."""
    gc.set_threshold(GC_THRESHOLD)
    from dlrun.cli.main import main as command

    command()
