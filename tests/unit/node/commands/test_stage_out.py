"""Results reach the shared file system whole, or are told not to have."""

import os
import signal
import time

import pytest

from tests.unit.node.programs import run, start, start_held
from tests.unit.node.trees import data_size, odd, snapshot, write


@pytest.fixture
def results(tmp_path):
    for number in range(200):
        write(os.fsencode(tmp_path / "local" / f"d{number % 5}" / f"f{number}"), os.urandom(number * 50))
    write(os.fsencode(tmp_path / "local" / "z" / "checkpoint"), os.urandom(9 << 20))
    (tmp_path / "shared").mkdir()
    return tmp_path / "local"


def out(tmp_path, source, *more):
    return run("out", "--source", source, "--to", tmp_path / "shared" / "run", "--json", *more)


def until_copying(shared):
    """Wait until something is on its way to the shared file system."""
    end = time.monotonic() + 120
    while not any(path.stat().st_size for path in shared.glob(".dlrun-out.*/part/journal.*")):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_new_destination_appears_whole(tmp_path):
    before = odd(tmp_path / "local")
    (tmp_path / "shared").mkdir()
    assert out(tmp_path, tmp_path / "local").done()["copied"] == data_size(tmp_path / "local")
    assert snapshot(tmp_path / "shared" / "run") == before
    assert os.listdir(tmp_path / "shared") == ["run"], "nothing else is left"


@pytest.mark.slow
@pytest.mark.each_python
def test_an_existing_destination_is_not_touched_unless_asked(tmp_path, results):
    write(os.fsencode(tmp_path / "shared" / "run" / "kept"), b"kept")
    refused = out(tmp_path, results)
    assert (refused.status, "already exists" in refused.err) == (1, True)
    assert os.listdir(tmp_path / "shared" / "run") == ["kept"]
    out(tmp_path, results, "--update").done()
    found = snapshot(tmp_path / "shared" / "run")
    assert found.pop(b"kept")
    assert {path: entry[-3:] for path, entry in found.items() if b"f" in path} == {
        path: entry[-3:] for path, entry in snapshot(results).items() if b"f" in path
    }


def test_an_update_brings_only_what_is_new(tmp_path, results):
    out(tmp_path, results).done()
    write(os.fsencode(results / "d1" / "f1"), b"changed")
    write(os.fsencode(results / "new" / "deep" / "file"), b"new")
    os.symlink("d1/f1", results / "link")
    assert out(tmp_path, results, "--update").done()["copied"] == len(b"changed") + len(b"new")
    shared = tmp_path / "shared" / "run"
    assert (shared / "d1" / "f1").read_bytes() == b"changed"
    assert (shared / "new" / "deep" / "file").read_bytes() == b"new"
    assert os.readlink(shared / "link") == "d1/f1"
    assert os.listdir(tmp_path / "shared") == ["run"]


def test_known_files_are_copied_only_once_they_are_written_to(tmp_path):
    """Code that was laid out there is not what a program wrote; a copy of it with its time is, under another name."""
    local = tmp_path / "local"
    names = [b"same", b"changed", b"back\\slash", b"line\nfeed", b"linked", b"sub/same"]
    for name in names:
        write(os.fsencode(local) + b"/" + name, b"code")
        os.utime(os.fsencode(local) + b"/" + name, (1000, 1000))
    escaped = [rb"\%s  back\\slash" % (b"0" * 64), rb"\%s  line\nfeed" % (b"0" * 64)]
    plain = [b"0" * 64 + b"  " + name for name in (b"same", b"changed", b"linked", b"sub/same")]
    (tmp_path / "list").write_bytes(
        b"".join(line + b"\n" for line in (b'# link ["a", "b"]', *plain, *escaped))
    )
    (local / "changed").write_bytes(b"more")
    write(os.fsencode(local / "saved"), b"code")
    os.utime(local / "saved", (1000, 1000))
    os.link(local / "linked", local / "other")
    (tmp_path / "shared" / "run").mkdir(parents=True)
    out(tmp_path, local, "--update", "--known", tmp_path / "list", "--known-time", "1000").done()
    found = {path.name for path in (tmp_path / "shared" / "run").rglob("*") if path.is_file()}
    assert found == {"changed", "saved", "linked", "other"}
    assert "No such file" in out(tmp_path, local, "--update", "--known", tmp_path / "none").err


def test_an_update_follows_no_link_in_the_destination(tmp_path, results):
    (tmp_path / "victim").mkdir()
    (tmp_path / "shared" / "run").mkdir()
    os.symlink(tmp_path / "victim", tmp_path / "shared" / "run" / "d1")
    assert out(tmp_path, results, "--update").status == 1
    assert os.listdir(tmp_path / "victim") == []


GROWING = """
import os
real = os.open
def opened(path, *more, **how):
    if path == b"log":
        with open({log!r}, "ab") as log:
            log.write(b"line")
    return real(path, *more, **how)
os.open = opened
"""  # whenever the log is opened to be read, it has become longer


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_that_is_being_written_is_left_and_the_others_arrive(tmp_path, results):
    log, shared = results / "d1" / "log", tmp_path / "shared" / "run"
    write(os.fsencode(log), b"line")
    words = ("out", "--source", results, "--to", shared, "--update")
    process = start(*words, prelude=GROWING.format(log=str(log)))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "`d1/log`" in err
    assert not (shared / "d1" / "log").exists()
    assert len(list(shared.rglob("f*"))) == 200
    assert out(tmp_path, results, "--update").done()["copied"] == log.stat().st_size
    assert (shared / "d1" / "log").read_bytes() == log.read_bytes()


@pytest.mark.slow
def test_the_deadline_keeps_what_is_whole_by_then(tmp_path, results):
    found = out(tmp_path, results, "--update", "--deadline", "10s", "--rate", "400k", "--workers", "1")
    assert found.status == 1
    assert "deadline reached with" in found.err
    shared = tmp_path / "shared" / "run"
    arrived = [path for path in shared.rglob("*") if path.is_file()]
    assert arrived
    for path in arrived:
        assert path.read_bytes() == (results / path.relative_to(shared)).read_bytes()
    out(tmp_path, results, "--update").done()
    assert {p: e[2:] for p, e in snapshot(shared).items() if e[-1] is None} == {
        p: e[2:] for p, e in snapshot(results).items() if e[-1] is None
    }


@pytest.mark.slow
def test_killed_at_any_moment_nothing_torn_stands_under_its_name(tmp_path, results):
    # More blocks than the killed ones can copy, each two at most.
    write(os.fsencode(results / "z" / "checkpoint"), os.urandom(50 << 20))
    before = snapshot(results)
    for kill in range(5):
        process = start_held(
            tmp_path / "gate", "out", "--source", results, "--to", tmp_path / "shared" / "run"
        )
        until_copying(tmp_path / "shared")
        time.sleep(0.05 * kill)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        time.sleep(0.1)  # the kernel lets go of the lock when the last process is gone
        assert not (tmp_path / "shared" / "run").exists()
    assert out(tmp_path, results).done()["copied"] < data_size(results), "what the killed ones copied is kept"
    assert snapshot(tmp_path / "shared" / "run") == before


def test_a_missing_parent_is_told(tmp_path, results):
    found = run("out", "--source", results, "--to", tmp_path / "nowhere" / "run")
    assert (found.status, "its parent directory must exist" in found.err) == (1, True)


@pytest.mark.slow
def test_a_newer_file_of_the_destination_is_kept_and_the_result_is_beside_it(tmp_path, results):
    out(tmp_path, results).done()
    shared = tmp_path / "shared" / "run" / "d1"
    for name, later in (("f1", 60), ("f2", -60)):
        write(os.fsencode(results / "d1" / name), b"of the job")
        write(os.fsencode(shared / name), b"mine")
        seen = (results / "d1" / name).stat().st_mtime
        os.utime(shared / name, (seen + later, seen + later))
    for _ in range(2):  # a second run adds nothing
        done = out(tmp_path, results, "--update").done()
        assert (shared / "f1").read_bytes() == b"mine"
        assert (shared / "f2").read_bytes() == b"of the job"
        assert sorted(path.name for path in shared.glob("f1*older*")) == ["f1.older-1"]
        assert (shared / "f1.older-1").read_bytes() == b"of the job"
        assert any("newer files are kept: `d1/f1`" in note for note in done["notes"])
