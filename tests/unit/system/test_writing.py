"""Files are complete or as they were: with links, other modes, a full disk, kills, and another program at the same time."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from dlrun.errors import Invalid, OperationFailed
from dlrun.system import writing


def names(place):
    return sorted(path.name for path in place.iterdir())


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        writing.create(tmp_path / "a", "text")
        writing.replace(tmp_path / "b", b"bytes")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o640, 0o640]
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_bytes()) == ("text", b"bytes")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_the_mode_of_a_replaced_file_is_kept(tmp_path, mode):
    path = tmp_path / "spec.yaml"
    path.write_text("old")
    path.chmod(mode)
    writing.replace(path, "new", mode=0o600)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)


@pytest.mark.parametrize("target", ["kept", "missing"])
@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_written_through_a_link(tmp_path, target, force):
    (tmp_path / "kept").write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises((Invalid, OperationFailed)):
        writing.write_output(link, "new", force=force)
    assert (tmp_path / "kept").read_text() == "mine"
    assert (link.is_symlink(), names(tmp_path)) == (True, ["kept", "link"])


def test_what_exists_is_replaced_only_with_force(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("mine")
    with pytest.raises(Invalid, match="already exists") as error:
        writing.write_output(path, "new", force=False)
    assert "`--force`" in (error.value.help or "")
    assert path.read_text() == "mine"
    writing.write_output(path, "new", force=True)
    assert (path.read_text(), names(tmp_path)) == ("new", ["thesis.txt"])


@pytest.mark.parametrize("kind", ["directory", "socket"])
def test_what_is_no_file_is_left_alone(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "directory":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    for force in (False, True):
        with pytest.raises((Invalid, OperationFailed)):
            writing.write_output(path, "new", force=force)
    assert names(tmp_path) == ["x"]


def test_a_device_takes_the_content():
    writing.write_output(writing.Path("/dev/null"), "new", force=False)
    with pytest.raises(OperationFailed, match="cannot write `/dev/full`: no space left"):
        writing.write_output(writing.Path("/dev/full"), "new", force=False)


def test_without_hard_links_a_new_file_is_made_all_the_same(tmp_path, monkeypatch):
    def link(*_):
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", link)
    writing.create(tmp_path / "a", "text")
    with pytest.raises(FileExistsError):
        writing.create(tmp_path / "a", "other")
    assert ((tmp_path / "a").read_text(), names(tmp_path)) == ("text", ["a"])


def test_a_change_by_another_program_is_kept(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("old")

    def change(text):
        path.write_text("by an editor, meanwhile")
        return text + "new"

    with pytest.raises(OperationFailed, match="another program changed it meanwhile"):
        writing.edit(path, change)
    assert (path.read_text(), names(tmp_path)) == ("by an editor, meanwhile", ["spec.yaml"])


def test_the_longest_name_that_the_file_system_allows(tmp_path):
    path = tmp_path / ("x" * 255)
    writing.create(path, "text")
    writing.replace(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("limit", [0, 1, 4096, 99_999])
def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, limit):
    """The limit of a file's size ends a write in its middle, as a full disk does (setrlimit(2))."""
    path = tmp_path / "spec.yaml"
    path.write_text("old")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        for write in (
            lambda: writing.write_output(path, "x" * 100_000, force=True),
            lambda: writing.write_output(tmp_path / "new", "x" * 100_000, force=False),
            lambda: writing.edit(path, lambda text: text + "x" * 100_000),
        ):
            with pytest.raises(OperationFailed, match="cannot write"):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (path.read_text(), names(tmp_path)) == ("old", ["spec.yaml"])


WRITER = """
import sys
from pathlib import Path
from dlrun.system import writing
print(flush=True)
for turn in range(10**6):
    writing.replace(Path(sys.argv[1]), "ab"[turn % 2] * 300_000)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("b" * 300_000)
    for _ in range(15):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"
            time.sleep(random.uniform(0, 0.02))
            process.kill()
        assert path.read_text() in ("a" * 300_000, "b" * 300_000)
