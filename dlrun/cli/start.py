"""Where the program begins: the handlers of signals are there before anything else is imported."""

from __future__ import annotations

from dlrun.cli import ending


def main() -> None:
    """Run `dlrun`."""
    ending.watch()
    from dlrun.cli.main import main as command

    command()
