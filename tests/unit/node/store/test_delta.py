"""A new version of a data set: what changed is copied, the rest is shared with the published version."""

import os

import pytest

from tests.unit.node.programs import run, staging
from tests.unit.node.relay.test_chain import nodes  # noqa: F401
from tests.unit.node.trees import snapshot, write

FILES, SIZE = 600, 2000


@pytest.fixture
def source(tmp_path):
    for number in range(FILES):
        path = tmp_path / "source" / f"d{number // 100}" / f"f{number:03}"
        write(os.fsencode(path), b"%06d" % number + os.urandom(SIZE), mtime=10**18 + number)
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20), mtime=10**18)
    return tmp_path / "source"


@pytest.fixture
def stage(tmp_path, source):
    def one(*more):
        return run(*staging(source, tmp_path / "node"), "--json", *more)

    return one


@pytest.fixture
def data(tmp_path):
    return tmp_path / "node" / "set" / "data"


def inodes(top):
    return {str(path.relative_to(top)): path.stat().st_ino for path in top.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_only_changed_files_are_read_and_copied(stage, source, data):
    stage().done()
    before = inodes(data)
    changed = ["d0/f007", "d0/f008", "d3/f300", "d5/f599"]
    for name in changed:
        write(os.fsencode(source / name), b"changed" + os.urandom(SIZE))
    (source / "d2" / "f222").unlink()
    write(os.fsencode(source / "d2" / "new"), b"new")
    done = stage().done()
    assert (done["copied"], done["read"]) == (4 * (SIZE + 7) + 3,) * 2
    assert snapshot(data) == snapshot(source)
    after = inodes(data)
    assert {name for name in after if before.get(name) != after[name]} == {*changed, "d2/new"}
    assert stage("--verify").done()["how"] == "warm"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_renamed_file_costs_nothing_but_its_name(stage, source, data, what):
    stage().done()
    before = inodes(data)
    if what == "file":
        (source / "large").rename(source / "d1" / "moved")
        (source / "d0" / "f000").rename(source / "d5" / "a")
    else:
        (source / "d0").rename(source / "e0")
    done = stage().done()
    assert (done["how"], done["copied"]) == ("copied", 0)
    assert sorted(inodes(data).values()) == sorted(before.values())
    assert snapshot(data) == snapshot(source)
    assert run("verify", "--to", data.parents[1], "--name", "set").status == 0


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_that_was_renamed_and_rewritten_with_its_old_time_is_copied(stage, source, data):
    stage().done()
    (source / "d0" / "f000").rename(source / "d5" / "a")
    status = (source / "d5" / "a").stat()
    with (source / "d5" / "a").open("r+b") as file:
        file.write(b"other content")
    os.utime(source / "d5" / "a", ns=(status.st_mtime_ns,) * 2)
    assert stage().done()["copied"] == SIZE + 6
    assert snapshot(data) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_that_others_can_write_is_not_shared(stage, source, data, tmp_path):
    for name, mode in (("d0/f000", 0o666), ("d1/f100", 0o664), ("d2/f200", 0o644), ("large", 0o646)):
        (source / name).chmod(mode)
    stage().done()
    before = inodes(data)
    os.link(data / "d0" / "f000", tmp_path / "kept")  # its inode must not be free for the copy
    os.link(data / "d1" / "f100", tmp_path / "kept-too")
    os.link(data / "large", tmp_path / "kept-large")
    write(os.fsencode(source / "d2" / "new"), b"new")
    done = stage().done()
    assert done["copied"] == 3, "it was copied from the published version, not from the source"
    after = inodes(data)
    assert {name for name in before if before[name] != after[name]} == {"d0/f000", "d1/f100", "large"}
    for name in ("kept", "kept-too", "kept-large"):
        (tmp_path / name).unlink()
    assert snapshot(data) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("name", ["d0/f001", "large"])
def test_a_published_file_that_was_rewritten_with_its_old_time_is_not_passed_on(stage, source, data, name):
    stage().done()
    status = (data / name).stat()
    with (data / name).open("r+b") as file:
        file.seek(5)
        file.write(b"damage")
    os.utime(data / name, ns=(status.st_mtime_ns,) * 2)
    write(os.fsencode(source / "d2" / "new"), b"new")
    assert stage().status == 0
    assert snapshot(data) == snapshot(source)


def test_a_mode_or_a_time_alone_is_changed_in_a_copy(stage, source, data):
    stage().done()
    (source / "large").chmod(0o600)
    os.utime(source / "d0" / "f000", ns=(5, 5))
    stage().done()
    assert snapshot(data) == snapshot(source)


@pytest.mark.slow
def test_over_several_nodes_only_what_changed_travels(nodes, source):  # noqa: F811
    three = nodes(3)
    three.stage(source)
    write(os.fsencode(source / "d3" / "f300"), b"changed" + os.urandom(SIZE))
    os.utime(source / "d4" / "f400", ns=(7, 7))
    (source / "large").rename(source / "moved")
    found = [one.done() for one in three.stage(source)]
    assert [one["copied"] for one in found] == [SIZE + 7] * 3
    assert all(snapshot(three.data(number)) == snapshot(source) for number in range(3))
