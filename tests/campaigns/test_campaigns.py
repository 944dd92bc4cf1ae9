"""A few of each campaign; `python -m tests.campaigns KIND --count 1000` runs a long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import examples

from .__main__ import campaign
from .submissions import HERE, SSH_COMMANDS

ROOT = Path(__file__).parents[2]


IMAGES = ("mksquashfs", "unsquashfs")


def shapes(quick: tuple[str, int], *others: tuple[str, int]) -> list:
    """Shapes with the number of runs: the quick tests have the first."""
    image = pytest.mark.needs(*IMAGES)
    return [
        quick,
        *(pytest.param(*one, marks=[pytest.mark.slow, *[image] * ("image" in one[0])]) for one in others),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "count"),
    shapes(
        ("copy", 15),
        ("pack", 15),
        ("shard", 5),
        ("part", 5),
        ("web", 5),
        ("s3", 5),
        ("archive-web", 5),
        ("archive", 5),
        ("chain", 2),
        ("image", 8),
        ("chain-image", 2),
    ),
)
def test_nothing_torn_is_published_wherever_a_copy_is_killed(shape, count):
    assert campaign("kills", shape, count, 20261122)["killed"] == count


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "count"), shapes(("pack", 10), ("copy", 15), ("chain", 2)))
def test_whatever_the_system_refuses_the_next_run_is_right(shape, count):
    assert campaign("faults", shape, count, 20261122)["repaired"] == count + 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount and to stop a file system")
@pytest.mark.parametrize(
    ("kind", "count"), [pytest.param("power-cuts", 8, marks=pytest.mark.needs(*IMAGES)), ("code", 15)]
)
def test_no_power_cut_harms_what_is_used_after_it(kind, count):
    words = [sys.executable, "-m", "tests.campaigns", kind, "--count", str(count), "--seed", "3"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if "mount" in found.stderr and found.returncode not in (0, 1):
        pytest.skip(f"cannot mount here: {found.stderr.splitlines()[-1]}")
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a disk of its own and a login node")
@pytest.mark.parametrize("commands", [HERE, SSH_COMMANDS], ids=["here", "ssh"])
def test_no_job_without_its_record_whenever_a_command_ends(commands):
    chosen = [word for command in commands for word in ("--command", command)]
    words = [
        sys.executable,
        "-m",
        "tests.campaigns",
        "submissions",
        "--count",
        str(examples(12)),
        "--seed",
        "3",
        *chosen,
    ]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if "mount" in found.stderr and found.returncode not in (0, 1):
        pytest.skip(f"cannot mount here: {found.stderr.splitlines()[-1]}")
    assert found.returncode == 0, found.stdout + found.stderr
