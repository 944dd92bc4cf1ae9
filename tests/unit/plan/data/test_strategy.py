"""How nodes get a data set whose strategy is left open."""

from __future__ import annotations

import pytest

from dlrun.model.data import DataSet, NodeLocal
from dlrun.model.observed import DataSize
from dlrun.model.units import Bytes
from dlrun.plan.data.strategy import choose_strategy, sized

SSD = NodeLocal(path="/local", size=Bytes(10**12))
UNKNOWN = NodeLocal(path="$TMPDIR")
SHM = sized(NodeLocal(path="/dev/shm"), Bytes(10**11))


def found(size: int, files: int, *, whole: bool = True) -> DataSize:
    return DataSize(size=Bytes(size), files=files, whole=whole)


@pytest.mark.parametrize(
    ("data", "measured", "local", "nodes", "strategy", "fallback", "said"),
    [
        ({}, found(10**11, 10), SSD, 8, "copy", False, "instead of by 8 nodes in every epoch"),
        ({"reads": 90}, found(10**11, 1), SSD, 8, "copy", False, "its 100GB in 1 file fits the 1TB"),
        ({"reads": 1}, found(10**11, 10), SSD, 1, "in_place", False, "read only once by one node"),
        ({"reads": 1}, found(10**11, 10), SSD, 2, "copy", False, "instead of by 2 nodes once each"),
        (
            {},
            found(2 * 10**12, 10),
            SSD,
            8,
            "part",
            True,
            "every epoch reads the other 1050GB from the shared",
        ),
        ({"reads": 1}, found(2 * 10**12, 10), SSD, 1, "in_place", False, "reads it only once"),
        ({}, found(10**13, 10), SSD, 8, "in_place", False, "is less than 10% of it"),
        (
            {},
            found(96 * 10**10, 10),
            SSD,
            1,
            "part",
            True,
            "950GB of it, small files first",
        ),  # full disks are slow
        ({}, None, SSD, 8, "part", True, "the part that fits on every node"),
        ({}, found(10**9, 10), UNKNOWN, 8, "part", True, "should a node not have the space"),
        ({}, found(10**9, 10, whole=False), UNKNOWN, 8, "part", True, "more than 1GB"),
        (
            {},
            found(10**9, 10, whole=False),
            SSD,
            8,
            "part",
            True,
            "more than 1GB in 10 files, not fully counted",
        ),
        (
            {"reads": 1},
            found(10**9, 10, whole=False),
            SSD,
            1,
            "in_place",
            False,
            "read only once by one node",
        ),
        ({"size": Bytes(10**9)}, None, SSD, 8, "copy", False, "its 1GB fits"),
        (
            {},
            found(10**10, 10),
            SHM,
            8,
            "part",
            True,
            "fits the 50GB of memory for data on a node (/dev/shm)",
        ),
        ({}, found(6 * 10**10, 10), SHM, 8, "part", True, "47500MB of it"),
    ],
)
def test_the_choice(data, measured, local, nodes, strategy, fallback, said):
    choice = choose_strategy(DataSet(source="/x", **data), measured, local, nodes)
    assert (choice.strategy, choice.fallback) == (strategy, fallback)
    assert said in choice.because


@pytest.mark.parametrize(
    ("measured", "nodes", "advice", "not_advice"),
    [
        (found(2 * 10**12, 10), 4, "strategy: shard", "pack"),
        (found(9 * 10**12, 10), 4, "lfs setstripe -c 4 -S 4M", "shard"),
        (found(9 * 10**12, 10), 64, "lfs setstripe -c 16 -S 4M", "pack"),
        (found(2 * 10**12, 40_000_000), 1, "--strategy pack", "setstripe"),
    ],
)
def test_what_does_not_fit_comes_with_advice(measured, nodes, advice, not_advice):
    choice = choose_strategy(DataSet(source="/x"), measured, SSD, nodes)
    assert advice in choice.advice
    assert not_advice not in choice.advice


@pytest.mark.parametrize(
    ("local", "memory", "size"),
    [
        (NodeLocal(path="/dev/shm"), Bytes(10**11), Bytes(5 * 10**10)),
        (NodeLocal(path="/mnt/ram", kind="memory"), Bytes(10**11), Bytes(5 * 10**10)),
        (NodeLocal(path="/mnt/ram", kind="memory", size=Bytes(10**9)), Bytes(10**11), Bytes(10**9)),
        (NodeLocal(path="/dev/shm"), None, None),
        (NodeLocal(path="/local"), Bytes(10**11), None),
    ],
)
def test_storage_that_is_memory_is_a_part_of_the_jobs_memory(local, memory, size):
    assert sized(local, memory).size == size
