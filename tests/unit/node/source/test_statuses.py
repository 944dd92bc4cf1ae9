"""The statuses of many files as columns, and what a check of unchanged files asks the system."""

import os

import pytest
from dlrun.node.common import statuses
from dlrun.node.common.statuses import Statuses
from dlrun.node.source import recheck, selection, survey
from dlrun.node.source.selection import Options

from tests.unit.node.trees import write

TIMES = {b"old": -(10**9) - 7, b"begin": 0, b"new": 1_700_000_000_123_456_789, b"late": (1 << 33) * 10**9 + 1}


@pytest.fixture(autouse=True)
def _is_never_slow(monkeypatch):
    """On a busy machine calls may wait for most of the time, as those of a slow file system do."""
    monkeypatch.setattr(recheck.Waiting, "is_most", lambda *_: False)


@pytest.fixture
def tree(tmp_path):
    for size, (name, mtime) in enumerate(TIMES.items()):
        write(os.fsencode(tmp_path / os.fsdecode(name)), bytes(size), mtime=mtime)
    with (tmp_path / "large").open("wb") as file:
        file.truncate((1 << 31) + 5)
    (tmp_path / "link").symlink_to("large")
    (tmp_path / "directory").mkdir()
    return os.fsencode(tmp_path)


@pytest.fixture(params=["statx", "no statx"])
def statx(request, monkeypatch):
    """With the call, and with a C library that lacks it."""
    if request.param == "no statx":
        monkeypatch.setattr(statuses, "c_library", lambda: None)
    return request.param == "statx"


@pytest.mark.parametrize("follow", [False, True])
def test_columns_are_those_of_stat(tree, follow):
    names = sorted(map(os.fsencode, os.listdir(tree)))
    found, directory = Statuses(len(names), follow), os.open(tree, os.O_PATH)
    wanted = [os.stat(tree + b"/" + name, follow_symlinks=follow) for name in names]
    assert found.read(directory, names)
    assert list(found.sizes()) == [status.st_size for status in wanted]
    assert found.mtimes() == [status.st_mtime_ns for status in wanted]
    assert found.ctimes() == [status.st_ctime_ns for status in wanted]
    assert found.newest() == max(status.st_ctime_ns for status in wanted)
    whole = Statuses(len(names), follow, every=True)
    assert whole.read(directory, names)
    assert list(whole.modes()) == [status.st_mode for status in wanted]
    assert list(whole.owners()) == [status.st_uid for status in wanted]
    assert list(whole.inodes()) == [status.st_ino for status in wanted]
    assert whole.mtimes() == found.mtimes()
    assert found.read(directory, [b"new"])
    assert (list(found.sizes()), found.mtimes()) == ([2], [TIMES[b"new"]]), "only those of the last call"
    os.close(directory)


def test_nothing_is_read_if_a_name_is_missing_or_there_are_too_many(tree, monkeypatch):
    directory = os.open(tree, os.O_PATH)
    assert not Statuses(2).read(directory, [b"new", b"missing"])
    assert not Statuses(1).read(directory, [b"new", b"old"])
    monkeypatch.setattr(statuses, "c_library", lambda: None)
    assert not Statuses(2).read(directory, [b"new", b"old"])
    os.close(directory)


def surveyed(root):
    return survey.survey(selection.Source(root), Options())[0]


def differing(root, manifest):
    """The numbers of the files that a check judges."""
    seen = []
    looked = recheck.look(root, manifest, "all", lambda number, _status: seen.append(number) or True)
    assert looked == (manifest.files(), manifest.files(), False)
    return [number for number in seen if number >= 0]


def test_no_unchanged_file_is_asked_for_by_a_call_of_its_own(tmp_path, monkeypatch):
    for number in range(5000):
        write(os.fsencode(tmp_path / f"d{number % 7}" / f"f{number}"), b"")
    manifest, asked = surveyed(os.fsencode(tmp_path)), []
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **how: asked.append(path) or real(path, **how))
    assert differing(os.fsencode(tmp_path), manifest) == []
    assert len(asked) == 7, "the directories below the first"


@pytest.mark.usefixtures("statx")
@pytest.mark.parametrize("change", ["size", "mtime", "ctime", "missing", "no directory"])
def test_every_kind_of_change_is_seen(tmp_path, change):
    for number in range(3000):
        write(
            os.fsencode(tmp_path / f"d{number // 100:02}" / f"f{number:04}"), b"data", mtime=10**18 + number
        )
    root = os.fsencode(tmp_path)
    manifest = surveyed(root)
    assert differing(root, manifest) == []
    path = tmp_path / "d27" / "f2750"
    status = path.stat()
    if change == "size":
        path.write_bytes(b"more data")
        os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    elif change == "mtime":
        os.utime(path, ns=(0, status.st_mtime_ns + 1))
    elif change == "ctime":
        path.chmod(0o600)
        path.chmod(0o644)
    elif change == "missing":
        path.unlink()
    else:
        path.parent.rename(tmp_path / "moved")
    judged = differing(root, manifest)
    assert 2750 in judged
    assert len(judged) <= (100 + 2 * recheck.BATCH if change == "no directory" else recheck.BATCH), (
        "not all files"
    )
