"""Which files are looked at before an existing copy counts as current."""

import os
import signal
import time

import pytest
from dlrun.node.common import fork, system
from dlrun.node.source import recheck, selection, survey
from dlrun.node.source.manifest import FILE, Manifest
from dlrun.node.source.selection import Options

from tests.unit.node.programs import run, staging
from tests.unit.node.trees import snapshot, write


def made(count, rate=0, top=b""):
    """A manifest of empty files `f0`, `f1`, ..., whose times are the other way round."""
    found = Manifest()
    found.dirs, found.info = [top], {"rate": rate}
    found.dir_modes.append(0o755)
    found.dir_mtimes.append(0)
    found.names = [b"f%d" % number for number in range(count)]
    found.kinds = bytearray([FILE]) * count
    found.parents.extend([0] * count)
    found.modes.extend([0o644] * count)
    found.sizes.extend((7919 * number) % count for number in range(count))
    found.mtimes.extend(range(count, 0, -1))
    return found


def numbers_looked_at(tmp_path, manifest, check):
    seen = set()

    def judge(number, status):
        assert (status is None) == (number >= 0), "no file exists, only the directory"
        seen.add(number)
        return True

    looked = recheck.look(os.fsencode(tmp_path), manifest, check, judge)
    assert -1 in seen or check == "none", "directories are always looked at"
    files = {number for number in seen if number >= 0}
    assert looked == (len(files), len(manifest.names), False)
    return files


@pytest.mark.parametrize(("count", "rate"), [(recheck.FEW, 0), (20_000, 20_000), (20_000, 10_000)])
def test_all_files_if_they_are_few_or_the_walk_was_fast_enough(tmp_path, count, rate):
    assert numbers_looked_at(tmp_path, made(count, rate), "sample") == set(range(count))


def test_all_and_none_are_literal(tmp_path):
    assert len(numbers_looked_at(tmp_path, made(5000), "all")) == 5000
    assert numbers_looked_at(tmp_path, made(5000), "none") == set()


@pytest.mark.slow
def test_of_more_the_largest_the_newest_and_a_random_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(recheck, "BUDGET", 0.0)
    manifest = made(50_000, 1)
    largest = set(sorted(range(50_000), key=manifest.sizes.__getitem__)[-recheck.ALWAYS :])
    both = largest | set(range(recheck.ALWAYS))
    samples = [numbers_looked_at(tmp_path, manifest, "sample") for _ in range(5)]
    assert all(both <= sample for sample in samples)
    assert all(recheck.SAMPLE <= len(sample - both) < 2 * recheck.SAMPLE for sample in samples)
    assert len({frozenset(sample) for sample in samples}) > 1, "another sample each time"


@pytest.mark.slow
def test_as_many_as_a_second_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(recheck, "BUDGET", 60.0)
    assert numbers_looked_at(tmp_path, made(70_000, 1), "sample") == set(range(70_000))


def test_a_slow_file_system_is_looked_at_with_many_calls_at_once(tmp_path, monkeypatch):
    calls, most = [], []
    real = os.lstat

    def slow(path, **how):
        calls.append(path)
        most.append(len(calls))
        time.sleep(0.002)
        calls.pop()
        return real(path, **how)

    monkeypatch.setattr(os, "lstat", slow)
    monkeypatch.setattr(system, "waited_for_cores", lambda: 0.0)  # else a busy machine is no slow file system
    assert numbers_looked_at(tmp_path, made(3000), "all") == set(range(3000))
    assert max(most) > 4


@pytest.mark.slow
def test_a_file_that_was_changed_in_place_is_copied_again(tmp_path):
    """Neither of them is among the newest files nor in every sample, and the change keeps the size."""
    source = tmp_path / "source"
    for number in range(4000):
        write(os.fsencode(source / f"d{number // 500}" / f"f{number}"), b"x", mtime=2 * 10**18 + number)
    for name, size in (("large", 8 << 20), ("small", 100)):
        write(os.fsencode(source / "d7" / name), bytes(size), mtime=10**18)
    words = (*staging(source, tmp_path / "node"), "--json")
    assert run(*words).done()["how"] == "copied"
    assert run(*words).done()["checked"] == {"source": 4002, "copy": 4002}
    for name in ("large", "small"):
        with (source / "d7" / name).open("r+b") as file:
            file.seek(50)
            file.write(b"changed")
        os.utime(source / "d7" / name, ns=(10**18 + 5, 10**18 + 5))
        assert run(*words).done()["how"] == "copied", name
    assert snapshot(tmp_path / "node" / "set" / "data") == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_the_last_line_has_the_number_of_files(tmp_path):
    write(os.fsencode(tmp_path / "source" / "f"), b"data")
    words = staging(tmp_path / "source", tmp_path / "node")
    assert "compared" not in run(*words).err
    assert "compared size and time of all files" in run(*words).err
    assert (
        "compared size and time of 0 of 1 files (`recheck: all`: of all)"
        in run(*words, "--recheck", "none").err
    )


def written(tmp_path, count):
    """A tree of this many files, and its manifest."""
    for number in range(count):
        write(os.fsencode(tmp_path / "tree" / f"d{number // 100:02}" / f"f{number:04}"), b"content")
    found, _ = survey.survey(selection.parse(str(tmp_path / "tree")), Options())
    return found


@pytest.fixture
def processes(monkeypatch):
    """Three processes look at files; the two forked ones end as the values in the list are: killed, if True."""
    killed = [False, False]

    class Ended(fork.ForkedCall):
        def __init__(self, work, part):
            end = killed.pop(0)
            super().__init__((lambda _: os.kill(os.getpid(), signal.SIGKILL)) if end else work, part)

    monkeypatch.setattr(fork, "usable_cores", lambda: 3)
    monkeypatch.setattr(fork, "ForkedCall", Ended)
    monkeypatch.setattr(recheck, "FEW", recheck.BATCH)
    monkeypatch.setattr(recheck, "FILES_PER_HELPER", recheck.BATCH)
    monkeypatch.setattr(recheck.Waiting, "is_most", lambda *_: False)
    return killed


@pytest.mark.parametrize("entry", [0, 63, 64, 700, 1500, 1999])
@pytest.mark.parametrize("ends", [(False, False), (True, False), (True, True)])
def test_several_processes_find_a_changed_file_wherever_it_is(tmp_path, processes, entry, ends):
    manifest = written(tmp_path, 2000)
    processes[:] = ends
    path = tmp_path / "tree" / os.fsdecode(manifest.path(entry))
    time.sleep(0.05)  # longer than the clock of the file system needs for another ctime
    write(os.fsencode(path), b"another", mtime=manifest.mtimes[entry])
    seen = []

    def judge(number, status):
        if number >= 0 and status.st_ctime_ns != manifest.ctimes[number]:
            seen.append(number)
        return True

    looked = recheck.look(os.fsencode(tmp_path / "tree"), manifest, "all", judge)
    assert (looked, seen, processes) == ((2000, 2000, False), [entry], [])


def test_several_processes_find_what_was_changed_since_a_moment_and_what_is_gone(tmp_path, processes):
    manifest = written(tmp_path, 2000)
    newest = max(manifest.ctimes)
    time.sleep(0.05)
    changed, gone = (tmp_path / "tree" / os.fsdecode(manifest.path(entry)) for entry in (1100, 1900))
    write(os.fsencode(changed), b"another", mtime=manifest.mtimes[1100])
    gone.unlink()
    seen = {}

    def judge(number, status):
        if number >= 0:
            seen[number] = status and status.st_ctime_ns > newest
        return True

    looked = recheck.look(os.fsencode(tmp_path / "tree"), manifest, "all", judge, newest=newest)
    assert looked == (2000, 2000, False)
    assert {number: state for number, state in seen.items() if state is not False} == {1100: True, 1900: None}
    assert len(seen) <= 2 * recheck.BATCH
    assert not processes
