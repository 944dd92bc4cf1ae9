"""What runs on this machine, from /proc: not every machine has `ps` and `pgrep`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def _stats() -> Iterator[tuple[int, str, list[str]]]:
    """Number, name and the other fields of `stat`, from the state on, of each process."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it has ended
                name, _, rest = (
                    (process / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
                )
                yield int(process.name), name, rest.split()


def is_over(number: int) -> bool:
    """Whether a process has ended, though its parent may not have asked how; it may go between two looks."""
    try:
        return Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def matching(pattern: str) -> list[int]:
    """Processes in whose command line, its words with blanks between them, this regular expression matches."""
    found = []
    for number, _, _ in _stats():
        with suppress(OSError):
            line = Path(f"/proc/{number}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
            if re.search(pattern, line):
                found.append(number)
    return found


def of_session(session: int) -> list[int]:
    """Processes of a session."""
    return [number for number, _, fields in _stats() if int(fields[3]) == session]


def children(parent: int) -> list[str]:
    """The names of the processes that a process has started."""
    return [name for _, name, fields in _stats() if int(fields[1]) == parent]
