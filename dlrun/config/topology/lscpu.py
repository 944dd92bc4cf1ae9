"""A node's topology from `lscpu -p=CPU,CORE,SOCKET,NODE[,CACHE]`: cores and NUMA nodes, no devices."""

from __future__ import annotations

from dlrun.model.text import digits
from dlrun.model.topology import Core, NumaNode, Topology, validated


def read_lscpu(text: str, *, name: str = "") -> Topology:
    """The topology in the output of `lscpu -p`, whose last comment line has the column names.

    `lscpu` numbers cores over the whole machine; these numbers replace the firmware's core ids. Offline CPUs are not
    listed. Raises ValueError if a column is missing or a line is not numbers.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headers = [line[1:].strip().lower().split(",") for line in lines if line.startswith("#") and "," in line]
    # Comment lines with prose also contain commas; the one with the columns begins with CPU.
    columns = next((header for header in reversed(headers) if header[0] == "cpu"), [])
    if "core" not in columns or "socket" not in columns:
        raise ValueError("the output of `lscpu -p` needs the columns CPU, CORE and SOCKET (and NODE)")
    rows = [dict(zip(columns, line.split(","), strict=False)) for line in lines if not line.startswith("#")]
    if not rows:
        raise ValueError("the output of `lscpu -p` lists no CPU")
    pus: dict[int, list[int]] = {}
    first: dict[int, dict[str, str]] = {}
    for row in rows:
        core = _number(row, "core", -1)
        pus.setdefault(core, []).append(_number(row, "cpu", -1))
        first.setdefault(core, row)
    cores = [
        Core(
            pus=tuple(sorted(pus[core])),
            package=max(0, _number(row, "socket", 0)),
            numa=max(0, _number(row, "node", 0)),
            l3=_number(row, "l3", max(0, _number(row, "node", 0))),
            core_id=core,
        )
        for core, row in first.items()
    ]
    if min(pu for core in cores for pu in core.pus) < 0 or min(first) < 0:
        raise ValueError("the output of `lscpu -p` has a line without a CPU or a core")
    nodes = tuple(NumaNode(id=n) for n in sorted({core.numa for core in cores}))
    return validated(Topology(cores=tuple(cores), numa_nodes=nodes, name=name, source="lscpu -p"))


def _number(row: dict[str, str], column: str, otherwise: int) -> int:
    text = row.get(column, "")
    if text in ("", "-"):
        return otherwise
    if not digits(text):
        raise ValueError(f"`{text}` in column {column} of `lscpu -p` is not a number")
    return int(text)
