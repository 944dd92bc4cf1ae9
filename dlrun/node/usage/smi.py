"""NVIDIA GPUs through the text of `nvidia-smi`, where its library cannot be loaded: once a minute, for it starts slowly."""

import contextlib
import os
import subprocess
import time
from typing import Any, Dict, List, Optional

_QUERY = (
    "name,uuid,memory.total,clocks.max.sm,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm,"
    "temperature.gpu,clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total"
)
COMMAND = ("nvidia-smi", "--query-gpu=" + _QUERY, "--format=csv,noheader,nounits")
_PAUSE = 60.0
_MEGABYTE = 1 << 20


class Smi:
    """The GPUs that `nvidia-smi` lists; OSError if it is missing or fails."""

    def __init__(self) -> None:
        self._asked = time.monotonic()
        self._table = _ask()

    def describe(self) -> List[Dict[str, Any]]:
        """Name, UUID, memory in bytes, and highest clock in MHz of each GPU."""
        return [
            {
                "name": row[0],
                "uuid": row[1],
                "memory": _bytes(row[2]),
                "clock": _number(row[3]),
                "mig": False,
            }
            for row in self._table
        ]

    def rows(self) -> List[List[Any]]:
        """The numbers of `gpus.COLUMNS` for each GPU, at most a minute old."""
        if time.monotonic() - self._asked >= _PAUSE:
            self._asked = time.monotonic()
            with contextlib.suppress(OSError):
                self._table = _ask()
        return [of_gpu(row) for row in self._table]

    def processes(self) -> List[List[int]]:
        """Not asked for: that would be another start of the program."""
        return [[] for _ in self._table]


def _ask() -> List[List[str]]:
    kept = {name: value for name, value in os.environ.items() if name != "DLRUN_PROCESS"}
    try:
        done = subprocess.run(
            COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept,
            timeout=20, check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from None
    return parse(done.stdout.decode("utf-8", "replace"))


def parse(text: str) -> List[List[str]]:
    """One row for each GPU; OSError for text that is not the table asked for."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) != _QUERY.count(",") + 1 for row in rows):
        raise OSError("nvidia-smi printed no table")
    return rows


def of_gpu(cells: List[str]) -> List[Any]:
    """The numbers of `gpus.COLUMNS` from a row of the table."""
    from .nvml import SLOWED

    busy, of_memory, used, power, clock, heat, active, ecc = cells[4:]
    try:
        reasons: Any = sorted({word for bit, word in SLOWED.items() if int(active, 16) & bit})
    except ValueError:
        reasons = None
    return [
        _number(busy), _number(of_memory), _bytes(used), _number(power), _number(clock), _number(heat), reasons,
        _number(ecc),
    ]  # fmt: skip


def _number(cell: str) -> Optional[int]:
    try:
        return round(float(cell))
    except ValueError:  # `[N/A]`, `[Not Supported]`
        return None


def _bytes(cell: str) -> Optional[int]:
    number = _number(cell)
    return None if number is None else number * _MEGABYTE
