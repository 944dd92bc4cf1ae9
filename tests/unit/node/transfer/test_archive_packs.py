"""An archive that becomes one tar file (`strategy: pack`): its content is written once, and is what `tar` finds in it."""

import io
import os
import random
import shutil
import signal
import stat
import subprocess
import tarfile
import zipfile

import pytest

from tests.unit.node.programs import run, staging
from tests.unit.node.relay.test_chain import nodes  # noqa: F401 - a fixture
from tests.unit.node.trees import odd, snapshot, write

SIZE = 8 << 20
HEADS = 1 << 20
"""Bytes of headers, manifests and messages at most."""


def written():
    """Bytes that this process and its ended children have written."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["wchar"])


def pack(archive, to, *more):
    return run(*staging(archive, to), "--unpack", "--strategy", "pack", "--json", *more)


def source(tmp_path):
    """Files of all sizes, in an order of names that is not that of the archive."""
    chance = random.Random(1)
    root = tmp_path / "source"
    for number in range(200):
        write(
            os.fsencode(root / f"d{number % 7}" / f"f{number}"), chance.randbytes(number * 100), mtime=10**18
        )
    write(os.fsencode(root / "d3" / "large"), chance.randbytes(SIZE), mtime=10**18)
    write(os.fsencode(root / "d4" / ("n" * 150)), b"a long name", mtime=10**18)
    write(os.fsencode(root / "d4" / "empty"), b"", mtime=10**18)
    os.symlink("large", root / "d3" / "link")
    os.link(root / "d3" / "large", root / "d0" / "hard")
    return root


def archive_of(root, path, kind):
    names = [name.relative_to(root) for name in root.rglob("*")]
    random.Random(2).shuffle(names)
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as made:
            for name in names:
                if not (root / name).is_symlink():
                    made.write(root / name, name)
    else:
        with tarfile.open(path, "w:" + kind) as made:
            for name in names:
                made.add(root / name, name, recursive=False)
    return path


def extracted(tmp_path, to="to"):
    """What `tar` makes of the set's tar file, of which the index must name each file's place."""
    tar = tmp_path / to / "set" / "data" / "set.tar"
    place = tmp_path / f"{to}-extracted"
    place.mkdir()
    subprocess.run(["tar", "-xf", tar, "-C", place], check=True)
    for line in (tar.parent / "set.tar.index").read_bytes().split(b"\0")[:-1]:
        offset, size, name = line.split(b" ", 2)
        with open(tar, "rb") as file:
            file.seek(int(offset))
            assert file.read(int(size)) == (place / os.fsdecode(name)).read_bytes()
    return place


def content(root, kind=""):
    """Kind, time in seconds, mode or target and hash by path; a zip file has no links, and times of two seconds."""
    found = {}
    for path, entry in snapshot(root).items():
        if path != b"." and not (kind == "zip" and stat.S_ISLNK(entry[0])):
            links = () if kind == "zip" else entry[6:]
            found[path] = (entry[0], kind == "zip" or entry[1] // 10**9, entry[2], *entry[4:5], *links)
    return found


@pytest.mark.parametrize("kind", ["", "gz", "zip"])
@pytest.mark.needs("tar")
def test_the_content_of_an_archive_is_written_once(tmp_path, kind):
    root = source(tmp_path)
    archive = archive_of(root, tmp_path / "archive", kind)
    before = written()
    done = pack(archive, tmp_path / "to", "--verify").done()
    more = SIZE if kind == "zip" else 0  # it has no hard links
    assert written() - before < done["bytes"] + HEADS
    assert SIZE + more <= done["bytes"] < SIZE + more + (3 << 20)
    assert content(extracted(tmp_path), kind) == content(root, kind)


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_whichever_of_several_names_has_the_data(tmp_path, first):
    with tarfile.open(tmp_path / "archive", "w") as made:
        add(made, first, b"x" * SIZE)
        for name in {"a", "b", "c"} - {first}:
            add(made, name, link=first)
    before = written()
    pack(tmp_path / "archive", tmp_path / "to", "--verify").done()
    assert written() - before < SIZE + HEADS
    place = extracted(tmp_path)
    assert {name: (place / name).stat().st_nlink for name in "abc"} == dict.fromkeys("abc", 3)


def add(made, name, content=b"", link=""):
    info = tarfile.TarInfo(name)
    info.size, info.linkname = len(content), link
    if link:
        info.type = tarfile.LNKTYPE
    made.addfile(info, io.BytesIO(content))


def test_the_last_member_of_a_name_counts(tmp_path):
    """The tar file then is another one than what was unpacked, and the content is copied."""
    with tarfile.open(tmp_path / "archive", "w") as made:
        for name, data in (("a", b"1" * 5000), ("d/b", b"2"), ("a", b"3"), ("c", b"4" * 600)):
            add(made, name, data)
        add(made, "other", link="c")
        add(made, "c", b"5")
    done = pack(tmp_path / "archive", tmp_path / "to", "--verify").done()
    assert (done["files"], done["bytes"]) == (4, 603)
    place = extracted(tmp_path)
    assert {path: (place / path).read_bytes() for path in ("a", "d/b", "c", "other")} == {
        "a": b"3", "d/b": b"2", "c": b"5", "other": b"4" * 600,
    }  # fmt: skip


@pytest.mark.needs("tar")
def test_some_members_of_an_archive(tmp_path):
    archive = archive_of(source(tmp_path), tmp_path / "archive", "gz")
    pack(archive, tmp_path / "to", "--verify", "--exclude", "d3/*", "--exclude", "d0/*").done()
    found, wanted = (
        {path: entry for path, entry in content(root).items() if not stat.S_ISDIR(entry[0])}
        for root in (extracted(tmp_path), tmp_path / "source")
    )
    assert found == {path: e for path, e in wanted.items() if not path.startswith((b"d3/", b"d0/"))}


@pytest.mark.needs("tar")
def test_every_kind_of_entry_and_name(tmp_path):
    odd(tmp_path / "source")
    for name in ("absolute", "up"):
        (tmp_path / "source" / name).unlink()
    subprocess.run(
        ["tar", "-C", tmp_path / "source", "-cSf", tmp_path / "x.tar", "--format=posix", "."], check=True
    )
    before = written()
    done = pack(tmp_path / "x.tar", tmp_path / "to", "--verify").done()
    assert written() - before < done["bytes"] - (43 << 20) + HEADS, "holes are not written"
    found, wanted = content(extracted(tmp_path)), content(tmp_path / "source")
    if os.geteuid() == 0:  # nobody could read the copy of a file without a mode
        wanted[b"no-mode"] = (*wanted[b"no-mode"][:2], 0o400, *wanted[b"no-mode"][3:])
    assert found == wanted
    assert pack(tmp_path / "x.tar", tmp_path / "to").done()["how"] == "warm"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.needs("tar")
def test_nodes_get_the_tar_file_of_the_first(tmp_path, nodes):  # noqa: F811 - a fixture
    archive = archive_of(source(tmp_path), tmp_path / "archive", "gz")
    group = nodes(3)
    before, words = written(), ("--unpack", "--strategy", "pack", "--verify")
    found = [one.done() for one in group.stage(archive, *words)]
    # Each node sends it, too, but the last.
    assert written() - before < 5 * found[0]["bytes"] + 3 * HEADS
    tars = [(group.data(node) / "set.tar").read_bytes() for node in range(3)]
    assert tars[0] == tars[1] == tars[2]
    assert [one.done()["how"] for one in group.stage(archive, *words)] == ["warm"] * 3
    shutil.rmtree(group.root / "node0")
    assert [one.done()["how"] for one in group.stage(archive, *words)] == ["copied", "warm", "warm"]
    assert (group.data(0) / "set.tar").read_bytes() == tars[0]


@pytest.mark.slow
@pytest.mark.each_python
def test_a_lost_first_node_is_replaced_by_another(tmp_path, nodes):  # noqa: F811 - a fixture
    archive = archive_of(source(tmp_path), tmp_path / "archive", "")
    group, words = nodes(2), ("--unpack", "--strategy", "pack", "--dead-after", "2s")
    group.begin_held(archive, *words)
    group.until_copying(1)
    os.killpg(group.programs[0].pid, signal.SIGKILL)
    group.programs[0].wait()
    group.end(1).done()
    pack(archive, tmp_path / "alone").done()
    alone = tmp_path / "alone" / "set" / "data" / "set.tar"
    assert (group.data(1) / "set.tar").read_bytes() == alone.read_bytes()
