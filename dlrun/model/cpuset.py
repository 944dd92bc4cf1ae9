"""CPU lists (`0-3,8`) and masks (`0xff`) as Linux, Slurm, hwloc and the MPIs write them.

Sets of CPUs are tuples of operating-system ids: in ascending order, or in the order written where positions matter
(`MLSL_SERVER_AFFINITY`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dlrun.model.text import lazy_pattern

_RANGE = lazy_pattern(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_HEX = lazy_pattern(r"(?:0x)?([0-9a-f]+)", re.IGNORECASE)
_LIMIT = 65536
"""Bound of CPU ids and of the length of a list; Linux allows 8192 CPUs (`CONFIG_NR_CPUS`)."""


def parse_list(text: str) -> tuple[int, ...]:
    """CPU ids of a list such as `0-3,8,16-30:2` (the last with a stride), in the order written.

    An empty list is none. Raises ValueError for anything else.
    """
    cpus: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError(f"`{part}` is not a CPU or a range of CPUs such as `0-3`")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= _LIMIT or match[3] == "0":
            raise ValueError(f"`{part}` is not a range of CPUs")
        cpus += range(first, last + 1, int(match[3] or 1))
        # Checked in the loop: a list of many long ranges must not fill the memory.
        if len(cpus) > _LIMIT:
            raise ValueError(f"`{text[:40]}…` names more than {_LIMIT} CPUs")
    return tuple(cpus)


def format_list(cpus: Iterable[int]) -> str:
    """The shortest list of ranges with the same CPUs, ascending: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def join(cpus: Iterable[int]) -> str:
    """Ids separated by commas in the order given, no ranges: for tools that read positions."""
    return ",".join(str(cpu) for cpu in cpus)


def to_mask(cpus: Iterable[int]) -> str:
    """The set as one hexadecimal number, bit i for CPU i: `0xff`."""
    return hex(sum(1 << cpu for cpu in set(cpus)))


def parse_mask(text: str) -> tuple[int, ...]:
    """CPUs of a hexadecimal mask, ascending.

    Reads `0xff`, and groups of 32 bits as the kernel (`00000000,000000ff`) and hwloc (`0x1,,0x0`, empty
    for zero) write them. Raises ValueError for anything else.
    """
    groups = text.strip().split(",")
    bits = 0
    for group in groups:
        match = _HEX.fullmatch(group)
        if not (match or (group == "" and len(groups) > 1)) or (
            len(groups) > 1 and len(match[1] if match else "") > 8
        ):
            raise ValueError(f"`{text[:80]}` is not a hexadecimal CPU mask")
        bits = bits << 32 | (int(match[1], 16) if match else 0)
    if bits.bit_length() > _LIMIT:
        raise ValueError(f"`{text[:40]}` names more than {_LIMIT} CPUs")
    return tuple(i for i in range(bits.bit_length()) if bits >> i & 1)
