"""Shards and packed sets: each file in exactly one place, and a tar file that any tar reads."""

import os
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from dlrun.node.source.manifest import FILE
from dlrun.node.source.subset import shard, subset
from dlrun.node.store import tarball
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.unit.node.programs import run, staging, start, start_held
from tests.unit.node.relay.test_chain import Nodes, until
from tests.unit.node.source.test_manifest import manifest_like
from tests.unit.node.trees import odd, snapshot, write


@pytest.fixture
def source(tmp_path):
    for number in range(150):
        write(os.fsencode(tmp_path / "source" / f"d{number % 7}" / f"f{number}"), os.urandom(number * 100))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20))
    return tmp_path / "source"


@settings(max_examples=examples(40))
@given(manifest_like())
def test_the_names_of_a_directory_are_those_of_its_entries(made):
    wanted = [[] for _ in made.dirs]
    for entry, name in enumerate(made.names):
        wanted[made.parents[entry]].append(name)
    assert made.names_by_directory() == wanted


@settings(max_examples=examples(40))
@given(manifest_like(), st.integers(1, 7), st.sampled_from(["files", "bytes"]))
def test_every_file_is_in_exactly_one_shard(made, parts, balance):
    shards = [shard(made, part, parts, balance) for part in range(parts)]
    files = [found.path(e) for found in shards for e, kind in enumerate(found.kinds) if kind == FILE]
    assert sorted(files) == sorted(made.path(e) for e, kind in enumerate(made.kinds) if kind == FILE)
    if balance == "files":
        counts = [found.files() for found in shards]
        assert max(counts) - min(counts) <= 1
    else:
        most = max(made.sizes, default=0)
        loads = [found.size() for found in shards]
        assert max(loads) - min(loads) <= most
    for found in shards:
        assert found.dirs == made.dirs
        assert dict(found.hard_links()).keys() <= set(range(len(found.names)))
        for entry, first in found.hard_links():
            assert found.kinds[first] == FILE
            assert first != entry


@settings(max_examples=examples(40))
@given(manifest_like())
def test_all_entries_are_the_whole_set(made):
    assert subset(made, lambda _: True).id() == made.id()


@pytest.mark.slow
def test_one_node_takes_its_shard(tmp_path, source):
    names = []
    for part in range(3):
        place = tmp_path / f"node{part}"
        arguments = (
            *staging(source, place, "s"),
            "--strategy",
            "shard",
            "--shard",
            f"{part}/3",
        )
        assert run(*arguments, "--json").done()["how"] == "copied"
        assert run(*arguments, "--json").done()["how"] == "warm"
        names += [
            str(p.relative_to(place / "s" / "data"))
            for p in place.rglob("*")
            if p.is_file() and "/data/" in str(p)
        ]
    assert sorted(names) == sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.is_file())
    assert (
        run("stage", "--source", source, "--to", tmp_path / "n", "--name", "s", "--strategy", "shard").status
        == 2
    )
    assert (
        run(
            *staging(source, tmp_path / "n", "s"),
            "--strategy",
            "shard",
            "--shard",
            "3/3",
        ).status
        == 2
    )


@pytest.mark.slow
def test_all_nodes_take_their_shards_and_one_walks(tmp_path, source):
    group = Nodes(tmp_path, 3)
    try:
        found = [result.done() for result in group.stage(source, "--strategy", "shard", "--balance", "bytes")]
        assert sum(result["read"] for result in found) == sum(
            p.stat().st_size for p in source.rglob("*") if p.is_file()
        )
        names = [
            str(p.relative_to(group.data(k)))
            for k in range(3)
            for p in group.data(k).rglob("*")
            if p.is_file()
        ]
        assert sorted(names) == sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.is_file())
        again = group.stage(source, "--strategy", "shard", "--balance", "bytes")
        assert [result.done()["how"] for result in again] == ["warm"] * 3, again
    finally:
        group.stop()


def check_tar(path, tree, before):
    """The tar file holds what the snapshot `before` of `tree` says, but for whole seconds and attributes."""
    with tarfile.open(path, errorlevel=2) as archive:
        members = {os.fsencode(m.name.rstrip("/")): m for m in archive.getmembers()}
        assert set(members) == set(before) - {b"."}
        for name, member in members.items():
            entry = before[name]
            kind = entry[0]
            assert member.mtime == entry[1] // 10**9
            if kind == stat.S_IFLNK:
                assert member.issym()
                assert os.fsencode(member.linkname) == entry[2]
            elif kind == stat.S_IFDIR:
                assert member.isdir()
                assert member.mode == entry[2]
            else:
                assert member.isfile() or member.islnk()
                with open(os.fsencode(tree) + b"/" + name, "rb") as real:
                    assert archive.extractfile(member).read() == real.read()


def test_a_packed_set_is_a_tar_file_with_an_index(tmp_path):
    before = odd(tmp_path / "source")
    arguments = (
        *staging(tmp_path / "source", tmp_path / "node"),
        "--strategy",
        "pack",
    )
    found = run(*arguments, "--json", "--verify").done()
    assert sorted(os.listdir(found["path"])) == ["set.tar", "set.tar.index"]
    tar = os.path.join(found["path"], "set.tar")
    check_tar(tar, tmp_path / "source", before)
    (tmp_path / "unpacked").mkdir()
    # All directories come first in it: without the option tar would close one before it has its files, but for root.
    subprocess.run(["tar", "--delay-directory-restore", "-xpf", tar, "-C", tmp_path / "unpacked"], check=True)
    unpacked = snapshot(tmp_path / "unpacked")
    assert {path: entry[-3] for path, entry in unpacked.items() if len(entry) == 7} == {
        path: entry[-3] for path, entry in before.items() if len(entry) == 7
    }
    with open(tar, "rb") as archive, open(tar + ".index", "rb") as index:
        for record in index.read().split(b"\0")[:-1]:
            offset, size, name = record.split(b" ", 2)
            archive.seek(int(offset))
            with open(os.fsencode(tmp_path / "source") + b"/" + name, "rb") as real:
                assert archive.read(int(size)) == real.read()
    assert run(*arguments, "--json").done()["how"] == "warm"
    assert run("verify", "--to", tmp_path / "node", "--name", "set").status == 0
    mode = os.stat(tar).st_mode
    os.chmod(tar, 0o600)  # root needs no permission to write
    with open(tar, "r+b") as archive:
        os.chmod(tar, mode)
        archive.seek(tarball.UNIT * 2000)
        archive.write(b"damage")
    assert run("verify", "--to", tmp_path / "node", "--name", "set").status == 1


@pytest.mark.parametrize("harm", ["removed", "garbage", "touched"])
def test_a_pack_needs_its_index(tmp_path, source, harm):
    arguments = (*staging(source, tmp_path / "node"), "--strategy", "pack", "--json")
    index = Path(run(*arguments).done()["path"], "set.tar.index")
    before = index.read_bytes()
    if harm == "removed":
        index.unlink()
    elif harm == "garbage":
        index.chmod(0o600)
        index.write_bytes(b"x" * len(before))
    else:
        index.touch()
    assert run(*arguments).done()["how"] == ("warm" if harm == "touched" else "copied")
    assert index.read_bytes() == before
    assert run(*arguments).done()["how"] == "warm"


@pytest.mark.parametrize("shortened", [False, True], ids=["whole", "shortened by a crash"])
def test_a_killed_packing_goes_on(tmp_path, source, shortened):
    arguments = (
        *staging(source, tmp_path / "node"),
        "--strategy",
        "pack",
    )
    process = start_held(tmp_path / "gate", *arguments)
    part = tmp_path / "node" / ".dlrun" / "part.set"
    until(lambda: any(path.stat().st_size for path in part.glob("journal.*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    if shortened:
        tar = part / "data" / "set.tar"
        os.truncate(tar, tar.stat().st_size - 1)
    done = run(*arguments, "--json").done()
    assert (done["copied"] < done["bytes"]) is not shortened
    check_tar(os.path.join(done["path"], "set.tar"), source, snapshot(source))
    write(os.fsencode(source / "d1" / "a"), b"first of all: everything moves")
    check_tar(os.path.join(run(*arguments, "--json").done()["path"], "set.tar"), source, snapshot(source))


HELD_TAR = """
import os, time
from dlrun.node.store.tarball import TarWriter
def write(self, block, view):
    open({began!r}, "w").close()
    time.sleep(600)
TarWriter.write = write
"""  # the tar file stands there in full size, and no block of it is written


@pytest.mark.slow
@pytest.mark.each_python
def test_a_packing_killed_before_its_first_block_is_packed_whole_by_the_next_run(tmp_path, source):
    arguments = (
        *staging(source, tmp_path / "node"),
        "--strategy",
        "pack",
    )
    began = tmp_path / "began"
    process = start(*arguments, prelude=HELD_TAR.format(began=str(began)))
    until(began.exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert (tmp_path / "node" / ".dlrun" / "part.set" / "data" / "set.tar").stat().st_size > 0
    done = run(*arguments, "--json").done()
    check_tar(os.path.join(done["path"], "set.tar"), source, snapshot(source))


REPLACED_TAR = """
import os
from dlrun.node.store.tarball import TarWriter
real = TarWriter.write
def write(self, block, view):
    real(self, block, view)
    try:
        os.link({tar!r}, {tar!r} + ".real")
    except FileExistsError:
        return
    with open({tar!r} + ".other", "wb") as file:
        file.truncate(os.stat({tar!r}).st_size)
    os.rename(file.name, {tar!r})
TarWriter.write = write
"""  # the first block's writer, of all threads and processes, replaces it


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("more", [(), ("--verify",)])
def test_a_tar_file_that_is_replaced_while_it_is_written_is_not_published(tmp_path, source, more):
    arguments = (
        *staging(source, tmp_path / "node"),
        "--strategy",
        "pack",
    )
    tar = tmp_path / "node" / ".dlrun" / "part.set" / "data" / "set.tar"
    process = start(*arguments, *more, prelude=REPLACED_TAR.format(tar=str(tar)))
    _, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (1, False), err
    assert "was replaced while it was written" in err
    assert not (tmp_path / "node" / "set").exists()
    assert run(*arguments).status == 0
    check_tar(tmp_path / "node" / "set" / "data" / "set.tar", source, snapshot(source))


@pytest.mark.slow
@pytest.mark.each_python
def test_packs_go_through_the_chain(tmp_path, source):
    group = Nodes(tmp_path, 3)
    try:
        for result in group.stage(source, "--strategy", "pack"):
            check_tar(os.path.join(result.done()["path"], "set.tar"), source, snapshot(source))
    finally:
        group.stop()


@pytest.mark.parametrize("length", [99, 100, 101, 155, 256, 511, 512, 513, 1000])
def test_long_names_are_as_gnu_tar_writes_them(tmp_path, length):
    name = b"n" * length
    data = tarball.header(name, b"2", 0o777, 0, -5, b"t" * length) + bytes(1024)
    (tmp_path / "t.tar").write_bytes(data)
    with tarfile.open(tmp_path / "t.tar") as archive:
        (member,) = archive.getmembers()
    assert (os.fsencode(member.name), os.fsencode(member.linkname), member.mtime) == (name, b"t" * length, -5)


def test_a_file_of_more_than_8_gib_has_its_size(tmp_path):
    data = tarball.header(b"big", b"0", 0o644, 9 << 30, 7)
    assert tarfile.TarInfo.frombuf(data, "utf-8", "strict").size == 9 << 30
