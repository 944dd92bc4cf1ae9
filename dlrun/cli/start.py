"""Entry point: signal handlers are installed before other imports."""

from dlrun.cli import ending

ending.watch()

import gc  # noqa: E402 - after the handlers, as all else

OBJECTS = 100_000
"""New objects after which Python looks for garbage. To start and to plan makes 50,000, nearly all of which stay; with
Python's own 700 it looks through them again and again, for a tenth of a dry run's time."""


def main() -> None:
    """Run `dlrun`."""
    gc.set_threshold(OBJECTS)
    from dlrun.cli.main import main as command

    command()
