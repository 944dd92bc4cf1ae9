"""The part of a rank's memory that is on the NUMA nodes of its cores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dlrun.node.usage import numa, procfs
from dlrun.node.usage.ranks import Rank

# numa(7) has the words of these lines; the second is of huge pages, which are counted in their own size (numactl, issue 147)
MAPS = b"""\
55cdae5f7000 default file=/usr/bin/python3.11 mapped=12 mapmax=4 active=0 N0=12 kernelpagesize_kB=4
7f0a40000000 default huge anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=2048
55cdb12b1000 default heap anon=1024 dirty=1024 N1=1024 kernelpagesize_kB=4
7ffc2d9f1000 default stack anon=3 dirty=3 N1=3
7ffc2d9fa000 default
"""


def tree(place: Path, *cores: str) -> str:
    """The kernel's files of so many NUMA nodes."""
    for number, text in enumerate(cores):
        (place / f"node{number}").mkdir()
        (place / f"node{number}" / "cpulist").write_text(text + "\n")
    (place / "online").write_text("0\n")
    return str(place)


def rank(name: str, cores: set[int], main: int = 0) -> Rank:
    made = Rank(name)
    made.main, made.cores = main or os.getpid(), frozenset(cores)
    return made


def test_pages_count_in_their_size_and_those_of_files_do_not():
    own = 3 * 4 + 1024 * 4 + 2 * 2048
    assert numa.near(MAPS, frozenset([1])) == round(own / (own + 2048), 3)
    assert numa.near(MAPS, frozenset([0, 1])) == 1
    assert numa.near(b"7ffc2d9fa000 default\n", frozenset([0])) is None
    assert numa.near(b"", frozenset([0])) is None


@pytest.fixture
def reads(monkeypatch):
    """The files that are read."""
    found, read = [], procfs.read
    monkeypatch.setattr(procfs, "read", lambda path: (found.append(path), read(path))[1])
    return found


def maps(place: Path, *pids: int) -> str:
    for pid in pids:
        (place / str(pid)).mkdir()
        (place / str(pid) / "numa_maps").write_bytes(MAPS)
    return str(place)


def test_one_rank_a_minute_in_turn(tmp_path, reads, monkeypatch):
    (tmp_path / "proc").mkdir()
    (tmp_path / "sys").mkdir()
    look = numa.Locality(tree(tmp_path / "sys", "0-3", "4-7"), maps(tmp_path / "proc", 11, 12))
    ranks = [rank("rank-0", {0, 1}, 11), rank("rank-1", {4}, 12)]
    reads.clear()
    for _ in range(3):
        look.sample(ranks)
    assert [one.near for one in ranks] == [0.2, None]
    assert len(reads) == 1
    later = numa.time.monotonic() + 61
    monkeypatch.setattr(numa.time, "monotonic", lambda: later)
    look.sample(ranks)
    assert [one.near for one in ranks] == [0.2, 0.8]
    assert not look.missing


@pytest.mark.parametrize(
    ("nodes", "cores"), [(["0-7"], {0, 1}), (["0-3", "4-7"], {1, 5}), (["0-7", ""], {0}), ([], {0})]
)
def test_nothing_is_read_where_there_is_no_difference(tmp_path, reads, nodes, cores):
    look = numa.Locality(tree(tmp_path, *nodes))  # the last node of the third case has memory alone
    reads.clear()
    one = rank("rank-0", cores)
    look.sample([one])
    assert (one.near, reads, look.missing) == (None, [], set())


def test_what_cannot_be_read_is_named_and_a_rank_that_ended_is_not(tmp_path):
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc" / "11").mkdir(parents=True)
    (tmp_path / "proc" / "11" / "stat").touch()
    base = tree(tmp_path / "sys", "0-3", "4-7")
    gone = numa.Locality(base, str(tmp_path / "proc"))
    gone.sample([rank("rank-0", {0}, 99)])
    assert not gone.missing
    closed = numa.Locality(base, str(tmp_path / "proc"))
    closed.sample([rank("rank-0", {0}, 11)])
    assert closed.missing == {"near: /proc/PID/numa_maps cannot be read"}


def test_a_process_of_this_kernel(tmp_path):
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no /proc/PID/numa_maps")
    look = numa.Locality(tree(tmp_path, "0-3", "4-7"))
    program = "x = bytearray(50 << 20); print(len(x), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        one = rank("rank-0", {0}, process.pid)
        look.sample([one])
        process.communicate(b"\n")
    assert one.near is not None
    assert 0 <= one.near <= 1
