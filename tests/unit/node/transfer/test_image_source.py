"""Data sets as one SquashFS image: what is mounted is the source, an image is made once, and no mount stays."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from dlrun.node.common import mounts

from tests import processes, programs as machine
from tests.unit.node import programs
from tests.unit.node.programs import run, staging
from tests.unit.node.relay.test_chain import nodes  # noqa: F401 - a fixture
from tests.unit.node.trees import odd, snapshot, write

pytestmark = pytest.mark.needs("mksquashfs", "unsquashfs")


@pytest.fixture
def fuse():
    """A machine on which `squashfuse` mounts."""
    machine.need("squashfuse")
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as fault:
        pytest.skip(f"no file system can be mounted here: {fault}")


@pytest.fixture
def area(tmp_path):
    """A staging directory; what a failed test has left mounted is unmounted."""
    yield tmp_path / "to"
    for place in mounts.mounted_below(os.fsencode(tmp_path)):
        mounts.unmount(place)


def stage(source, to, *more):
    return run(*staging(source, to), "--strategy", "image", "--json", "--job", "12", "--keep", "job", *more)


def mount(to, job="12"):
    return run("mount", "--to", to, "--name", "set", "--job", job)


def stand_in(tmp_path, monkeypatch, text):
    """A program for mksquashfs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mksquashfs").write_text(text)
    (tmp_path / "bin" / "mksquashfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


def mounted(to):
    return mounts.mounted_below(os.fsencode(to))


def tree(tmp_path):
    for number in range(60):
        write(os.fsencode(tmp_path / "source" / f"d{number % 3}" / f"f{number}"), os.urandom(number * 700))
    return tmp_path / "source"


@pytest.mark.usefixtures("fuse")
def test_what_is_mounted_is_the_source(tmp_path, area):
    before = odd(tmp_path / "source")
    assert stage(tmp_path / "source", area).done()["files"] == 1
    assert os.listdir(area / "set" / "data") == ["set.squashfs"]
    place = mount(area).out.strip()
    found = snapshot(place)
    assert {path: kept[:1] for path, kept in found.items()} == {
        path: kept[:1] for path, kept in before.items()
    }
    assert mount(area).out.strip() == place, "another rank finds it"
    assert len(mounted(area)) == 1
    run("clean", "--to", area, "--job", "12")
    assert not mounted(area)
    assert not os.path.exists(area / "set")


@pytest.mark.usefixtures("fuse")
def test_an_image_is_taken_as_it_is_and_two_jobs_have_their_own_mounts(tmp_path, area):
    image = tmp_path / "given.sqfs"
    subprocess.run(
        ["mksquashfs", tree(tmp_path), image, "-no-progress"], check=True, stdout=subprocess.DEVNULL
    )
    stage(image, area, "--keep", "cache").done()
    stage(image, area, "--keep", "cache", "--job", "13").done()
    assert (area / "set" / "data" / "given.sqfs").read_bytes() == image.read_bytes()
    places = [mount(area, job).out.strip() for job in ("12", "13")]
    assert len(set(places)) == 2
    run("clean", "--to", area, "--job", "12")
    assert list(mounted(area)) == [os.fsencode(places[1])]
    assert sorted(os.listdir(places[1])) == ["d0", "d1", "d2"]
    run("clean", "--to", area, "--job", "13")
    assert not mounted(area)


@pytest.mark.usefixtures("fuse")
def test_a_mount_whose_program_was_killed_is_mounted_anew_and_its_rest_is_cleaned(tmp_path, area):
    stage(tree(tmp_path), area).done()
    place = mount(area).out.strip()
    killed(place)
    assert mount(area).out.strip() == place
    assert sorted(os.listdir(place)) == ["d0", "d1", "d2"]
    killed(place)
    run("clean", "--to", area, "--job", "12")
    assert not mounted(area)
    assert not os.listdir(area / ".dlrun" / "mounts")


@pytest.mark.usefixtures("fuse")
def test_the_mount_of_a_job_that_is_gone_is_unmounted_by_the_next(tmp_path, area):
    stage(tree(tmp_path), area, "--lasting", "1s").done()
    assert mount(area).status == 0
    end = time.monotonic() + 60
    while mounted(area):
        assert time.monotonic() < end
        time.sleep(0.2)
        run("clean", "--to", area)
    assert not os.path.exists(area / "set")


def killed(place):
    """Kill the program that serves a mount."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"squashfuse" in words[0] and os.fsencode(place) in words:
            os.kill(int(process), signal.SIGKILL)
    end = time.monotonic() + 30
    while mounts.is_served(os.fsencode(place)):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("change", ["content", "added", "removed", "time", "none"])
def test_a_changed_directory_is_a_new_image(tmp_path, area, change):
    source = tree(tmp_path)
    stage(source, area).done()
    if change == "content":
        (source / "d1" / "f1").write_bytes(os.urandom(700))
    elif change == "added":
        (source / "d1" / "new").write_bytes(b"x")
    elif change == "removed":
        (source / "d1" / "f1").unlink()
    elif change == "time":
        os.utime(source / "d1" / "f1", (1, 1))
    assert stage(source, area).done()["how"] == ("warm" if change == "none" else "copied")


def test_an_image_is_made_once_for_all_nodes(tmp_path, nodes):  # noqa: F811
    group = nodes(3)
    found = group.stage(tree(tmp_path), "--strategy", "image")
    assert [result.done()["read"] > 0 for result in found] == [True, False, False]
    images = [Path(group.data(node), "set.squashfs").read_bytes() for node in range(3)]
    assert images[0][:4] == b"hsqs"
    assert images[0] == images[1] == images[2]


@pytest.mark.parametrize("without", [[1], [2], [1, 2], [0], [0, 1]])
def test_nodes_without_an_image_get_that_of_the_others(tmp_path, nodes, without):  # noqa: F811
    group, source = nodes(3), tree(tmp_path)
    group.stage(source, "--strategy", "image")
    for node in without:
        shutil.rmtree(os.path.dirname(group.data(node)))
    for node, result in enumerate(group.stage(source, "--strategy", "image")):
        # A first node without an image makes another one.
        assert result.done()["how"] == ("copied" if node in without or 0 in without else "warm")
    images = [Path(group.data(node), "set.squashfs").read_bytes() for node in range(3)]
    assert images[0] == images[1] == images[2]


def spoilt(data):
    """Damage the image below a directory, as a failing disk does."""
    os.chmod(data / "set.squashfs", 0o600)
    with open(data / "set.squashfs", "r+b") as file:
        file.seek(5000)
        file.write(b"damage")


@pytest.mark.parametrize("damaged", [[0], [1], [0, 1]])
def test_a_damaged_image_is_not_given_to_others(tmp_path, nodes, damaged):  # noqa: F811
    group, source = nodes(3), tree(tmp_path)
    group.stage(source, "--strategy", "image")
    for node in damaged:
        spoilt(Path(group.data(node)))
    shutil.rmtree(os.path.dirname(group.data(2)))
    for result in group.stage(source, "--strategy", "image"):
        result.done()
    images = [Path(group.data(node), "set.squashfs").read_bytes() for node in range(3)]
    assert images[0] == images[1] == images[2]
    subprocess.run(["unsquashfs", "-d", tmp_path / "found", group.data(2) / "set.squashfs"], check=True)
    assert snapshot(tmp_path / "found").keys() == snapshot(source).keys()


def test_a_damaged_image_and_one_with_another_hash_are_made_anew(tmp_path, area):
    source = tree(tmp_path)
    assert stage(source, area, "--hash", "sha256").done()["how"] == "copied"
    assert stage(source, area, "--hash", "sha1").done()["how"] == "copied"
    spoilt(area / "set" / "data")
    assert stage(source, area, "--hash", "sha1").done()["how"] == "copied"
    assert stage(source, area, "--hash", "sha1").done()["how"] == "warm"


FAILING = """#!/bin/sh
echo 'Failed to read file source/d1/f1, creating empty file' >&2
: >"$2"
exit {code}
"""


@pytest.mark.parametrize("code", [0, 1])
def test_a_file_that_cannot_be_read_is_no_empty_file(tmp_path, area, monkeypatch, code):
    """Older versions of mksquashfs leave it empty, and exit with 0."""
    stand_in(tmp_path, monkeypatch, FAILING.format(code=code))
    found = stage(tree(tmp_path), area)
    assert found.status == 1
    assert "could not make an image" in found.err
    assert "f1, creating empty file" in found.err
    assert not os.path.exists(area / "set")


def test_the_package_is_named_where_a_program_is_missing(tmp_path, area, monkeypatch):
    source = tree(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "`squashfs-tools`" in stage(source, area).err
    monkeypatch.undo()
    stage(source, area).done()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = mount(area)
    assert found.status == 1
    assert "package `squashfuse`" in found.err


@pytest.mark.parametrize("kind", ["file", "copied"])
def test_what_is_no_image_is_refused_by_name(tmp_path, area, kind):
    source = tree(tmp_path)
    if kind == "file":
        found = stage(source / "d1" / "f1", area)
    else:
        assert run(*staging(source, area)).status == 0
        found = mount(area)
    assert "is not a SquashFS image" in found.err
    assert found.status == 1


def test_a_directory_that_changes_while_the_image_is_made_is_not_published(tmp_path, area, monkeypatch):
    source = tree(tmp_path)
    real = machine.need("mksquashfs")
    stand_in(tmp_path, monkeypatch, f'#!/bin/sh\n{real} "$@" && echo more >>{source}/d1/f1\n')
    found = stage(source, area)
    assert found.status == 1
    assert "changed while it was copied" in found.err
    assert not os.path.exists(area / "set")


@pytest.mark.usefixtures("fuse")
def test_a_link_to_a_directory_is_that_directory(tmp_path, area):
    (tmp_path / "link").symlink_to(tree(tmp_path))
    stage(tmp_path / "link", area).done()
    assert sorted(os.listdir(mount(area).out.strip())) == ["d0", "d1", "d2"]


@pytest.mark.usefixtures("fuse")
def test_a_new_version_is_mounted_by_the_job_that_has_the_old_one(tmp_path, area):
    """It was requeued on a node on which the program that serves the mount was not killed."""
    source = tree(tmp_path)
    stage(source, area).done()
    place = Path(mount(area).out.strip())
    (source / "d1" / "f1").write_text("new")
    stage(source, area).done()
    assert mount(area).out.strip() == str(place)
    assert (place / "d1" / "f1").read_text() == "new"
    assert len(mounted(area)) == 1


@pytest.mark.parametrize("strategy", ["copy", "part"])
def test_an_image_is_not_taken_for_a_copy(tmp_path, area, strategy):
    source = tree(tmp_path)
    stage(source, area).done()
    words = ("--json", "--recheck", "none", "--strategy", strategy, "--job", "12")
    assert run(*staging(source, area), *words, prelude=programs.NO_SPARE).done()["how"] == "copied"
    assert sorted(os.listdir(area / "set" / "data")) == ["d0", "d1", "d2"]


def test_the_expected_size_is_that_of_the_directory(tmp_path, area):
    for number in range(500):
        write(os.fsencode(tmp_path / "source" / f"f{number}"), b"x" * 200)
    assert stage(tmp_path / "source", area, "--expect", "100kB").done()["how"] == "copied"
    found = stage(tmp_path / "source", area, "--expect", "300kB")
    assert (found.status, "300 kB" in found.err) == (1, True)


ENDING = """#!/bin/sh
echo partial >"$2"
{then}
"""


@pytest.mark.parametrize(
    "then", ["echo 'Write failed because No space left on device' >&2; exit 1", "exit 3"]
)
def test_nothing_is_left_of_an_image_that_could_not_be_made(tmp_path, area, monkeypatch, then):
    stand_in(tmp_path, monkeypatch, ENDING.format(then=then))
    found = stage(tree(tmp_path), area)
    assert found.status == 1
    assert not (area / ".dlrun" / "image.set").exists()
    assert ("the disk filled up" in found.err) == ("space" in then)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_makes_an_image_ends_with_what_has_started_it(tmp_path, area, monkeypatch, number):
    """And the next run removes its part, and makes the whole."""
    stand_in(tmp_path, monkeypatch, ENDING.format(then=f"echo $$ >{tmp_path}/pid; exec sleep 600"))
    source = tree(tmp_path)
    process = programs.start(*staging(source, area), "--strategy", "image")
    end = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(process.pid, number)
    process.communicate()
    assert (area / ".dlrun" / "image.set").exists()
    maker = int((tmp_path / "pid").read_text())
    while not processes.is_over(maker):
        assert time.monotonic() < end
        time.sleep(0.05)
    monkeypatch.undo()
    stage(source, area).done()
    assert (area / "set" / "data" / "set.squashfs").read_bytes()[:4] == mounts.MAGIC


def test_what_is_left_of_a_killed_image_is_cleaned(tmp_path, area):
    stage(tree(tmp_path), area).done()
    (area / ".dlrun" / "image.other" / "data").mkdir(parents=True)
    (area / ".dlrun" / "image.other" / "data" / "other.squashfs").write_bytes(b"partial")
    run("clean", "--to", area, "--all")
    assert not (area / ".dlrun" / "image.other").exists()


@pytest.mark.parametrize(
    "words", [("--version", "compute"), ("--checksums", "SHA256SUMS"), ("--skip-special",)]
)
def test_what_is_of_the_files_is_refused(tmp_path, area, words):
    found = stage(tree(tmp_path), area, *words)
    assert found.status == 2
    assert words[0] in found.err


def test_an_image_of_what_holds_it_is_refused(tmp_path):
    found = stage(tree(tmp_path), tmp_path / "source" / "to")
    assert found.status == 2
    assert "is inside the source" in found.err
