"""The data sets of a node are kept within bounds, and never taken from a job that runs."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from dlrun.node.common import system
from dlrun.node.common.errors import NoSpace
from dlrun.node.store import eviction, uses
from dlrun.node.store.area import Area
from dlrun.node.store.remove import remove_tree

from tests.examples import cases
from tests.library import BASH, LIBRARY
from tests.unit.node.programs import run
from tests.unit.node.trees import write


@pytest.fixture
def node(tmp_path):
    """Three sets of 100 kB, `a` used longest ago."""
    for name in ("a", "b", "c"):
        write(os.fsencode(tmp_path / name / "f"), os.urandom(100_000))
        assert (
            run("stage", "--source", tmp_path / name, "--to", tmp_path / "node", "--name", name).status == 0
        )
        time.sleep(0.01)
    return tmp_path / "node"


def names(node):
    found = json.loads(run("list", "--to", node, "--json").out)
    assert found["version"] == 1
    return [entry["name"] for entry in found["sets"]]


@pytest.mark.slow
@pytest.mark.each_python
def test_the_list_names_the_next_to_go_first(tmp_path, node):
    assert names(node) == ["a", "b", "c"]
    assert run("stage", "--source", tmp_path / "a", "--to", node, "--name", "a").status == 0
    assert names(node) == ["b", "c", "a"]
    first = json.loads(run("list", "--to", node, "--json").out)["sets"][0]
    assert (first["bytes"], first["files"], first["users"], first["path"]) == (
        100_000,
        1,
        [],
        str(node / "b" / "data"),
    )
    assert "100 kB" in run("list", "--to", node).out


@pytest.mark.slow
@pytest.mark.each_python
def test_a_quota_evicts_the_least_recently_used(tmp_path, node):
    write(os.fsencode(tmp_path / "d" / "f"), os.urandom(100_000))
    found = run(
        "stage", "--source", tmp_path / "d", "--to", node, "--name", "d", "--quota", "250k", "--json"
    ).done()
    assert found["notes"] == ["evicted `a`", "evicted `b`"]
    assert names(node) == ["c", "d"]


@pytest.mark.slow
def test_a_set_in_use_is_never_evicted(tmp_path, node):
    run("stage", "--source", tmp_path / "a", "--to", node, "--name", "a", "--job", "5", "--lasting", "1h")
    assert names(node) == ["b", "c", "a"]
    run("stage", "--source", tmp_path / "b", "--to", node, "--name", "b", "--job", "6", "--lasting", "1h")
    refused = run("evict", "--to", node, "--name", "a")
    assert (refused.status, "in use" in refused.err) == (1, True)
    full = run("evict", "--to", node, "--quota", "0")
    assert (full.status, "has no room" in full.err) == (1, True)
    assert names(node) == ["a", "b"]
    assert "used by 5" in run("list", "--to", node).out
    assert run("clean", "--to", node, "--job", "5").status == 0
    assert run("evict", "--to", node, "--name", "a").out == "removed a\n"
    assert names(node) == ["b"]


@pytest.mark.slow
def test_a_copy_of_a_set_is_its_owners(tmp_path, node):
    """It has the files of a set, a manifest among them, but dlrun has no record of it."""
    shutil.copytree(node / "a", node / "mine", symlinks=True)
    assert names(node) == ["a", "b", "c"]
    refused = run("evict", "--to", node, "--name", "mine")
    assert (refused.status, "no record of having staged `mine`" in refused.err) == (1, True)
    assert run("evict", "--to", node, "--free", "900T").status == 1
    assert run("clean", "--to", node, "--all").status == 0
    assert names(node) == []
    assert (node / "mine" / "data" / "f").stat().st_size == 100_000


@pytest.mark.slow
@pytest.mark.each_python
def test_a_set_that_is_being_copied_is_not_evicted(node):
    area = Area(str(node))
    lock = area.try_lock(b"a")
    assert not eviction.remove(area, b"a")
    lock.close()
    assert eviction.remove(area, b"a")
    assert not (node / "a").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_room_on_the_disk_is_made_by_eviction_but_not_in_vain(node, monkeypatch):
    area = Area(str(node))
    full = 1000
    monkeypatch.setattr(
        "dlrun.node.store.space.free", lambda _: full + 100_000 * (3 - len(eviction.entries(area)))
    )
    assert [entry.name for entry in eviction.make_room(area, None, 900_000, 900_000, b"new")] == []
    assert names(node) == ["a", "b", "c"], "all of them would be too few"
    assert [entry.name for entry in eviction.make_room(area, None, 150_000, 150_000, b"new")] == [b"a", b"b"]
    with pytest.raises(NoSpace, match="quota"):
        eviction.make_room(area, 50_000, 1, 60_000, b"new")


@pytest.mark.slow
def test_what_a_dead_job_kept_for_itself_goes_when_the_next_one_comes(tmp_path, node):
    common = ("--to", node, "--keep", "job", "--lasting")
    run("stage", "--source", tmp_path / "a", "--name", "a", *common, "0.2s", "--job", "dead")
    run("stage", "--source", tmp_path / "b", "--name", "b", *common, "1h", "--job", "alive")
    area = Area(str(node))
    uses.record_use(area, b"c", "rebooted", 3600, "job")
    record = area.read_record(b"use.c@rebooted")
    area.write_record(b"use.c@rebooted", dict(record, boot="an earlier boot"))
    time.sleep(0.3)
    run("stage", "--source", tmp_path / "b", "--to", node, "--name", "b")
    assert names(node) == ["b"]
    assert [use.job for use in uses.all_uses(area)] == ["alive"]


def test_a_use_that_nobody_has_released_ends_with_its_job(tmp_path, monkeypatch):
    area = Area(str(tmp_path / "node"))
    monkeypatch.setenv("DLRUN_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("DLRUN_RUN_ID", "f5.0")
    uses.record_use(area, b"a", "f5.0", 3600.0, "job")
    state = tmp_path / "state.json"
    found = []
    for written in (None, '{"state": "running", "job_id": "f5"}', '{"state": "ended", "job_id": "f6"}', "{"):
        if written is not None:
            state.write_text(written)
        found.append(uses.users(area, b"a"))
    state.write_text('{"state": "ended", "job_id": "f5"}')
    with subprocess.Popen(["sleep", "600"]) as standby:
        found.append(uses.users(area, b"a"))
        standby.kill()
    assert found == [["f5.0"]] * 5
    assert uses.users(area, b"a") == []


@pytest.mark.parametrize(
    ("changed", "over"), [({}, True), ({"boot": "an earlier one"}, False), ({"names": "pid:[1]"}, False)]
)
def test_a_use_ends_with_the_processes_of_a_job_that_had_a_standby_here(tmp_path, monkeypatch, changed, over):
    """Its own record says that it runs: its script was killed, too."""
    area = Area(str(tmp_path / "node"))
    monkeypatch.setenv("DLRUN_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("DLRUN_RUN_ID", "f5.0")
    (tmp_path / "state.json").write_text('{"state": "running", "job_id": "f5"}')
    uses.record_use(area, b"a", "f5.0", 3600.0, "job")
    code = f"source {LIBRARY}/stage.sh; DLRUN_STAGE={tmp_path}/node _dlrun_job=f5.0; _dlrun_note_standby; echo; exec sleep 600"
    with subprocess.Popen([BASH, "-c", code], stdout=subprocess.PIPE) as standby:
        standby.stdout.readline()
        area.write_record(uses.STANDBY + b"f5.0", {**area.read_record(uses.STANDBY + b"f5.0"), **changed})
        assert uses.users(area, b"a") == ["f5.0"]
        standby.kill()
    assert uses.users(area, b"a") == ([] if over else ["f5.0"])
    eviction.clean_up(area)
    assert area.controls(uses.STANDBY) == ([] if over else [b"f5.0"])


def test_a_process_in_the_middle_of_its_exec_is_one_of_its_run(tmp_path):
    """It shows no environment then: its data was taken for unused, and could be removed."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nexec "$0"\n')
    program.chmod(0o755)
    with subprocess.Popen([program], env={"DLRUN_RUN_ID": "f6.0"}) as process:
        found = {uses._runs_here(b"f6.0") for _ in range(500)}
        process.kill()
    assert found == {True}
    assert not uses._runs_here(b"f6.0")


def test_an_exec_between_the_opening_of_an_environment_and_its_reading(tmp_path, monkeypatch):
    """The file shows the memory of the program before, which is gone, although the process has an environment by then."""
    code = "read -r go; exec sleep 600"
    with subprocess.Popen(["sh", "-c", code], env={"DLRUN_RUN_ID": "f7.0"}, stdin=subprocess.PIPE) as process:
        place = f"/proc/{process.pid}/"

        def open_before(path, *words):
            file = open(path, *words)  # noqa: SIM115 - the caller closes it
            if path == place + "environ" and not process.stdin.closed:
                process.stdin.close()
                while b"600" not in Path(place, "cmdline").read_bytes().split(b"\0"):
                    time.sleep(0.001)
            return file

        monkeypatch.setattr(system, "open", open_before, raising=False)
        found = system.environment(str(process.pid))
        process.kill()
    assert process.stdin.closed
    assert b"DLRUN_RUN_ID=f7.0" in found


@pytest.mark.slow
def test_the_end_of_a_job_removes_what_it_kept_for_itself(tmp_path, node):
    run("stage", "--source", tmp_path / "a", "--to", node, "--name", "a", "--keep", "job", "--job", "1")
    run("stage", "--source", tmp_path / "b", "--to", node, "--name", "b", "--keep", "cache", "--job", "1")
    run("stage", "--source", tmp_path / "c", "--to", node, "--name", "c", "--keep", "job", "--job", "1")
    run("stage", "--source", tmp_path / "c", "--to", node, "--name", "c", "--keep", "job", "--job", "2")
    assert run("clean", "--to", node, "--job", "1").out == "removed a\n"
    assert names(node) == ["b", "c"]
    assert run("clean", "--to", node, "--job", "2").out == "removed c\n"
    assert run("clean", "--to", node, "--all").out == "removed b\n"
    assert run("clean", "--to", tmp_path / "never-made", "--job", "2").status == 0
    assert not (tmp_path / "never-made").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_half_built_sets_and_rubbish_are_cleaned_up(node):
    control = node / ".dlrun"
    for name in ("new.7", "new.8"):
        (control / name).write_text("{")
    os.utime(control / "new.7", (time.time() - 2 * eviction.STALE,) * 2)
    for name in ("part.old", "part.young", "part.busy", "trash.9.9"):
        (control / name / "data").mkdir(parents=True)
        os.chmod(control / name / "data", 0o500)
    for name in ("part.old", "part.busy"):
        os.utime(control / name, (time.time() - 2 * eviction.STALE,) * 2)
    lock = Area(str(node)).try_lock(b"busy")
    assert run("clean", "--to", node).status == 0
    assert sorted(path.name for path in control.glob("*.*") if path.is_dir()) == ["part.busy", "part.young"]
    assert [path.name for path in control.glob("new.*")] == ["new.8"]
    lock.close()
    assert run("clean", "--to", node, "--all").status == 0
    assert [path for path in control.iterdir() if path.is_dir()] == []
    assert names(node) == []


@pytest.fixture
def wrong(monkeypatch):
    """Sets this node's clock so many hours ahead, or behind."""
    real = time.time

    def by(hours):
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)

    return by


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("hours", cases([-30, -5, 5, 30], quick=2))
def test_a_clock_that_is_wrong_or_put_right_ends_no_use(node, wrong, hours):
    area = Area(str(node))
    uses.record_use(area, b"a", "5", 3600.0, "job")
    wrong(hours)
    uses.record_use(area, b"b", "6", 3600.0, "job")
    assert eviction.clean_up(area) == []
    assert (uses.users(area, b"a"), uses.users(area, b"b")) == (["5"], ["6"])
    assert not eviction.remove(area, b"a")
    wrong(0)
    assert eviction.clean_up(area) == []
    assert [entry.name for entry in eviction.evict(area, lambda: False)] == [b"c"]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("hours", [-30, 30])
def test_what_was_used_last_goes_last_whatever_the_clock_says(node, wrong, hours):
    area = Area(str(node))
    wrong(hours)
    uses.touch(area, b"a")
    wrong(0)
    uses.touch(area, b"b")
    wrong(-hours)
    uses.touch(area, b"c")
    assert names(node) == ["a", "b", "c"]
    uses.touch(area, b"a")
    assert names(node) == ["b", "c", "a"]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("hours", [-60, 60])
def test_the_age_of_what_was_left_is_that_of_the_storage(node, wrong, hours):
    area = Area(str(node))
    for name in ("part.set", "buffer.set@7", "pack.set@7"):
        (node / ".dlrun" / name).mkdir()
    wrong(hours)
    eviction.clean_up(area)
    left = {path.name for path in (node / ".dlrun").iterdir() if path.is_dir()}
    assert left == {"part.set", "buffer.set@7", "pack.set@7"}


@pytest.mark.slow
@pytest.mark.each_python
def test_verify_finds_what_was_damaged_later(node):
    assert run("verify", "--to", node, "--name", "a").status == 0
    path = node / "a" / "data" / "f"
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    found = run("verify", "--to", node, "--name", "a")
    assert (found.status, "`f`" in found.err) == (1, True)
    assert run("verify", "--to", node, "--name", "none").status == 1


@pytest.mark.parametrize("after", ["stat", "open", "listdir"])
@pytest.mark.parametrize("other", ["removes", "takes over"])
def test_rubbish_that_another_job_removes_at_the_same_time_goes(tmp_path, after, other):
    """Jobs that end together clean one node together, and each takes what it finds for left behind."""
    area = Area(str(tmp_path / "node"))
    rubbish = tmp_path / "node/.dlrun/trash.1.0"
    write(os.fsencode(rubbish / "sub" / "f"), b"x")
    real, meanwhile = getattr(os, after), pytest.MonkeyPatch()

    def then(*words, **more):
        meanwhile.undo()  # once is enough
        found = real(*words, **more)
        taken = rubbish.rename(tmp_path / "taken")
        if other == "removes":
            shutil.rmtree(taken)
        return found

    meanwhile.setattr(os, after, then)
    remove_tree(area.control, b"trash.1.0")
    assert not rubbish.exists()
    assert not (tmp_path / "taken/sub/f").exists() or after != "listdir"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize(
    "where", cases(["data/labels.cache", "data/new/x", "mine", "bin/mine", "data/f", ".hidden"], quick=1)
)
def test_a_set_with_a_file_of_the_user_is_kept_whole(tmp_path, node, where):
    """A training may put a cache beside its data, or change it."""
    path = node / "a" / where
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine")
    refused = run("evict", "--to", node, "--name", "a")
    assert (refused.status, f"{where} (4 B)" in refused.err) == (1, True), refused.err
    assert run("evict", "--to", node, "--free", "1000P").status == 1
    cleaned = run("clean", "--to", node, "--all")
    assert (cleaned.status, "kept a" in cleaned.err, "b" in names(node)) == (0, True, False)
    assert path.read_bytes() == b"mine"
    assert names(node) == ["a"]


@pytest.mark.slow
@pytest.mark.each_python
def test_a_link_or_a_changed_name_is_not_followed(tmp_path, node):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    (node / "a" / "data" / "out").symlink_to(outside)
    assert run("evict", "--to", node, "--name", "a").status == 1
    (node / "a" / "data" / "out").unlink()
    assert run("evict", "--to", node, "--name", "a").out == "removed a\n"
    assert (outside / "mine").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_new_version_leaves_what_the_user_put_into_the_old_one(tmp_path, node):
    (node / "a" / "data" / "labels.cache").write_bytes(b"mine")
    write(os.fsencode(tmp_path / "a" / "g"), os.urandom(1000))
    found = run("stage", "--source", tmp_path / "a", "--to", node, "--name", "a", "--json").done()
    assert any("is kept in `a.kept-1`" in note for note in found["notes"])
    assert [path.name for path in (node / "a.kept-1").rglob("*") if path.is_file()] == ["labels.cache"]
    assert (node / "a.kept-1" / "data" / "labels.cache").read_bytes() == b"mine"
    assert (node / "a" / "data" / "g").exists()
    assert names(node)[-1] == "a"


@pytest.mark.slow
@pytest.mark.each_python
def test_a_directory_of_the_user_is_not_replaced_by_a_set_of_its_name(tmp_path, node):
    (node / "mine" / "data").mkdir(parents=True)
    (node / "mine" / "thesis.tex").write_text("mine")
    (node / "mine" / "manifest").write_text("mine")
    run("stage", "--source", tmp_path / "a", "--to", node, "--name", "mine")
    kept = [path.read_text() for path in node.glob("mine*/thesis.tex")]
    assert kept == ["mine"]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("whole_first", [False, True])
def test_what_is_kept_for_a_whole_job_stays_as_long_as_it_or_a_part_of_it(tmp_path, node, whole_first):
    for part in ("9-1.0", "9-2.0"):
        words = ("--to", node, "--keep", "job", "--job", part, "--held-by", "9")
        assert run("stage", "--source", tmp_path / "a", "--name", "a", *words).status == 0
    ends = ["9", "9-1.0", "9-2.0"] if whole_first else ["9-1.0", "9-2.0", "9"]
    for job in ends[:-1]:
        assert run("clean", "--to", node, "--job", job).status == 0
        assert "a" in names(node), job
    assert run("clean", "--to", node, "--job", ends[-1]).status == 0
    assert names(node) == ["b", "c"]
