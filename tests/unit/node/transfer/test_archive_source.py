"""Archives as sources: their content arrives as `tar` and `unzip` would leave it, or nothing does, and the member is named."""

import contextlib
import io
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import zipfile

import pytest
from dlrun.node.common.errors import SourceFault
from dlrun.node.source.archive import Archive
from dlrun.node.transfer.unpack import Tree

from tests import programs as machine
from tests.examples import cases
from tests.unit.node import programs
from tests.unit.node.programs import run, staging, start
from tests.unit.node.relay.test_chain import nodes, until  # noqa: F401 - a fixture
from tests.unit.node.trees import odd, snapshot, write


def unpack(tmp_path, archive, *more):
    return run(*staging(archive, tmp_path / "to"), "--unpack", "--json", *more)


def data(tmp_path):
    return tmp_path / "to" / "set" / "data"


def nothing_published(tmp_path):
    return os.listdir(tmp_path / "to") == [".dlrun"]


def tar(path, *members, mode="w"):
    """A tar file of `TarInfo`, or names, each with its content."""
    with tarfile.open(path, mode) as made:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


def unpacked(archive, root):
    """The same without staging: into a directory, or an error."""
    root.mkdir()
    with contextlib.ExitStack() as opened:
        found = opened.enter_context(contextlib.closing(Archive(str(archive))))
        place = opened.enter_context(contextlib.closing(Tree(os.fsencode(root), found, 0, lambda _: None)))
        for member, content in found.members():
            place.add(member, content)
        place.finish()


def special(name, **fields):
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, b""


def tree(tmp_path):
    """Some files, and what a training set has of links and modes."""
    for number in range(40):
        write(
            os.fsencode(tmp_path / "source" / f"d{number % 3}" / f"f{number}"),
            os.urandom(number * 400),
            mtime=10**18,
        )
    write(os.fsencode(tmp_path / "source" / "run.sh"), b"#!/bin/sh\n", 0o755, 10**18)
    (tmp_path / "source" / "link").symlink_to("d1/f1")
    (tmp_path / "source" / "empty").mkdir()
    for path in (tmp_path / "source", *(tmp_path / "source").rglob("*")):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    return tmp_path / "source"


def contents(root):
    """Path -> content, target or None of everything below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        found[str(path.relative_to(root))] = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
    return found


@pytest.mark.needs("tar")
def test_every_kind_of_entry_and_name_arrives_as_tar_unpacks_it(tmp_path):
    odd(tmp_path / "source")
    for name in ("absolute", "up"):  # links that lead out, which no archive may have
        (tmp_path / "source" / name).unlink()
    subprocess.run(
        ["tar", "-C", tmp_path, "-cSf", tmp_path / "x.tar", "--format=posix", "source"], check=True
    )
    done = unpack(tmp_path, tmp_path / "x.tar", "--verify").done()
    assert done["how"] == "copied"
    before, after = snapshot(tmp_path / "source"), snapshot(data(tmp_path) / "source")
    if os.geteuid() == 0:  # nobody could read the copy of a file without a mode
        before[b"no-mode"][2] = 0o400
    assert after == before
    assert os.listdir(tmp_path / "to" / ".dlrun").count("unpack.set") == 0


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_compressed_tar_files_are_known_by_their_content(tmp_path, kind):
    source = tree(tmp_path)
    with tarfile.open(
        tmp_path / "archive", f"w:{kind}"
    ) as archive:  # by Python: not every machine has bzip2 and xz
        archive.add(source, ".")
    unpack(tmp_path, tmp_path / "archive").done()
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.needs("tar", "zstd")
def test_a_tar_file_compressed_with_zstd(tmp_path):
    source = tree(tmp_path)
    subprocess.run(["tar", "-C", source, "--zstd", "-cf", tmp_path / "archive", "."], check=True)
    unpack(tmp_path, tmp_path / "archive").done()
    assert snapshot(data(tmp_path)) == snapshot(source)


@pytest.mark.needs("zip")
def test_a_zip_file_arrives_as_unzip_leaves_it(tmp_path):
    source = tree(tmp_path)
    write(os.fsencode(source) + "/n\u00e4me".encode(), b"name")
    subprocess.run(["zip", "-qry", tmp_path / "x.zip", "."], cwd=source, check=True)
    unpack(tmp_path, tmp_path / "x.zip").done()
    assert contents(data(tmp_path)) == contents(source)
    assert stat.S_IMODE((data(tmp_path) / "run.sh").stat().st_mode) == 0o755


@pytest.mark.slow
@pytest.mark.each_python
def test_an_archive_that_has_not_changed_is_not_unpacked_again(tmp_path):
    archive = tar(tmp_path / "x.tar", ("a", b"one"))
    assert unpack(tmp_path, archive).done()["how"] == "copied"
    done = unpack(tmp_path, archive).done()
    assert (done["how"], done["read"]) == ("warm", 0)
    assert "warm in" in (said := run(*staging(archive, tmp_path / "to"), "--unpack").err)
    assert "compared size and time of all files" in said
    os.utime(archive, ns=(1, 1))
    assert unpack(tmp_path, archive).done()["how"] == "copied"


@pytest.mark.parametrize("more", [(), ("--recheck", "none")])
def test_a_changed_archive_is_unpacked_anew_although_names_sizes_and_times_are_the_same(tmp_path, more):
    archive = tar(tmp_path / "x.tar", ("a", b"one"), ("b", b"same"))
    times = archive.stat()
    unpack(tmp_path, archive, *more).done()
    tar(archive, ("a", b"two"), ("b", b"same"))
    os.utime(archive, ns=(times.st_atime_ns, times.st_mtime_ns))
    unpack(tmp_path, archive, *more).done()
    assert contents(data(tmp_path)) == {"a": b"two", "b": b"same"}


@pytest.mark.slow
@pytest.mark.each_python
def test_the_same_name_without_unpacking_is_another_set(tmp_path):
    archive = tar(tmp_path / "x.tar", ("a", b"one"))
    unpack(tmp_path, archive).done()
    run(*staging(archive, tmp_path / "to"), "--json").done()
    assert os.listdir(data(tmp_path)) == ["x.tar"]
    unpack(tmp_path, archive).done()
    assert os.listdir(data(tmp_path)) == ["a"]


def test_the_last_member_of_a_name_counts(tmp_path):
    archive = tar(tmp_path / "x.tar", ("d/a", b"old"), ("./d//a", b"new"))
    unpack(tmp_path, archive).done()
    assert contents(data(tmp_path)) == {"d": None, "d/a": b"new"}


HOSTILE = {
    "up": [("../x", b"")],
    "up within": [("a/../../x", b"")],
    "absolute": [("/tmp/x", b"")],
    "set-user-id": [special("x", mode=0o4755)],
    "device": [special("x", type=tarfile.CHRTYPE)],
    "pipe": [special("x", type=tarfile.FIFOTYPE)],
    "link up": [special("d/x", type=tarfile.SYMTYPE, linkname="../../etc")],
    "absolute link": [special("x", type=tarfile.SYMTYPE, linkname="/etc/hostname")],
    "link through a link": [
        ("a/b/f", b""),
        special("a/b/up", type=tarfile.SYMTYPE, linkname=".."),
        special("c", type=tarfile.SYMTYPE, linkname="a/b/up/../.."),
    ],
    "below a link": [("d/f", b""), special("x", type=tarfile.SYMTYPE, linkname="d"), ("x/g", b"")],
    "below a file": [("x", b""), ("x/g", b"")],
    "file for a directory": [("x/g", b""), ("x", b"")],
    "hard link up": [special("x", type=tarfile.LNKTYPE, linkname="../y")],
    "hard link to nothing": [special("x", type=tarfile.LNKTYPE, linkname="y")],
    "hard link to a link": [
        ("f", b""),
        special("l", type=tarfile.SYMTYPE, linkname="f"),
        special("x", type=tarfile.LNKTYPE, linkname="l"),
    ],
    "hard link through a link": [
        ("d/f", b""),
        special("l", type=tarfile.SYMTYPE, linkname="d"),
        special("x", type=tarfile.LNKTYPE, linkname="l/f"),
    ],
    "no name": [("./", b"")],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_member_that_would_do_harm_is_refused_by_its_name(tmp_path, members):
    archive = tar(tmp_path / "x.tar", ("first", b"1"), *members)
    name = members[-1][0] if isinstance(members[-1][0], str) else members[-1][0].name
    with pytest.raises(SourceFault) as found:
        unpacked(archive, tmp_path / "place")
    assert f"the archive `{archive}` is not unpacked: its member `{name}` " in found.value.message
    assert not (tmp_path / "x").exists()
    assert sorted(os.listdir(tmp_path)) == ["place", "x.tar"]


def test_nothing_of_an_archive_with_such_a_member_is_published(tmp_path):
    found = unpack(tmp_path, tar(tmp_path / "x.tar", ("first", b"1"), ("../x", b"2")))
    assert found.status == 1
    assert "its member `../x` has a path that leads out of the data set" in found.err
    assert nothing_published(tmp_path)


@pytest.mark.parametrize(
    ("name", "mode", "content"),
    [("../x", 0, b""), ("/x", 0, b""), ("x", stat.S_IFLNK, b"/etc"), ("d/x", stat.S_IFLNK, b"../../x"),
     ("x", stat.S_IFIFO, b""), ("x", stat.S_IFREG | 0o4755, b""), ("x", stat.S_IFLNK, b"a" * 5000)],
)  # fmt: skip
def test_a_member_of_a_zip_file_likewise(tmp_path, name, mode, content):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        made.writestr(info, content)
    with pytest.raises(SourceFault) as found:
        unpacked(tmp_path / "x.zip", tmp_path / "place")
    assert f"is not unpacked: its member `{name}` " in found.value.message
    assert sorted(os.listdir(tmp_path)) == ["place", "x.zip"]


def test_an_encrypted_member_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        made.writestr("secret", b"x" * 20)
    content = bytearray((tmp_path / "x.zip").read_bytes())
    for at, magic in ((6, b"PK\3\4"), (8, b"PK\1\2")):
        content[content.index(magic) + at] |= 1
    (tmp_path / "x.zip").write_bytes(content)
    assert "its member `secret` is encrypted" in unpack(tmp_path, tmp_path / "x.zip").err


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zip"])
def test_an_archive_cut_anywhere_is_never_published(tmp_path, kind):
    """Also between two members, where `tarfile` takes it for a whole one."""
    whole = tmp_path / "whole"
    members = [(f"f{number}", os.urandom(700)) for number in range(3)]
    if kind == "zip":
        with zipfile.ZipFile(whole, "w") as made:
            for name, content in members:
                made.writestr(name, content)
    else:
        tar(whole, *members, mode=f"w:{kind}" if kind else "w")
    content = whole.read_bytes()
    # The second block of zeros, and what fills the last 10 KiB, are no part of the members.
    end = 3 * (512 + 1024) if not kind else len(content) - 1
    ends = {1, 300, 511, 512, 513, 1500, 1536, 2048, 3072, end - 1, end}
    for length in sorted(n for n in ends if n <= end):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(SourceFault, match=r"damaged|is not an archive"):
            unpacked(tmp_path / "cut", tmp_path / f"at-{length}")
    assert unpack(tmp_path, tmp_path / "cut").status == 1
    assert nothing_published(tmp_path)


def test_a_file_that_is_damaged_within_is_never_published(tmp_path):
    tar(tmp_path / "x.tar.gz", ("a", b"a" * 5000), mode="w:gz")
    content = bytearray((tmp_path / "x.tar.gz").read_bytes())
    content[-6] ^= 1  # of its checksum
    (tmp_path / "x.tar.gz").write_bytes(content)
    assert "is damaged" in unpack(tmp_path, tmp_path / "x.tar.gz").err
    assert nothing_published(tmp_path)


def test_a_file_that_is_no_archive_and_a_directory_are_refused(tmp_path):
    write(os.fsencode(tmp_path / "text"), b"hello\n" * 200)
    assert "is not an archive that can be unpacked" in unpack(tmp_path, tmp_path / "text").err
    assert "is not a file, so it cannot be unpacked" in unpack(tmp_path, tmp_path).err
    assert "cannot be read" in unpack(tmp_path, tmp_path / "none").err


@pytest.mark.parametrize("strategy", ["shard", "part"])
def test_no_node_has_a_part_of_an_archive(tmp_path, strategy):
    found = unpack(tmp_path, tmp_path / "x.tar", "--strategy", strategy)
    assert (found.status, "--unpack needs strategy copy or pack" in found.err) == (2, True)


def test_the_content_of_an_archive_can_be_packed_and_selected(tmp_path):
    archive = tar(tmp_path / "x.tar", ("a/one.jpg", b"1"), ("a/two.txt", b"2"))
    unpack(tmp_path, archive, "--include", "*.jpg").done()
    assert contents(data(tmp_path)) == {"a": None, "a/one.jpg": b"1"}
    unpack(tmp_path, archive, "--strategy", "pack").done()
    assert (data(tmp_path) / "set.tar").is_file()


def test_a_checksum_is_that_of_the_archive(tmp_path):
    archive = tar(tmp_path / "x.tar", ("a", b"1"), ("b", b"2"))
    digest = subprocess.run(
        ["sha256sum", archive], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    unpack(tmp_path, archive, "--checksums", f"sha256:{digest}").done()
    found = unpack(tmp_path, archive, "--checksums", f"sha256:{'0' * 64}")
    assert f"has sha256:{digest}, not the checksum that was given" in found.err


HELD = """
import os, time
from dlrun.node.transfer.unpack import Tree
real = Tree.add
def held(self, member, content):
    while self.files > 2 and not os.path.exists({gate!r}):
        time.sleep(0.01)
    return real(self, member, content)
Tree.add = held
"""


COUNTED = """
import os
def counted(name, place):
    real = getattr(os, name)
    def call(descriptor, data, *more):
        done = real(descriptor, data, *more)
        if len(data) >= 4096:
            with open({log!r}, "ab") as log:
                real_write(log.fileno(), b"%d\\n" % done)
        return done
    setattr(os, name, call)
real_write = os.write
counted("write", 1), counted("pwrite", 1)
"""
NO_LINKS = """
import errno, os
def link(source, name, dst_dir_fd, **more):
    try:  # the kernel looks for the name first
        os.stat(name, dir_fd=dst_dir_fd)
    except FileNotFoundError:
        raise OSError(errno.EPERM, "no links") from None
    raise FileExistsError(errno.EEXIST, "there")
os.link = link
"""


@pytest.mark.each_python
@pytest.mark.parametrize("more", [(), ("--verify",), ("--sync", "set")])
def test_the_content_of_an_archive_is_written_once(tmp_path, more):
    members = {"large": os.urandom(20_000_000), **{f"d/f{number}": os.urandom(50_000) for number in range(9)}}
    archive, log = tar(tmp_path / "x.tar", *members.items()), tmp_path / "log"
    words = (*staging(archive, tmp_path / "to"), "--unpack", "--json", *more)
    run(*words, prelude=COUNTED.format(log=str(log))).done()
    assert {path: content for path, content in contents(data(tmp_path)).items() if content} == members
    assert sum(map(int, log.read_text().split())) == sum(map(len, members.values()))
    assert all(path.stat().st_nlink == 1 for path in data(tmp_path).rglob("*") if path.is_file())
    assert unpack(tmp_path, archive).done()["how"] == "warm"


@pytest.mark.each_python
@pytest.mark.parametrize("killed", [False, True])
def test_where_the_disk_has_no_links_the_content_is_copied(tmp_path, killed):
    members = {"large": os.urandom(60_000_000), **{f"s{number}": os.urandom(50_000) for number in range(9)}}
    archive = tar(tmp_path / "x.tar", *members.items())
    words = (*staging(archive, tmp_path / "to"), "--unpack", "--json")
    if killed:  # when some of the large file is there
        program = programs.start_held(tmp_path / "gate", *words, prelude=NO_LINKS)
        part = tmp_path / "to" / ".dlrun" / "part.set"
        until(lambda: any(path.stat().st_size > 40 for path in part.glob("journal*")))
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
    run(*words, prelude=NO_LINKS).done()
    assert contents(data(tmp_path)) == members


def test_what_a_killed_run_has_unpacked_is_not_taken_for_the_whole(tmp_path):
    members = [(f"f{number}", os.urandom(5000)) for number in range(20)]
    archive = tar(tmp_path / "x.tar", *members)
    words = (*staging(archive, tmp_path / "to"), "--unpack", "--json")
    killed = start(*words, prelude=HELD.format(gate=str(tmp_path / "gate")))
    place = tmp_path / "to" / ".dlrun" / "unpack.set" / "data"
    until(lambda: place.is_dir() and len(os.listdir(place)) == 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    write(os.fsencode(place / "f1"), b"torn")
    assert nothing_published(tmp_path)
    run(*words).done()
    assert contents(data(tmp_path)) == dict(members)
    assert not place.exists()


def test_what_is_unpacked_as_a_whole_is_used_after_a_kill(tmp_path):
    members = [(f"f{number}", os.urandom(5000)) for number in range(20)]
    archive = tar(tmp_path / "x.tar", *members)
    words = (*staging(archive, tmp_path / "to"), "--unpack", "--json")
    killed = start(*words, prelude=programs.HELD_DISK.format(gate=str(tmp_path / "gate")))
    record = tmp_path / "to" / ".dlrun" / "unpack.set" / "record"
    until(lambda: record.exists() and record.read_text().endswith("whole\n"))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    unpacked = start(*words, prelude="from dlrun.node.transfer.unpack import Tree\nTree.add = None")
    unpacked.communicate(timeout=60)
    assert unpacked.returncode == 0
    assert contents(data(tmp_path)) == dict(members)


def test_too_little_space_is_told_before_the_first_byte(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        made.writestr("a", b"x")
    content = bytearray((tmp_path / "x.zip").read_bytes())
    at = content.index(b"PK\1\2") + 24  # the uncompressed size in the directory
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(content)
    free = [shutil.disk_usage(tmp_path).free]
    found = unpack(tmp_path, tmp_path / "x.zip", "--expect", "1PB")
    free.append(shutil.disk_usage(tmp_path).free)  # other tests write there meanwhile
    assert ("needs 8.59 GB" in found.err) in {each < 2**33 for each in free}
    assert nothing_published(tmp_path)


@pytest.mark.slow
def test_the_first_node_unpacks_for_all(tmp_path, nodes):  # noqa: F811 - a fixture
    """And one that begins anew where another has the set already: it is the same set."""
    archive = tar(
        tmp_path / "x.tar", *((f"d{number % 2}/f{number}", os.urandom(9000)) for number in range(40))
    )
    group = nodes(3)
    assert [one.done()["how"] for one in group.stage(archive, "--unpack")] == ["copied"] * 3
    for node in range(3):
        assert contents(group.data(node)) == contents(group.data(0))
        assert not list((group.root / f"node{node}" / ".dlrun").glob("unpack.*"))
    shutil.rmtree(group.root / "node0")
    found = [one.done() for one in group.stage(archive, "--unpack")]
    assert [one["how"] for one in found] == ["copied", "warm", "warm"]
    assert contents(group.data(0)) == contents(group.data(1))


@pytest.mark.slow
@pytest.mark.each_python
def test_a_lost_first_node_is_replaced_by_another_that_unpacks(tmp_path, nodes):  # noqa: F811 - a fixture
    members = [(f"f{number}", os.urandom(1 << 20)) for number in range(24)]
    group = nodes(2)
    group.begin_held(tar(tmp_path / "x.tar", *members), "--unpack", "--dead-after", "2s")
    group.until_copying(1)
    os.killpg(group.programs[0].pid, signal.SIGKILL)
    group.programs[0].wait()
    group.end(1).done()
    assert contents(group.data(1)) == dict(members)


FULL = """
import os
from dlrun.node.store import space
space.free = lambda _: 1000 if os.path.exists({other!r}) else 10**9
"""


def test_unused_sets_are_evicted_for_the_content_of_an_archive(tmp_path):
    write(os.fsencode(tmp_path / "source" / "f"), bytes(100_000))
    run(*staging(tmp_path / "source", tmp_path / "to", "other"), "--json").done()
    archive = tar(tmp_path / "x.tar", ("a", bytes(5000)))
    words = (*staging(archive, tmp_path / "to"), "--unpack")
    running = start(*words, prelude=FULL.format(other=str(tmp_path / "to" / "other")))
    _, said = running.communicate(timeout=60)
    assert (running.returncode, "evicted `other`" in said) == (0, True), said
    assert contents(data(tmp_path)) == {"a": bytes(5000)}


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("minor", cases(range(6, 15), quick=2))
def test_every_python_that_a_node_may_have(tmp_path, monkeypatch, minor):
    monkeypatch.setattr(programs, "PYTHON", machine.python(minor))
    source = tree(tmp_path)
    for flag, mode in (("tar", "w"), ("gz", "w:gz"), ("xz", "w:xz")):
        with tarfile.open(tmp_path / flag, mode, format=tarfile.PAX_FORMAT) as made:
            made.add(source, ".")
        unpack(tmp_path, tmp_path / flag).done()
        assert snapshot(data(tmp_path)) == snapshot(source)
        assert unpack(tmp_path, tmp_path / flag).done()["how"] == "warm"
