"""The batch scripts of `cases/`: ten of each kind of fault, each with the verdict about its import."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
_CASE = re.compile(r"^=== (\d+): (\S+)\n(.*?)(?=^=== |\Z)", re.MULTILINE | re.DOTALL)


def cases() -> Iterator[tuple[str, str, str]]:
    """(kind and number, verdict, script) of each case: equal, or check (the import says what differs, and exits with 5)."""
    for path in sorted(FOLDER.glob("*.txt")):
        for number, verdict, script in _CASE.findall(path.read_text("utf-8")):
            yield f"{path.stem}-{number}", verdict, script
