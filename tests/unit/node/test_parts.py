"""The small parts of the data mover, each for the one thing it is for."""

import ast
import errno
import json
import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import dlrun.node
import pytest
from dlrun.node import bundle
from dlrun.node.blocks import hashing, journal, progress_board
from dlrun.node.commands import options
from dlrun.node.common import system, text
from dlrun.node.common.concurrency import MAX, Concurrency
from dlrun.node.common.errors import SourceFault, Usage
from dlrun.node.relay import messages
from dlrun.node.source import selection, walk
from dlrun.node.source.selection import PathFilter
from dlrun.node.store.area import Area
from dlrun.node.transfer import read_blocks, task, write_blocks

from tests import programs

from .programs import ROOT
from .trees import odd, snapshot, write

NODE = Path(dlrun.node.__file__).parent


def test_a_torn_journal_is_believed_up_to_the_tear(tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY)
    written = journal.Journal(directory, "a" * 64, "1")
    for block in range(10):
        written.add(block, b"%04d" % block)
    other = journal.Journal(directory, "b" * 64, "1")
    other.add(77, b"else")
    path = next(tmp_path.glob("journal.a*"))
    whole = path.read_bytes()
    record = len(whole) // 10
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert journal.read(directory, "a" * 64) == {block: b"%04d" % block for block in range(cut // record)}
    damaged = bytearray(whole)
    damaged[record * 4 + record - 1] ^= 1
    path.write_bytes(damaged)
    assert sorted(journal.read(directory, "a" * 64)) == [0, 1, 2, 3]
    journal.replace(directory, "c" * 64, {5: b"five"})
    assert journal.read(directory, "a" * 64) == {}
    assert journal.read(directory, "c" * 64) == {5: b"five"}
    os.close(directory)


def test_the_disk_is_behind_while_anything_waits_for_it(monkeypatch):
    counted, clock = [], iter([1.0, 2.0, 4.0, 10.0, 11.0])
    monkeypatch.setattr(write_blocks.time, "perf_counter", lambda: next(clock))
    backlog = write_blocks.Backlog(lambda _, amount: counted.append(amount / 1e9))
    backlog.begin()  # at 1
    backlog.begin()
    backlog.end()  # at 2
    backlog.end()  # at 4; then the disk is idle
    backlog.begin()  # at 10
    backlog.end()  # at 11
    assert counted == [1, 2, 1]


class Unready:
    """A form whose disk fails when a thread begins: `fail` names what."""

    def __init__(self, fail):
        self.fail = fail

    def reader(self, hasher):
        return self._opened("reader")

    def writer(self, sync):
        return self._opened("writer")

    def _opened(self, what):
        if what == self.fail:
            raise OSError(errno.EIO, "the disk is gone")
        return SimpleNamespace(close=lambda: None)


def unready(fail):
    manifest = SimpleNamespace(size=lambda: 0, sizes=[])
    blocks = SimpleNamespace(large=[])
    return SimpleNamespace(
        layout=Unready(fail), sync=False, slow=False, hasher=hashing.hasher("sha1"), rate=0.0, manifest=manifest, blocks=blocks,
        board=SimpleNamespace(worker_count=1), source_reader=lambda: SimpleNamespace(close=lambda: None),
    )  # fmt: skip


def test_a_disk_that_fails_before_the_first_block_is_told():
    told = queue.Queue()
    write_blocks.BlockWriters(unready("writer"), None, 1, lambda *_: None, None, told.put)
    assert told.get(timeout=60).errno == errno.EIO


@pytest.mark.parametrize("fail", ["reader", "writer"])
def test_a_reader_that_cannot_begin_ends_the_reading(fail):
    pool = SimpleNamespace(allow=lambda _: None)
    reading = read_blocks.BlockReaders(unready(fail), task.Tokens(), None, pool, None, None, None)
    with pytest.raises(OSError, match="the disk is gone"):
        reading.run()


def report(node, disk=0.0, seconds=10.0, starved=0.0, held=0.0):
    return messages.Report(node, "copy", 0, seconds, starved, held, disk)


@pytest.mark.parametrize(
    ("reports", "found"),
    [
        ([report(0), report(1, 0.1), report(2, 0.9), report(3, 0.2)], (2, "its disk", 0.9)),
        ([report(0), report(1, 0.9), report(2, 0.9), report(3, 0.9)], None),
        # a node that was done early was busy for a part of the whole time only
        ([report(0), report(1, 0.1), report(2, 0.9), report(3, 0.95, seconds=2.0)], (2, "its disk", 0.9)),
        ([report(0, held=0.8), report(1, held=0.8), report(2, starved=0.8)], (2, "the network to it", 0.8)),
    ],
)
def test_the_slowest_node_is_the_one_that_stands_out(reports, found):
    sent_to = {report.node: [report.node + 1] for report in reports}
    assert messages.slowest({report.node: report for report in reports}, sent_to) == found


def served(width, latency, cores, seconds=3.0):
    """The width that is reached when each call takes `latency` seconds, of which 10 us are computing."""
    for _ in range(int(seconds / 0.05)):
        threads = width.target
        rate = min(threads / (latency + 1e-5), cores / 1e-5)
        width.step(rate * 0.05, 0.05, rate * 1e-5 * 0.05, 0.0)
    return width.target


def test_the_width_grows_with_latency_and_stays_one_without():
    assert served(Concurrency(), latency=0.002, cores=1) == MAX
    assert served(Concurrency(), latency=0.0, cores=1) == 1
    assert served(Concurrency(start=16), latency=0.0, cores=1) == 1


def test_the_width_goes_back_when_more_brings_nothing():
    width = Concurrency()
    for _ in range(100):  # a disk that gives 100 units a second however many ask
        width.step(5.0, 0.05, 0.001, 0.0)
    assert width.target <= 2


def test_the_width_stays_where_threads_wait_for_cores():
    width = Concurrency()
    for _ in range(100):  # half of the time others have the core
        width.step(5.0, 0.05, 0.025, 0.02)
        assert width.target == 1
    wide = Concurrency(start=16)
    wide.step(5.0, 0.05, 0.02, 0.1)  # two of sixteen threads wait for a core, the others for the source
    assert wide.target == 32


BESIDE = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from dlrun.node.common.system import waited_for_cores
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = os.fork()
while not other:  # on the same core
    pass
try:
    end = time.monotonic() + 300
    while waited_for_cores() < 0.1 and time.monotonic() < end:
        pass
    print(waited_for_cores())
finally:
    os.kill(other, signal.SIGKILL)
"""


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not count what waits for a core"
)
def test_the_time_that_a_process_waits_for_a_core_is_counted():
    done = subprocess.run([sys.executable, "-c", BESIDE, ROOT], check=True, capture_output=True, text=True)
    assert float(done.stdout) >= 0.1


def a_copy(lengths, worker_count):
    """A copy of blocks of these lengths, as far as dealing looks at it."""
    blocks = [SimpleNamespace(length=length) for length in lengths]
    nothing = task.Task._make([None] * len(task.Task._fields))
    return nothing._replace(blocks=blocks, board=progress_board.ProgressBoard(len(blocks), worker_count))


def dealt(lengths, numbers, worker_count, stretch=32 << 20):
    """The runs in which some of the blocks of these lengths are dealt, so many bytes at a time."""
    return a_copy(lengths, worker_count).ranges(numbers, stretch)


def test_each_lane_gets_neighbours_and_at_the_end_few():
    ranges = dealt([1 << 20] * 1000, range(1000), worker_count=2)
    assert [number for first, last in ranges for number in range(first, last + 1)] == list(range(1000))
    lengths = [last - first + 1 for first, last in ranges]
    assert lengths[0] == 32  # MiB
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == 1
    assert dealt([1 << 20] * 10, range(10), worker_count=2, stretch=0) == [
        (number, number) for number in range(10)
    ]


def test_a_run_goes_over_what_is_here_and_the_tokens_fit_the_pipe():
    assert dealt([1] * 100, [3, 4, 50], worker_count=1) == [(3, 3), (4, 4), (50, 50)]
    assert dealt([1] * 100, [*range(40), *range(60, 100)], worker_count=1)[1] == (20, 34)
    many = dealt([4 << 20] * 200_000, range(200_000), worker_count=4)
    assert len(many) <= 8000


def test_a_lane_is_given_all_blocks_one_by_one_and_then_the_end():
    tokens = task.Tokens()
    tokens.distribute(a_copy([1] * 64, 1), list(range(64)), 10)
    assert list(iter(tokens.next, None)) == list(range(64))
    assert tokens.next() is None


@pytest.mark.slow
@pytest.mark.each_python
def test_a_walk_of_a_slow_source_is_wide(tmp_path, monkeypatch):
    before = odd(tmp_path / "tree")
    for number in range(600):
        write(os.fsencode(tmp_path / "tree" / "many" / str(number)), b"")
    real, asking, most = os.lstat, [], []

    def slow(path, **more):
        asking.append(path)
        most.append(len(asking))
        time.sleep(0.01)  # one by one that would be six seconds: time for a second try on a busy machine
        asking.pop()
        return real(path, **more)

    forked, parts = walk.ForkedCall, []
    monkeypatch.setattr(os, "lstat", slow)
    monkeypatch.setattr(system, "waited_for_cores", lambda: 0.0)  # else a busy machine is no slow source
    monkeypatch.setattr(walk, "usable_cores", lambda: 3)
    monkeypatch.setattr(walk, "JOBS_PER_HELPER", 10)
    monkeypatch.setattr(walk, "ForkedCall", lambda *words: parts.append(words) or forked(*words))
    wide = walk.Walk(selection.parse(str(tmp_path / "tree")), selection.Options())
    wide.run()
    monkeypatch.undo()
    assert len(parts) == 2, "for each further core one process"
    assert max(most) >= 4, "so many calls were under way at once in one of them"
    assert wide.findings.slow, "the copy begins wide as well"
    narrow = walk.Walk(selection.parse(str(tmp_path / "tree")), selection.Options())
    narrow.run()
    assert sorted(wide.listings) == sorted(narrow.listings)
    for directory, listing in narrow.listings.items():
        listing.sort()
        wide.listings[directory].sort()
        assert wide.listings[directory].names == listing.names
        assert wide.listings[directory].statuses == listing.statuses
    assert before
    assert wide.targets == narrow.targets


def test_a_glob_selects_by_component_and_takes_all_below(tmp_path):
    for path in ("v1/train/a", "v1/test/a", "v2/train/b/c", "v2/other", "x[1]/f"):
        write(os.fsencode(tmp_path / path))
    found = selection.parse(str(tmp_path / "v*" / "train"))
    path_filter = PathFilter(found)
    assert found.root == os.fsencode(tmp_path)
    assert path_filter.includes_directory(b"v1")
    assert path_filter.includes_directory(b"v1/train")
    assert not path_filter.includes_directory(b"v1/test")
    assert path_filter.includes_file(b"v2/train/b/c")
    assert not path_filter.includes_file(b"v2/other")
    write(os.fsencode(tmp_path / "odd*[name]?"))
    odd_name = selection.parse(str(tmp_path / "odd*[name]?"))
    assert PathFilter(odd_name).includes_file(b"odd*[name]?")
    assert not PathFilter(odd_name).includes_file(b"oddXn?")
    with pytest.raises(SourceFault, match="does not exist"):
        selection.parse(str(tmp_path / "nothing" / "*.h5"))


def test_hashes_by_name():
    assert hashing.hasher("sha256").digest(b"abc").hex().startswith("ba7816bf8f01cfea")
    assert hashing.hasher("crc32").digest(b"abc") == (0x352441C2).to_bytes(4, "little")
    assert hashing.hasher("auto").name == ("xxh3" if "xxh3" in hashing.usable() else "sha1")
    for name in hashing.usable():
        assert len(hashing.hasher(name).digest(memoryview(b"data"))) == hashing.hasher(name).size
    with pytest.raises(Usage):
        hashing.hasher("md4")


def test_sizes_and_spans_are_read():
    assert [options.size(given) for given in ("10", "1.5k", "2GB", "3 m")[:3]] == [10, 1500, 2 * 10**9]
    assert [options.duration(given) for given in ("90", "1.5s", "2m", "4h", "1d")] == [
        90,
        1.5,
        120,
        14400,
        86400,
    ]
    for wrong in ("", "10 apples", "-1", "1e3", "0x10"):
        with pytest.raises(Usage):
            options.size(wrong)
        with pytest.raises(Usage):
            options.duration(wrong)


def test_odd_names_are_shown_on_one_line():
    assert text.name(b"a\nb\xff\x1b[1m") == "a\\nb\\xff\\x1b[1m"
    assert text.name("\u00e9".encode()) == "\u00e9"
    assert text.names([b"1", b"2", b"3"], 2) == "`1`, `2`, 1 more"
    assert [text.size(n) for n in (0, 999, 1000, 1_650_000_000, 999_999)] == [
        "0 B",
        "999 B",
        "1.00 kB",
        "1.65 GB",
        "1.00 MB",
    ]


def test_a_pace_spreads_what_it_lets_through():
    held = read_blocks.RateLimit(1_000_000)
    began = time.monotonic()
    for _ in range(10):
        held.acquire(50_000)
    assert time.monotonic() - began > 0.35


def test_low_priority_is_taken(tmp_path):
    code = "import os; from dlrun.node.transfer import read_blocks; read_blocks.lower_priority(); print(os.nice(0))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    assert found.stdout.strip() == "19"


def test_a_lock_is_one_processs_and_ends_with_it(tmp_path):
    area = Area(str(tmp_path / "node"))
    lock = area.try_lock(b"set")
    assert area.try_lock(b"set") is None
    assert area.try_lock(b"other") is not None
    lock.close()
    assert area.try_lock(b"set") is not None


@pytest.mark.slow
@pytest.mark.needs
@pytest.mark.parametrize("minor", [6, 7, 8, 9, 12, 13, 14])
def test_the_one_file_runs_on_every_python(tmp_path, minor):
    python = programs.python(minor)
    before = odd(tmp_path / "source")
    bundle.write(str(tmp_path / "node.pyz"))
    found = subprocess.run(
        [
            python,
            "-W",
            "error",
            tmp_path / "node.pyz",
            "stage",
            "--source",
            tmp_path / "source",
            "--to",
            tmp_path / "node",
            "--name",
            "s",
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        check=False,
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout.splitlines()[-1])["how"] == "copied"
    assert snapshot(tmp_path / "node" / "s" / "data") == before


def in_python(code, **variables):
    """What a piece of Python prints that sees this project."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), **variables)
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.mark.slow
@pytest.mark.each_python
def test_the_one_file_is_the_same_every_time():
    code = (
        "import hashlib; from dlrun.node import bundle; print(hashlib.sha256(bundle.archive()).hexdigest())"
    )
    assert len({in_python(code, PYTHONHASHSEED=seed) for seed in ("1", "2")}) == 1


def test_the_python_that_made_the_one_file_compiles_nothing(tmp_path):
    bundle.write(str(tmp_path / "node.pyz"))
    code = "import sys; sys.path.insert(0, sys.argv[1]); from dlrun_node.relay import member; print(member.__file__)"
    words = [sys.executable, "-c", code, tmp_path / "node.pyz"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout.strip().endswith("dlrun_node/relay/member.pyc")


def test_only_the_standard_library_and_the_syntax_of_3_6():
    beside = {path.stem for path in NODE.glob("*.py")}  # in a job directory they are files side by side
    for path in NODE.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 6))
        for item in ast.walk(tree):
            names = [a.name for a in item.names] if isinstance(item, ast.Import) else []
            if isinstance(item, ast.ImportFrom) and item.level == 0:
                names = [item.module]
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | {"xxhash"} | beside, (path.name, name)
            assert not (isinstance(item, ast.ImportFrom) and item.level > 1), path.name


COUNTING = b"""\
import marshal
import sys

names = []
load = marshal.loads


def count(code):
    module = load(code)
    names.append(module.co_filename)
    return module


marshal.loads = count  # of zipimport


def main():
    from . import part

    for line in (*names, part.__file__, part.__spec__.origin, sys.modules["demo"].__file__):
        print(line)
    return 0
"""


def test_a_module_of_the_archive_is_decoded_once(tmp_path):
    sources = {"__init__.py": b"", "__main__.py": COUNTING, "part.py": b""}
    file = tmp_path / "demo.pyz"
    file.write_bytes(bundle.archive(sources, "demo"))
    ran = subprocess.run([sys.executable, file], check=True, capture_output=True, text=True)
    part = f"{file}/demo/part.py"
    assert ran.stdout.splitlines() == ["demo/part.py", part, part, f"{file}/demo/__init__.py"]
