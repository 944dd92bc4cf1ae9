"""Nodes whose ranks divided a grant that was not the plan's (`placement/HOST` in a run's directory)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dlrun.model.cpuset import format_list
from dlrun.system.paths import read_bytes

DIRECTORY = "placement"
"""Directory of these records, which the first rank of each such node writes (templates/lib/divide.sh)."""
_MOST = 1 << 20
"""Maximum bytes of a record."""
_NODES = 8
"""Maximum number of nodes that are listed."""


def divisions(run: Path | str) -> list[str]:
    """A line per node of a run, then the number of further ones; unreadable records are left out."""
    paths = sorted(path for path in (Path(run) / DIRECTORY).glob("*") if path.name != ".dlrun")
    lines = [line for path in paths[:_NODES] if (line := _line(path)) is not None]
    more = len(paths) - _NODES
    return (
        [*lines, f"and {more} more nodes that were granted something else than planned"]
        if more > 0
        else lines
    )


def _line(path: Path) -> str | None:
    try:
        record: dict[str, Any] = json.loads(read_bytes(path, _MOST))
        ranks = [(int(rank["rank"]), str(rank["cpus"]), str(rank["gpus"])) for rank in record["ranks"]]
        where, because, granted = (str(record[name]) for name in ("host", "because", "granted"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    who = format_list([rank for rank, _, _ in ranks])
    each = "; ".join(f"{cpus or 'none of its own'}{gpus and f' (GPU {gpus})'}" for _, cpus, gpus in ranks)
    return f"{where}: {because}; ranks {who} divide CPUs {granted}: {each}"
