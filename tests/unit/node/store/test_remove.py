"""Trees are removed whole, by further processes only where there is something in their directories."""

import os

import pytest
from dlrun.node.store import remove

from tests.unit.node.trees import write


@pytest.fixture
def above(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def forks(monkeypatch):
    made = []
    real = os.fork
    monkeypatch.setattr(os, "fork", lambda: made.append(1) or real())
    monkeypatch.setattr(remove, "usable_cores", lambda: 2)
    return made


def test_empty_directories_are_removed_by_this_process(tmp_path, above, forks):
    for number in range(20):
        (tmp_path / "tree" / f"d{number}").mkdir(parents=True)
    write(os.fsencode(tmp_path / "tree" / "file"), b"data")
    (tmp_path / "tree" / "link").symlink_to(tmp_path)
    remove.empty_directory(above, b"tree")
    assert list((tmp_path / "tree").iterdir()) == []
    assert forks == []
    assert tmp_path.is_dir()


def test_directories_that_hold_files_are_removed_by_several(tmp_path, above, forks):
    for number in range(20):
        write(os.fsencode(tmp_path / "tree" / f"d{number}" / "below" / "file"), b"data")
        (tmp_path / "tree" / f"d{number}" / "below").chmod(0o500)
    remove.empty_directory(above, b"tree")
    assert list((tmp_path / "tree").iterdir()) == []
    assert forks == [1]
