"""Entry point of the `dlrun` program; installs the signal handlers before it imports anything else."""

from dlrun.terminal import signals

signals.install()

from dlrun.cli import imports  # noqa: E402 - after the handlers

imports.install()

import gc  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

GC_THRESHOLD = 100_000
"""Allocations between garbage collections. A plan allocates 50,000 objects and keeps nearly all of them; with Python's default
of 700, repeated collections take a tenth of a dry run's time."""


def main() -> None:
    """Run `dlrun`."""
    if sys.argv[1:] in (["--help"], ["-h"]) and _front_page():
        return
    gc.set_threshold(GC_THRESHOLD)
    try:
        from dlrun.cli.main import main as command
    except Exception:
        foreign = imports.foreign()
        if foreign is None:
            raise
        sys.exit("error: {}\n   = help: {}".format(*foreign))
    try:
        command()
    finally:
        gc.freeze()  # else Python looks for garbage as it ends, a sixth of a dry run's time, in memory that ends with it


def _front_page() -> bool:
    """Print the help page, which was made before; False if it is not there for this width, or cannot be written."""
    from dlrun.cli.front_pages import PAGES

    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
    except (OSError, ValueError):
        columns = 80
    page = PAGES.get(min(columns, max(PAGES)))
    if page is None or sys.stdout is None:
        return False
    rest = page.encode("ascii")
    try:
        while rest:
            rest = rest[os.write(1, rest) :]
    except OSError:  # the whole program reports the reason
        return False
    return True
