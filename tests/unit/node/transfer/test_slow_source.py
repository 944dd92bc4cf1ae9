"""What is done for a source whose calls take long: many are under way, in many directories, and none is wasted."""

import math
import os
import subprocess
from collections import Counter
from itertools import groupby

import pytest
from dlrun.node.blocks import hashing, reader
from dlrun.node.blocks.blocks import Blocks
from dlrun.node.blocks.reader import Reader
from dlrun.node.common import statuses, system
from dlrun.node.source import selection, survey, walk

from tests.unit.node.programs import command, environment, prepared
from tests.unit.node.trees import snapshot, write

FILES = 64  # in each directory


def filled(tree, directories):
    """Directories that are alike, so that the order in which the file system lists them does not matter."""
    for directory in range(directories):
        for number in range(FILES):
            write(os.fsencode(tree / f"d{directory}" / f"{number:03}"), b"%d" % number)
    return tree


@pytest.fixture
def many(tmp_path):
    """A tree of enough directories to be anywhere in."""
    return filled(tmp_path / "tree", 24)


@pytest.fixture
def tree(tmp_path):
    """A small tree."""
    return filled(tmp_path / "tree", 2)


def judged(monkeypatch, slow):
    """The walk finds its source slow at the first look at the clock, or never."""
    monkeypatch.setattr(walk, "PROBE_SECONDS", math.inf)  # no clock
    monkeypatch.setattr(walk.Waiting, "is_most", lambda *_: slow)


def asked(monkeypatch, tree):
    """Walk the tree with one thread of one process; the files in the order in which they were asked about."""
    names, real = [], os.lstat
    monkeypatch.setattr(walk, "MAX_THREADS", 1)
    monkeypatch.setattr(walk, "MAX_HELPERS", 0)

    def noted(path, dir_fd=None):
        place = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        names.append(os.path.join(place, os.fsdecode(path)))
        return real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "lstat", noted)
    walk.Walk(selection.parse(str(tree)), selection.Options(xattrs=False)).run()
    monkeypatch.undo()
    return [os.path.relpath(name, tree) for name in names if not os.path.isdir(name)]


def stretches(names):
    """How often a directory was gone to."""
    return len(list(groupby(names, os.path.dirname)))


def test_a_walk_of_a_slow_source_is_spread_over_its_directories(many, monkeypatch):
    judged(monkeypatch, slow=True)
    names = asked(monkeypatch, many)
    assert Counter(names).most_common(1)[0][1] == 1, "none is asked about twice"
    assert len(names) == 24 * FILES
    wide = names[FILES:]  # the first directory is asked about before the source is judged
    assert stretches(wide) > 0.8 * len(wide) / walk.CONCURRENT_JOB, (
        "after a piece of one directory comes one of another"
    )


def test_a_walk_of_a_fast_source_finishes_a_directory_before_the_next(many, monkeypatch):
    judged(monkeypatch, slow=False)
    names = asked(monkeypatch, many)
    assert len(names) == 24 * FILES
    assert stretches(names) == 24


def calls(tree, monkeypatch, slow):
    """What a reader does with every file of the tree, in order."""
    found, _ = survey.survey(selection.parse(str(tree)), selection.Options())
    made, advise, readv = [], os.posix_fadvise, os.readv

    def noted(name, call):
        return lambda *words: made.append((name, words[1:] if name == "advise" else ())) or call(*words)

    root = os.open(tree, os.O_RDONLY)
    monkeypatch.setattr(reader.os, "posix_fadvise", noted("advise", advise))
    monkeypatch.setattr(reader.os, "readv", noted("read", readv))
    source = Reader(root, found, hashing.hasher("sha1"), slow=slow)
    view = memoryview(bytearray(1 << 20))
    for block in Blocks(found):
        source.read(block, view)
    monkeypatch.undo()
    source.close()
    os.close(root)
    return made


def test_of_a_slow_source_nothing_is_read_ahead(tree, monkeypatch):
    made = calls(tree, monkeypatch, slow=True)
    advised = ("advise", (0, 0, os.POSIX_FADV_RANDOM))
    assert made == [advised, ("read", ())] * (2 * FILES), "before the first byte of each file"


def test_a_fast_source_is_read_as_the_system_thinks_best(tree, monkeypatch):
    assert calls(tree, monkeypatch, slow=False) == [("read", ())] * (2 * FILES)


NOTED = """
import math, os
from dlrun.node.source import walk
walk.PROBE_SECONDS, walk.Waiting.is_most = math.inf, lambda *_: {slow}
log, real = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.posix_fadvise
def advise(descriptor, *words):
    os.write(log, os.fsencode(os.readlink("/proc/self/fd/%d" % descriptor)) + b"\\n")
    real(descriptor, *words)
os.posix_fadvise = advise
"""  # the walk judges its source as it is told to; which files are advised, by whatever process


@pytest.mark.parametrize("slow", [True, False])
def test_what_the_walk_found_is_what_the_copy_acts_on(tree, tmp_path, slow):
    words = command("stage", "--source", tree, "--to", tmp_path / "to", "--name", "set")
    prelude = NOTED.format(slow=slow, log=str(tmp_path / "log"))
    done = subprocess.run(
        prepared(words, prelude), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    advised = [name for name in (tmp_path / "log").read_text().splitlines() if name.startswith(f"{tree}/")]
    assert sorted(advised) == sorted(str(path) for path in tree.rglob("*") if path.is_file() and slow)
    assert snapshot(tmp_path / "to" / "set" / "data") == snapshot(tree)


OPENS = """
real_open = os.open
def noted(path, *words, **more):
    descriptor = real_open(path, *words, **more)
    name = os.readlink("/proc/self/fd/%d" % descriptor)
    if not os.path.isdir(name):
        os.write(log, b"open " + os.fsencode(name) + b"\\n")
    return descriptor
os.open = noted
real_lstat = os.lstat
def looked(path, dir_fd=None):
    place = b"" if dir_fd is None else os.fsencode(os.readlink("/proc/self/fd/%d" % dir_fd))
    os.write(log, b"look " + os.path.join(place, os.fsencode(path)) + b"\\n")
    return real_lstat(path, dir_fd=dir_fd)
os.lstat = looked
"""


@pytest.mark.parametrize("limit", [4096, 1200, 256])
def test_each_file_of_a_slow_source_is_looked_up_once(tmp_path, limit):
    """By its open, whose status the walk takes; with a low limit of open files some are opened later, by the copy."""
    tree = filled(tmp_path / "tree", 8)
    os.symlink("nowhere", tree / "d7" / "link")
    os.mkfifo(tree / "d7" / "pipe")
    words = command(
        "stage",
        "--source",
        tree,
        "--to",
        tmp_path / "to",
        "--name",
        "set",
        "--skip-special",
        "--workers",
        "2",
    )
    prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
    prelude += NOTED.format(slow=True, log=str(tmp_path / "log")) + OPENS
    done = subprocess.run(
        prepared(words, prelude), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (tree / "d7" / "pipe").unlink()
    log = (tmp_path / "log").read_text().splitlines()
    opened = Counter(line[5:] for line in log if line.startswith(f"open {tree}/"))
    looked = Counter(line[5:] for line in log if line.startswith(f"look {tree}/") and line[5:] in opened)
    assert opened == Counter(str(path) for path in tree.rglob("*") if path.is_file())
    if limit == 4096:
        assert sum(looked.values()) == FILES, (
            "only of the first directory, before the source was known to be slow"
        )
    os.utime(tree / "d7", ns=(os.stat(tmp_path / "to" / "set" / "data" / "d7").st_mtime_ns,) * 2)
    assert snapshot(tmp_path / "to" / "set" / "data") == snapshot(tree)


def test_a_busy_machine_does_not_make_a_source_slow(monkeypatch):
    """Time in which the process was ready but had no core is not time in which it waited for the source."""
    clocks = {"wall": 0.0, "computed": 0.0, "waited": 0.0}
    monkeypatch.setattr(system.time, "perf_counter", lambda: clocks["wall"])
    monkeypatch.setattr(system.time, "process_time", lambda: clocks["computed"])
    monkeypatch.setattr(system, "waited_for_cores", lambda: clocks["waited"])
    waiting = system.Waiting()
    clocks.update(wall=1.0, computed=0.1)
    assert waiting.is_most(0.02, 0.5)
    clocks.update(waited=0.8)
    assert not waiting.is_most(0.02, 0.5)


def test_size_and_time_of_an_open_file(tmp_path):
    (tmp_path / "file").write_bytes(bytes(4711))
    os.utime(tmp_path / "file", ns=(5, 10**18 + 123_456_789))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert statuses.size_and_time()(descriptor) == (4711, 10**18 + 123_456_789)
        assert statuses.fstat_size_and_time(descriptor) == (4711, 10**18 + 123_456_789)
    finally:
        os.close(descriptor)
