"""Which known name is taken for the one that was meant."""

from __future__ import annotations

import pytest

from dlrun.model.nearest import RELATED, SLIP, nearest

KEYS = [
    "name", "nodes", "node_type", "ranks", "ranks_per_node", "cpus_per_rank", "gpus_per_node", "memory_per_node",
    "threads_per_core", "walltime", "partition", "constraint", "stage_quota", "shared", "to", "requeue",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # a slip of the finger
        ("walltme", "walltime"),
        ("wall_time", "walltime"),
        ("nodess", "nodes"),
        ("naem", "name"),
        ("gpus_per_nodes", "gpus_per_node"),
        # comes before a word in common
        ("node", "nodes"),
        ("rank", "ranks"),
        # all words of the one are in the other, whatever their number
        ("threads", "threads_per_core"),
        ("gpus", "gpus_per_node"),
        ("gpu", "gpus_per_node"),
        ("memory", "memory_per_node"),
        ("quota", "stage_quota"),
        ("per_node", "gpus_per_node"),
        ("node_count", "nodes"),
        ("job_name", "name"),
        # the one is a beginning of the other
        ("mem", "memory_per_node"),
        ("part", "partition"),
        ("namespace", "name"),
        # or a part of it
        ("time", "walltime"),
        ("queue", "requeue"),
        # letters in common
        ("unconstrained", "constraint"),
        # how it is written does not matter
        ("WallTime", "walltime"),
        ("gpus-per-node", "gpus_per_node"),
        ("--nodes", "nodes"),
        # too short to mean anything by its letters, or like nothing
        ("to_disk", None),
        ("xy", None),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_name_that_was_meant(name, expected):
    assert nearest(name, KEYS) == expected


@pytest.mark.parametrize(
    ("name", "cutoff", "expected"),
    [
        ("threads", 0.6, "threads_per_core"),
        ("threads", SLIP, None),
        ("walltme", SLIP, "walltime"),
        ("walltme", 0.99, None),
        ("threads", RELATED, "threads_per_core"),
        ("sharped", SLIP, "shared"),
    ],
)
def test_who_asks_for_more_hears_of_less(name, cutoff, expected):
    assert nearest(name, KEYS, cutoff=cutoff) == expected


def test_letters_in_common_alone_do_not_pass_for_words():
    assert nearest("threads", ["shared", "storage"], cutoff=RELATED) is None


def test_names_come_back_as_they_are_written():
    assert nearest("master_adr", ["MASTER_ADDR", "MASTER_PORT"]) == "MASTER_ADDR"
    assert nearest("--sit", ["--site", "--set"]) == "--site"
