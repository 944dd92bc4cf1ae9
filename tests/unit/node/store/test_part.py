"""A set that is larger than the node's disk: what fits is copied, the rest is read at its source through links."""

import os
import shutil
import signal
import subprocess

import pytest

from tests.unit.node.programs import NO_SPARE, run, staging, start_held
from tests.unit.node.relay.test_chain import Nodes, nodes, until  # noqa: F401 - a fixture
from tests.unit.node.trees import write

SIZES = [5_000, 100_000, 300_000, 1_000_000, 3_000_000, 6_000_000]


@pytest.fixture
def source(tmp_path):
    for number, size in enumerate(SIZES):
        write(os.fsencode(tmp_path / "source" / f"d{number % 2}" / f"f{number}"), os.urandom(size))
    os.link(tmp_path / "source" / "d1" / "f1", tmp_path / "source" / "d1" / "small-again")
    os.link(tmp_path / "source" / "d1" / "f5", tmp_path / "source" / "d1" / "large-again")
    os.symlink("d0/f0", tmp_path / "source" / "link")
    return tmp_path / "source"


def stage(tmp_path, source, *more):
    words = (
        *staging(source, tmp_path / "to"),
        "--strategy",
        "part",
        "--json",
    )
    return run(*words, *more, prelude=NO_SPARE)


def content(root):
    """What a program reads below a directory, by name."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def here(root):
    """The files that are not links."""
    return sorted(path.name for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def test_what_fits_is_copied_small_files_first_and_all_is_read(tmp_path, source):
    done = stage(tmp_path, source, "--room", "2MB").done()
    data = tmp_path / "to" / "set" / "data"
    assert here(data) == ["f0", "f1", "f2", "f3", "small-again"]
    assert content(data) == content(source)
    assert os.readlink(data / "d1" / "large-again") == str(source / "d1" / "large-again")
    assert os.readlink(data / "link") == "d0/f0"
    assert done["copied"] == sum(SIZES[:4])
    assert done["notes"] == [f"4 of 6 files (1.41 MB of 10.4 MB) are here; the rest is read from `{source}`"]
    assert stage(tmp_path, source, "--room", "2MB").done()["how"] == "warm"


@pytest.mark.slow
@pytest.mark.each_python
def test_a_part_is_made_anew_once_more_of_it_fits_and_whole_when_wanted(tmp_path, source):
    stage(tmp_path, source, "--room", "2MB").done()
    grown = stage(tmp_path, source, "--room", "6MB").done()
    assert grown["copied"] == SIZES[4], "what was there stays"
    whole = run("stage", "--source", source, "--to", tmp_path / "to", "--name", "set", "--json").done()
    assert whole["how"] == "copied"
    assert not [path for path in (tmp_path / "to" / "set" / "data" / "d1").iterdir() if path.is_symlink()]
    assert stage(tmp_path, source, "--room", "2MB").done()["how"] == "warm", "more than was asked for"


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_of_the_source_that_is_gone_or_new_is_seen(tmp_path, source):
    stage(tmp_path, source, "--room", "2MB").done()
    (source / "d1" / "large-again").unlink()
    (source / "d1" / "f5").rename(source / "d1" / "new")
    stage(tmp_path, source, "--room", "2MB").done()
    assert content(tmp_path / "to" / "set" / "data") == content(source)


def test_what_fits_is_whole_and_of_what_does_not_fit_at_all_nothing_is_made(tmp_path, source):
    assert stage(tmp_path, source).done()["notes"] == []
    shutil.rmtree(tmp_path / "to")
    refused = stage(tmp_path, source, "--room", "1kB")
    assert refused.status == 1
    assert "nothing of `set` fits" in refused.err
    note = tmp_path / "in-place"
    stage(tmp_path, source, "--room", "1kB", "--else-in-place", note)
    assert "nothing of `set` fits" in note.read_text()
    assert not (tmp_path / "to" / "set").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_every_node_has_the_part_that_fits_the_smallest(source, nodes):  # noqa: F811 - a fixture
    group = nodes(3)
    for node, room in enumerate(("9MB", "2MB", "9MB")):
        group.begin(node, source, "--strategy", "part", "--room", room, prelude=NO_SPARE)
    done = [group.end(node).done() for node in range(3)]
    for node in range(3):
        assert here(group.data(node)) == ["f0", "f1", "f2", "f3", "small-again"]
        assert content(group.data(node)) == content(source)
    assert [one["read"] for one in done] == [sum(SIZES[:4]), 0, 0]


def test_training_can_begin_with_links_at_once(tmp_path, source):
    program = start_held(tmp_path / "gate", "stage", "--source", source, "--to", tmp_path / "to", "--name", "set",
                         "--strategy", "part", "--room", "5MB", "--job", "7", "--workers", "1", "--start", "100%",
                         "--started", tmp_path / "started", prelude=NO_SPARE)  # fmt: skip
    early = tmp_path / "to" / ".early-7" / "set" / "data"
    until((early / "d1" / "f5").is_symlink)
    assert (early / "d1" / "f5").read_bytes() == (source / "d1" / "f5").read_bytes()
    (tmp_path / "gate").touch()
    program.communicate(timeout=120)
    assert program.returncode == 0
    assert content(early) == content(source)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.needs("mkfs.ext4", "mount", "umount")
def test_a_full_disk_has_room_for_others_and_a_killed_copy_goes_on(tmp_path):
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    for number in range(40):
        write(os.fsencode(tmp_path / "source" / f"f{number:02}"), os.urandom(1_000_000))
    subprocess.run(["truncate", "-s", "32M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False, capture_output=True).returncode:
        pytest.skip("no loop device")
    try:
        words = (
            *staging(tmp_path / "source", disk / "to"),
            "--strategy",
            "part",
            "--json",
        )
        killed = start_held(tmp_path / "gate", *words, "--workers", "1")
        part = disk / "to" / ".dlrun" / "part.set"
        until(lambda: any(path.stat().st_size for path in part.glob("journal.*")))
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        done = run(*words).done()
        room = os.statvfs(disk)
        assert 0.04 < room.f_bavail / room.f_blocks < 0.12, "a twentieth is left, and not much more"
        assert done["copied"] < done["bytes"], "what the killed run had copied stayed"
        assert content(disk / "to" / "set" / "data") == content(tmp_path / "source")
        assert run(*words).done()["how"] == "warm"
    finally:
        subprocess.run(["umount", disk], check=True)
