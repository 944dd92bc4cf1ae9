"""Shape of the copy, and its estimated time: a chain, or a tree where the chain would take longer.

With S bytes, N nodes and B bytes/s, a chain takes S/B + (N - 1) h, and a binary tree 2 S/B + log2(N) h, since its inner
nodes send everything twice. `h` is the delay of a hop: its latency and the time of one segment.
"""

import math
from typing import List, Tuple

from ..common.errors import Usage

SHAPES = ("auto", "chain", "tree")
HOP = 0.0006  # latency of a hop in seconds, measured between two processes of one machine
SEGMENT = 256 << 10  # bytes that are forwarded at a time


def children(node: int, count: int, shape: str) -> List[int]:
    """The nodes that a node sends to, in a `chain` or `tree` of `count` nodes."""
    wanted = [node + 1] if shape == "chain" else [2 * node + 1, 2 * node + 2]
    return [child for child in wanted if child < count]


def _seconds(shape: str, count: int, size: float, rate: float) -> float:
    """Estimated seconds to send `size` bytes to `count` nodes over links of `rate` bytes/s."""
    delay = HOP + SEGMENT / rate
    if shape == "chain":
        return size / rate + (count - 1) * delay
    return (2 if count > 2 else 1) * size / rate + math.ceil(math.log2(max(2, count))) * delay


def choose(count: int, size: float, rate: float) -> str:
    """The faster of chain and tree for a data set."""
    return min(("chain", "tree"), key=lambda shape: _seconds(shape, count, size, rate))


def group(names: List[str], index: int, readers: int) -> Tuple[List[str], int]:
    """(hosts of the chain of a node, its index there): the host list is cut into `readers` chains of equal length."""
    if not 0 <= index < len(names):
        raise Usage("--index {} is not one of the {} hosts".format(index, len(names)))
    count = max(1, min(readers, len(names)))
    starts = [len(names) * k // count for k in range(count + 1)]
    mine = next(k for k in range(count) if starts[k] <= index < starts[k + 1])
    return names[starts[mine] : starts[mine + 1]], index - starts[mine]
