"""A placement as rows of text: `dlrun.terminal.table` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.cpuset import format_list, join
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.units import many


def rows(placement: Placement) -> list[list[str]]:
    """A row of titles, and a row per rank, without columns that are empty for all ranks."""
    columns = ["rank", "threads", "cores", "comm", "loader", "memory", "GPUs", "NIC", "spare"]
    cells = [_row(rank) for rank in placement.ranks]
    used = [i for i, name in enumerate(columns) if i < 3 or any(row[i] for row in cells)]
    return [[row[i] or "-" for i in used] for row in (columns, *cells)]


def headline(placement: Placement) -> str:
    """A one-line summary of the node."""
    node = placement.node
    parts = [
        many(node.packages, "package"),
        many(node.numa_nodes, "NUMA node"),
        many(node.cores, "core"),
        many(node.pus, "hardware thread"),
    ]
    if node.usable_cores < node.cores:
        parts[2] += f" ({node.usable_cores} usable)"
    parts += [many(node.gpus, "GPU")] if node.gpus else []
    parts += [many(len(node.nics), "NIC")] if node.nics else []
    return f"{node.name or 'node'}: {', '.join(parts)}"


def _row(rank: RankPlacement) -> list[str]:
    memory = rank.memory
    return [
        str(rank.rank),
        str(rank.threads),
        compact(rank.cores),
        join(rank.comm),
        compact(rank.loader),
        "" if memory.policy == "none" else f"{memory.policy} {format_list(memory.nodes)}",
        join(rank.gpus),
        rank.nic or "",
        compact(rank.spare),
    ]


def compact(cpus: Sequence[int]) -> str:
    """A CPU list with strides, such as `0-46:2`."""
    words, rest = [], sorted(cpus)
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        run = 1
        while run < len(rest) and rest[run] == rest[run - 1] + step:
            run += 1
        if run >= 3 or (run == 2 and step == 1):
            words.append(f"{rest[0]}-{rest[run - 1]}" + (f":{step}" if step > 1 else ""))
        else:
            run = 1
            words.append(str(rest[0]))
        rest = rest[run:]
    return ",".join(words)
