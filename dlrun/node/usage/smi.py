"""NVIDIA GPUs from the output of `nvidia-smi`, if NVML cannot be loaded."""

from typing import Any, Dict, List, Optional

from .vendor_program import VendorProgram

_QUERY = (
    "name,uuid,memory.total,clocks.max.sm,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm,"
    "temperature.gpu,clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total"
)
COMMAND = ("nvidia-smi", "--query-gpu=" + _QUERY, "--format=csv,noheader,nounits")
_MEGABYTE = 1 << 20


def parse(text: str) -> List[List[str]]:
    """The cells of each GPU; raises OSError for other output than the requested table."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) != _QUERY.count(",") + 1 for row in rows):
        raise OSError("nvidia-smi printed no table")
    return rows


def describe_card(cells: List[str]) -> Dict[str, Any]:
    """The constant facts of a GPU."""
    name, uuid, memory, clock = cells[:4]
    return {"name": name, "uuid": uuid, "memory": _bytes(memory), "clock": _number(clock), "mig": False}


def row(cells: List[str]) -> List[Any]:
    """The values of `gpus.COLUMNS` from a row of the table."""
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


def open_smi() -> VendorProgram:
    """The GPUs that `nvidia-smi` lists."""
    return VendorProgram(COMMAND, parse, describe_card, row)
