"""A version of which few files changed takes the place of the published one there, and a kill leaves nothing that counts."""

import os
import shutil
import signal

import pytest

from tests.unit.node.programs import run, staging, start, start_held
from tests.unit.node.relay.test_chain import nodes, until  # noqa: F401
from tests.unit.node.trees import data_size, snapshot, write

FILES, SIZE, LARGE = 600, 2000, 9 << 20


@pytest.fixture
def source(tmp_path):
    for number in range(FILES):
        path = tmp_path / "source" / f"d{number // 100}" / f"f{number:03}"
        write(os.fsencode(path), b"%06d" % number + os.urandom(SIZE), mtime=10**18 + number)
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(LARGE), mtime=10**18)
    return tmp_path / "source"


@pytest.fixture
def words(tmp_path, source):
    return (*staging(source, tmp_path / "node"), "--json")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "node" / "set" / "data"


def change(source):
    """Rewrite five files, one of them with its old size and time, and add one in a new directory; returns their bytes."""
    for name in ("d0/f007", "d0/f008", "d5/f599"):
        write(os.fsencode(source / name), b"changed" + os.urandom(SIZE))
    same = source / "d3" / "f300"
    write(os.fsencode(same), b"another" + os.urandom(SIZE - 1), mtime=same.stat().st_mtime_ns)
    write(os.fsencode(source / "large"), os.urandom(LARGE))
    write(os.fsencode(source / "e" / "below" / "new"), b"new")
    return 3 * (SIZE + 7) + SIZE + 6 + LARGE + 3


def journals(tmp_path):
    """The number of journals with a record: a journal is made, and then its first record is written."""
    part = tmp_path / "node" / ".dlrun" / "part.set"
    return sum(path.stat().st_size > 0 for path in part.glob("journal.*"))


def check(tmp_path, source):
    """The published set is the source, with right hashes, and nothing else was left."""
    assert snapshot(tmp_path / "node" / "set" / "data") == snapshot(source)
    assert run("verify", "--to", tmp_path / "node", "--name", "set").status == 0
    assert [name for name in os.listdir(tmp_path / "node") if name != ".dlrun"] == ["set"]
    assert not [
        name for name in os.listdir(tmp_path / "node" / ".dlrun") if name.startswith(("part", "trash"))
    ]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("sync", ["none", "set"])
def test_only_new_and_changed_files_are_moved_into_the_published_tree(tmp_path, source, words, data, sync):
    run(*words, "--sync", sync).done()
    before = {path: path.stat() for path in data.rglob("*")}
    size = change(source)
    done = run(*words, "--sync", sync).done()
    assert (done["how"], done["copied"], done["read"]) == ("copied", size, size)
    check(tmp_path, source)
    stayed = [path for path, status in before.items() if status.st_ctime_ns == path.stat().st_ctime_ns]
    assert len([path for path in stayed if path.is_file()]) == FILES - 4
    assert run(*words, "--recheck", "all").done()["how"] == "warm"


KILLED = """
import os
from dlrun.node.store import build, target, versions
left = {calls}
class Killing:
    def __getattr__(self, name):
        return getattr(os, name)
    def rename(self, *arguments, **more):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        os.rename(*arguments, **more)
build.os = target.os = versions.os = Killing()
"""
FIRST = 2  # renames before the set is marked as incomplete: manifest and boot of the part; then those of six files, and two


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("calls", range(FIRST, FIRST + 9))
def test_a_set_that_a_kill_left_between_two_versions_does_not_count(tmp_path, source, words, data, calls):
    run(*words).done()
    old = snapshot(data)
    change(source)
    killed = start(*words, prelude=KILLED.format(calls=calls))
    killed.communicate()
    assert killed.returncode == 9
    done = run(*words).done()
    check(tmp_path, source)
    assert done["how"] == "copied"
    if calls == FIRST:
        assert done["copied"] == 0, "all new files were there, and the old ones as they were"
    else:
        assert done["copied"] >= (FILES - 4) * (SIZE + 6), "nothing of that set counts as there"
    assert snapshot(data) != old


@pytest.mark.slow
@pytest.mark.each_python
def test_a_kill_while_new_files_are_copied_leaves_the_published_version_and_what_was_copied(
    tmp_path, source, words, data
):
    run(*words).done()
    old = snapshot(data)
    size = change(source)
    process = start_held(tmp_path / "gate", *words)
    until(lambda: journals(tmp_path) > 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert snapshot(data) == old
    assert run(*words).done()["copied"] < size
    check(tmp_path, source)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("what", ["added", "hidden", "changed"])
def test_what_a_user_did_in_the_published_version_while_files_were_copied_is_kept_aside(
    tmp_path, source, words, data, what
):
    run(*words).done()
    change(source)
    process = start_held(tmp_path / "gate", *words)
    until(lambda: journals(tmp_path) > 1)
    time = data.stat().st_mtime_ns
    write(os.fsencode(data / {"changed": "d0/f007"}.get(what, "cache")), b"mine")
    if what == "hidden":
        os.utime(data, ns=(time, time))
    (tmp_path / "gate").touch()
    process.communicate()
    assert process.returncode == 0
    assert snapshot(data) == snapshot(source)
    kept = [path for path in (tmp_path / "node" / "set.kept-1").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in kept if path.name != "manifest"] == [b"mine"]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("lost", [None, 1, 2])
def test_over_several_nodes_each_changes_its_published_version_and_one_without_gets_all(
    source,
    nodes,  # noqa: F811
    lost,
):
    three = nodes(3)
    three.stage(source)
    if lost is not None:
        shutil.rmtree(three.data(lost).parent)
    stays = [(three.data(number) / "d1" / "f100").stat().st_ctime_ns for number in range(3) if number != lost]
    size = change(source)
    found = [one.done() for one in three.stage(source)]
    assert [one["copied"] for one in found] == [
        data_size(source) if number == lost else size for number in range(3)
    ]
    assert all(snapshot(three.data(number)) == snapshot(source) for number in range(3))
    assert stays == [
        (three.data(number) / "d1" / "f100").stat().st_ctime_ns for number in range(3) if number != lost
    ]


@pytest.mark.slow
@pytest.mark.each_python
def test_a_digest_is_that_of_files_that_stay_and_of_new_ones(tmp_path, source, words):
    run(*words).done()
    change(source)
    done = run(*words, "--version", "compute").done()
    fresh = run(*staging(source, tmp_path / "other"), "--json", "--version", "compute").done()
    assert done["digest"] == fresh["digest"]
    assert snapshot(tmp_path / "node" / "set" / "data") == snapshot(source)
