"""A data set on one node: exactly the source, or nothing."""

import filecmp
import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest
from dlrun.node.source.recheck import FEW

from tests.unit.node.programs import run, staging, start, start_held
from tests.unit.node.trees import has_xattrs, odd, snapshot, write


@pytest.fixture
def source(tmp_path):
    for number in range(300):
        write(os.fsencode(tmp_path / "source" / f"d{number % 7}" / f"f{number}"), os.urandom(number * 40))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20))
    return tmp_path / "source"


def stage(tmp_path, source, *more):
    return run("stage", "--source", source, "--to", tmp_path / "node", "--name", "set", *more)


def data(tmp_path):
    return tmp_path / "node" / "set" / "data"


def nothing_published(tmp_path):
    return not (tmp_path / "node" / "set").exists()


@pytest.mark.slow
@pytest.mark.parametrize("hashed", ["auto", "sha256", "none"])
def test_every_kind_of_entry_and_name_arrives_as_it_is(tmp_path, hashed):
    before = odd(tmp_path / "source")
    done = stage(tmp_path, tmp_path / "source", "--json", "--hash", hashed, "--verify").done()
    assert snapshot(done["path"]) == before
    assert [note for note in done["notes"] if "lead out" in note] == [
        "links that lead out of the data set, kept as they are: `absolute`, `up`"
    ]


@pytest.mark.slow
def test_attributes_are_kept(tmp_path):
    before = odd(tmp_path / "source")
    if not has_xattrs(tmp_path):
        pytest.skip("the file system of the test directory has no user attributes")
    for path in (b"plain.txt", b"read-only", b"large", b"a"):
        os.setxattr(os.fsencode(tmp_path / "source") + b"/" + path, "user.of", path)
    assert snapshot(tmp_path / "source") != before
    stage(tmp_path, tmp_path / "source", "--json").done()
    assert snapshot(data(tmp_path)) == snapshot(tmp_path / "source")


@pytest.mark.slow
def test_a_set_is_private_unless_shared_on_purpose(tmp_path, source):
    stage(tmp_path, source)
    assert stat.S_IMODE((tmp_path / "node").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "node" / "set").stat().st_mode) == 0o700
    run("stage", "--source", source, "--to", tmp_path / "open", "--name", "set", "--shared")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "open" / "set").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "open" / ".dlrun").stat().st_mode) == 0o700


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--strategy", "pack")])
def test_nobody_else_writes_in_a_shared_set(tmp_path, source, more):
    (source / "d1").chmod(0o777)
    (source / "d1" / "f8").chmod(0o666)
    words = ("stage", "--source", source, "--to", tmp_path / "open", "--name", "set", "--shared", *more)
    run(*words)
    run(*words)  # it is the same set, and is not copied again
    found = [
        path
        for path in (tmp_path / "open").rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o022
    ]
    assert found == []


@pytest.mark.slow
def test_one_file_and_a_glob_are_sources(tmp_path, source):
    one = run("stage", "--source", source / "d1" / "f8", "--to", tmp_path / "node", "--name", "one")
    assert os.listdir(one.out.strip()) == ["f8"]
    some = run("stage", "--source", str(source / "d[12]" / "f?"), "--to", tmp_path / "node", "--name", "some")
    found = sorted(str(p.relative_to(some.out.strip())) for p in Path(some.out.strip()).rglob("f*"))
    assert found == ["d1/f1", "d1/f8", "d2/f2", "d2/f9"]


@pytest.mark.slow
def test_filters_choose_what_is_copied(tmp_path, source):
    stage(tmp_path, source, "--include", "*9", "--exclude", "d3", "--exclude", "d4/f1*")
    names = {str(p.relative_to(data(tmp_path))) for p in data(tmp_path).rglob("*") if p.is_file()}
    wanted = {
        f"d{n % 7}/f{n}"
        for n in range(300)
        if n % 10 == 9 and n % 7 != 3 and not (n % 7 == 4 and str(n).startswith("1"))
    }
    assert names == wanted


@pytest.mark.parametrize("filters", [("--include", "*.none"), ("--exclude", "f*", "--exclude", "large")])
def test_a_filter_that_leaves_no_file_is_told(tmp_path, source, filters):
    told = run("stage", "--source", source, "--to", tmp_path / "node", "--name", "set", *filters)
    assert told.status == 1
    assert "is selected" in told.err
    assert "check the glob, `include` and `exclude`" in told.err
    assert not (tmp_path / "node" / "set").exists()


def test_links_are_followed_when_asked(tmp_path):
    write(os.fsencode(tmp_path / "elsewhere" / "real"), b"real data")
    (tmp_path / "source").mkdir()
    os.symlink(tmp_path / "elsewhere" / "real", tmp_path / "source" / "link")
    stage(tmp_path, tmp_path / "source", "--links", "follow")
    assert not (data(tmp_path) / "link").is_symlink()
    assert (data(tmp_path) / "link").read_bytes() == b"real data"
    assert stage(tmp_path, tmp_path / "source", "--links", "follow", "--json").done()["how"] == "warm"


@pytest.mark.slow
def test_a_warm_set_is_not_copied_again(tmp_path, source):
    stage(tmp_path, source)
    before = (tmp_path / "node" / "set" / "manifest").stat().st_ino
    done = stage(tmp_path, source, "--json").done()
    assert (done["how"], done["copied"]) == ("warm", 0)
    assert (tmp_path / "node" / "set" / "manifest").stat().st_ino == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "d2" / "new").write_bytes(b"n"),
        lambda top: (top / "d2" / "f2").unlink(),
        lambda top: (top / "d2" / "f2").rename(top / "d2" / "renamed"),
        lambda top: (top / "d9").mkdir(),
    ],
    ids=["new", "gone", "renamed", "directory"],
)
def test_a_changed_source_is_noticed_and_only_the_change_is_copied(tmp_path, source, change):
    stage(tmp_path, source)
    change(source)
    done = stage(tmp_path, source, "--json").done()
    assert snapshot(data(tmp_path)) == snapshot(source)
    assert done["copied"] < 2 << 20, "the large file and most of the small ones were there already"


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "copy"])
def test_of_a_large_set_all_files_are_looked_at_where_that_is_asked_for_and_none_where_not(tmp_path, side):
    source = tmp_path / "many"
    for number in range(FEW + 100):
        write(os.fsencode(source / f"f{number}"), b"data", mtime=10**18 + number)
    stage(tmp_path, source)
    changed = (source if side == "source" else data(tmp_path)) / "f7"
    changed.write_bytes(b"longer than before")
    if side == "source":
        (source / "new").write_bytes(b"and one more")
    assert stage(tmp_path, source, "--json", "--recheck", "none").done()["how"] == "warm"
    assert stage(tmp_path, source, "--json", "--recheck", "all").done()["how"] == "copied"
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.slow
def test_a_copy_that_somebody_changed_is_mended(tmp_path, source):
    stage(tmp_path, source)
    (data(tmp_path) / "d3" / "f3").unlink()
    (data(tmp_path) / "d3" / "stray").write_bytes(b"s")
    stage(tmp_path, source)
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.slow
def test_the_same_sizes_and_times_from_another_source_are_not_trusted(tmp_path):
    for which in (b"a", b"b"):
        write(os.fsencode(tmp_path) + b"/" + which + b"/f", which * 10, 0o644, 10**18)
    run("stage", "--source", tmp_path / "a", "--to", tmp_path / "node", "--name", "set")
    run("stage", "--source", tmp_path / "b", "--to", tmp_path / "node", "--name", "set")
    assert (data(tmp_path) / "f").read_bytes() == b"b" * 10


def slowly(tmp_path, source):
    """A copy whose first block is on its way, and which goes on when `gate` is there."""
    process = start_held(
        tmp_path / "gate",
        *staging(source, tmp_path / "node"),
        "--workers",
        "1",
    )
    part = tmp_path / "node" / ".dlrun" / "part.set"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if any(path.stat().st_size for path in part.glob("journal.*")):
            return process
        time.sleep(0.005)
    raise AssertionError(process.communicate())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_bytes(b"x" * (10 << 20)), "grew"),
        (lambda path: os.truncate(path, 1 << 20), "shrank"),
        (lambda path: os.utime(path), "was written to"),
        (lambda path: path.unlink(), "vanished"),
    ],
    ids=["grows", "shrinks", "rewritten", "vanishes"],
)
def test_a_source_that_changes_during_the_copy_is_never_published(tmp_path, source, change, said):
    (source / "large").unlink()
    for name in ("zz1", "zz2", "zz3"):
        write(os.fsencode(source / name), os.urandom(3 << 20))
    process = slowly(tmp_path, source)
    change(source / "zz3")
    (tmp_path / "gate").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"the source changed while it was copied: `zz3` {said}" in err
    assert nothing_published(tmp_path)
    done = stage(tmp_path, source, "--json").done()
    assert snapshot(data(tmp_path)) == snapshot(source)
    assert done["copied"] < sum(p.stat().st_size for p in source.rglob("*") if p.is_file())


@pytest.mark.slow
def test_a_file_of_more_than_two_gigabytes(tmp_path):
    size, edge = (1 << 31) + 1, 1 << 20  # bytes; of data before 2^31 and at the beginning
    large = tmp_path / "large" / "file"
    large.parent.mkdir()
    with large.open("wb") as file:
        for place in (0, (1 << 31) - edge):
            file.seek(place)
            file.write(os.urandom(edge))
        file.write(b"x")
    assert stage(tmp_path, large.parent, "--json").done()["bytes"] == size
    copy = data(tmp_path) / "file"
    assert copy.stat().st_size == size
    assert filecmp.cmp(large, copy, shallow=False)
    assert stage(tmp_path, large.parent, "--json").done()["how"] == "warm"


def test_two_jobs_on_one_node_copy_once(tmp_path, source):
    first = slowly(tmp_path, source)
    second = start("stage", "--source", source, "--to", tmp_path / "node", "--name", "set", "--json")
    waiting = json.loads(second.stdout.readline())
    assert waiting["event"] == "waiting"
    (tmp_path / "gate").touch()
    out, err = second.communicate(timeout=60)
    first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), err
    assert json.loads(out.splitlines()[-1])["how"] == "warm"


@pytest.mark.slow
def test_a_set_that_another_job_uses_is_not_taken_away(tmp_path, source):
    stage(tmp_path, source, "--job", "17", "--lasting", "1h")
    (source / "d2" / "new").write_bytes(b"n")
    refused = stage(tmp_path, source, "--job", "18")
    assert refused.status == 1
    assert "`set` is out of date and in use by job 17" in refused.err
    assert not (data(tmp_path) / "d2" / "new").exists()
    assert stage(tmp_path, source, "--job", "17").status == 0
    assert (data(tmp_path) / "d2" / "new").exists()


@pytest.mark.slow
def test_after_a_kill_only_what_is_missing_is_copied(tmp_path, source):
    process = slowly(tmp_path, source)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert nothing_published(tmp_path)
    copied = stage(tmp_path, source, "--json").done()["copied"]
    total = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    assert 0 < copied < total
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.slow
def test_after_a_crash_of_the_machine_what_was_written_is_read_again(tmp_path, source):
    process = slowly(tmp_path, source)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    part = tmp_path / "node" / ".dlrun" / "part.set"
    (part / "boot").write_text("another boot")
    torn = part / "data" / "large"  # the first blocks are of it
    times = torn.stat().st_mtime_ns
    torn.write_bytes(bytes(torn.stat().st_size))  # what a crash makes of data that was not on the disk yet
    os.utime(torn, ns=(times, times))
    assert stage(tmp_path, source).status == 0
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.slow
def test_progress_is_told_in_lines_and_in_json(tmp_path, source):
    text = stage(tmp_path, source, "--rate", "4M", "--interval", "0.5")
    assert "left" in text.err
    assert text.out.strip() == str(data(tmp_path))
    events = run(
        *staging(source, tmp_path / "other"),
        "--rate",
        "4M",
        "--interval",
        "0.5",
        "--json",
    ).events()
    lines = [event for event in events if event["event"] == "progress"]
    assert lines
    assert lines[0]["bytes_done"] <= lines[-1]["bytes_done"] <= lines[0]["bytes"]
    assert lines[-1]["bytes_done"] > 0
    assert {event["version"] for event in events} == {1}


@pytest.mark.slow
@pytest.mark.each_python
def test_a_rate_limit_is_kept(tmp_path, source):
    began = time.monotonic()
    total = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    stage(tmp_path, source, "--rate", "8M")
    assert time.monotonic() - began > total / 8e6 - 0.3


def test_a_source_of_another_size_than_expected_is_refused(tmp_path):
    write(os.fsencode(tmp_path / "source" / "f"), bytes(100_000))
    words = ("stage", "--source", tmp_path / "source", "--to", tmp_path / "to", "--name", "set", "--json")
    found = run(*words, "--expect", "120000")
    assert found.status == 1
    assert "has 100 kB, not the 120 kB that were expected" in found.err
    assert not (tmp_path / "to" / "set").exists()
    assert run(*words, "--expect", "105000").done()["how"] == "copied"
    assert run(*words, "--expect", "200000").status == 1, "a warm set is no excuse"


@pytest.mark.parametrize("selected", ["large", "l*"])
def test_what_else_changes_in_its_directory_makes_a_file_no_other_data(tmp_path, source, selected):
    """Another job may use the copy: it would be refused as out of date."""
    words = ("--json", "--keep", "cache")
    assert run(*staging(source / selected, tmp_path / "to"), *words, "--job", "1").done()["how"] == "copied"
    assert run(*staging(source / selected, tmp_path / "to"), *words, "--job", "1").done()["how"] == "warm"
    (source / "other").write_text("not selected")
    assert run(*staging(source / selected, tmp_path / "to"), *words, "--job", "2").done()["how"] == "warm"
    (source / "large").write_text("changed")
    found = run(*staging(source / selected, tmp_path / "to"), *words, "--job", "2")
    assert (found.status, "out of date" in found.err) == (1, True)
