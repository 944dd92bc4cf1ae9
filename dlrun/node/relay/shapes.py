"""Which node sends to which, and what that costs: a chain by default, a tree where the chain would be too long.

A chain takes S/B + (N - 1) h: the wire's own time and one hop's delay a node. A tree of two children takes
2 S/B + log2(N) h, because its inner nodes send everything twice. `h` is a segment's time and the hop's latency.
"""

import math
from typing import List, Tuple

from ..common.errors import Usage

SHAPES = ("auto", "chain", "tree")
HOP = 0.0006  # seconds that a hop adds besides the segment: measured between two processes of one machine
SEGMENT = 256 << 10  # bytes that are passed on at once


def children(node: int, count: int, shape: str) -> List[int]:
    """The nodes that a node sends to; shape is chain or tree."""
    wanted = [node + 1] if shape == "chain" else [2 * node + 1, 2 * node + 2]
    return [child for child in wanted if child < count]


def seconds(shape: str, count: int, size: float, rate: float, hop: float = HOP) -> float:
    """The model's time to send `size` bytes to `count` nodes over links of `rate` bytes a second."""
    delay = hop + SEGMENT / rate
    if shape == "chain":
        return size / rate + (count - 1) * delay
    if shape == "tree":
        return (2 if count > 2 else 1) * size / rate + math.ceil(math.log2(max(2, count))) * delay
    return count * size / rate  # every node reads for itself through one link


def choose(count: int, size: float, rate: float) -> str:
    """The faster of chain and tree for a data set."""
    return min(("chain", "tree"), key=lambda shape: seconds(shape, count, size, rate))


def group(names: List[str], index: int, readers: int) -> Tuple[List[str], int]:
    """The hosts of the chain that a node belongs to and its place there: `readers` chains of equal length."""
    if not 0 <= index < len(names):
        message = "--index {} is not one of the {} hosts".format(index, len(names))
        raise Usage(message)
    count = max(1, min(readers, len(names)))
    starts = [len(names) * k // count for k in range(count + 1)]
    mine = next(k for k in range(count) if starts[k] <= index < starts[k + 1])
    return names[starts[mine] : starts[mine + 1]], index - starts[mine]
