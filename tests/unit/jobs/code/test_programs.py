"""The programs of nodes are one file for all job directories, and never one that is not as this dlrun made it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from dlrun.jobs.code import programs, store
from dlrun.jobs.records import contents, directories, ownership
from dlrun.render.written_names import WrittenNames

TEXT = "bytes \udcff of node.pyz"
NAMES = ("node.pyz", "roles/judge/node.pyz")


def made(base: Path, name: str, text: str = TEXT) -> list[Path]:
    """The programs of a new job directory, which has the right text in them."""
    files = {"job.sh": "true\n", **dict.fromkeys(NAMES, text)}
    directory = base / name
    shared = programs.shared(base, directory, files)
    directories.create(directory, files, WrittenNames(job=("logs/",)), shared=shared)
    found = [directory / name for name in NAMES]
    assert {path.read_bytes() for path in found} == {text.encode("utf-8", "surrogateescape")}
    written = ownership.read(directory)
    assert written is not None
    assert not contents.survey(directory, written).others
    return found


def stored(base: Path) -> list[Path]:
    return list((store.beside(base) / "objects").glob("*/*"))


def test_one_file_for_all_directories_as_long_as_one_has_it(tmp_path):
    found = [*made(tmp_path, "first"), *made(tmp_path, "second")]
    (one,) = stored(tmp_path)
    assert all(path.samefile(one) for path in found)
    assert one.stat().st_mode & 0o777 == 0o400
    assert store.use(store.beside(tmp_path), prune=True).unused == 0
    assert stored(tmp_path) == [one]
    for path in found:
        path.unlink()
    assert store.use(store.beside(tmp_path)).unused > 0
    store.use(store.beside(tmp_path), prune=True)
    assert not stored(tmp_path)


def damaged(path: Path) -> None:
    path.chmod(0o600)
    path.write_text("x" * path.stat().st_size)
    path.chmod(0o400)


def writable(path: Path) -> None:
    path.chmod(0o620)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def empty(path: Path) -> None:
    path.unlink()
    path.touch(mode=0o400)


@pytest.mark.parametrize("fault", [damaged, writable, link, empty])
def test_one_that_is_not_as_it_was_made_is_replaced(tmp_path, fault):
    made(tmp_path, "first")
    (one,) = stored(tmp_path)
    fault(one)
    second = made(tmp_path, "second")
    assert all(path.samefile(one) and path.lstat().st_mode & 0o7777 == 0o400 for path in second)
    assert not one.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_those_of_another_user_are_not_taken(tmp_path):
    made(tmp_path, "first")
    (one,) = stored(tmp_path)
    os.chown(one, 12345, -1)
    assert {path.stat().st_uid for path in made(tmp_path, "second")} == {0}
    os.chown(store.beside(tmp_path), 12345, -1)
    assert {path.stat().st_nlink for path in made(tmp_path, "third")} == {1}


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_store_that_others_can_read_is_left_alone(tmp_path, mode):
    store.beside(tmp_path).mkdir()
    store.beside(tmp_path).chmod(mode)
    assert {path.stat().st_nlink for path in made(tmp_path, "first")} == {1}
    assert not list(store.beside(tmp_path).iterdir())


def test_without_links_each_directory_has_a_copy(tmp_path, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    assert {path.stat().st_nlink for path in made(tmp_path, "first")} == {1}


def test_a_directory_on_another_file_system_has_copies(tmp_path):
    other = Path("/dev/shm")  # another file system, where there is one
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no other file system")
    assert programs.shared(tmp_path, other / "job", {"node.pyz": TEXT}) == {}
    assert not store.beside(other).exists()


def test_a_program_is_hashed_once(monkeypatch):
    """Those of roles are the same, and those that are sent to a login node are those of its record."""
    hashed = []
    monkeypatch.setattr(programs, "sha256", lambda data: hashed.append(data) or hashlib.sha256(data))
    text = "the same text of this test"
    files = dict.fromkeys(("node.pyz", "roles/a/node.pyz", "roles/b/node.pyz"), text)
    found = programs.keys(files)
    assert found == programs.keys(files)
    assert len(set(found.values())) == len(hashed) == 1
