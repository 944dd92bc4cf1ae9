"""A walk that is shared with further processes finds what one process finds."""

import os
import signal
import subprocess
import sys
import time

import pytest
from dlrun.node.common import fork
from dlrun.node.common.fork import ForkedCall
from dlrun.node.source import selection, survey, walk

from tests import processes
from tests.unit.node.trees import has_xattrs, odd, write


@pytest.fixture
def tree(tmp_path):
    """Everything that is odd, a directory with many names, and some that are deep."""
    root = tmp_path / "tree"
    odd(root)
    for number in range(100):
        write(os.fsencode(root / "flat" / f"{number:03}"), b"%d" % number)
        write(os.fsencode(root / f"d{number % 7}" / f"e{number % 5}" / str(number)), b"")
    if has_xattrs(root):
        for name in ("flat/007", "d3/e1/31", "plain.txt"):
            os.setxattr(root / name, "user.name", name.encode())
    return root


@pytest.fixture
def shared(monkeypatch):
    """Shared at once, with two further processes; gives the parts that were given away."""
    given = []

    class Noted(ForkedCall):
        def __init__(self, work, part):
            given.append(part)
            super().__init__(work, part)

    monkeypatch.setattr(walk, "usable_cores", lambda: 3)
    monkeypatch.setattr(walk, "PROBE_SECONDS", -1.0)
    monkeypatch.setattr(walk, "SERIAL_JOB", 8)
    monkeypatch.setattr(walk.Waiting, "is_most", lambda *_: False)
    monkeypatch.setattr(walk, "ForkedCall", Noted)
    return given


def manifest(tree, follow=False):
    """What `survey` says of a tree, as bytes."""
    found, findings = survey.survey(selection.parse(str(tree)), selection.Options(follow=follow))
    return found.pack(), sorted(findings.outside), findings.slow


def alone(monkeypatch, tree):
    """The same by one process."""
    monkeypatch.setattr(walk, "usable_cores", lambda: 1)
    return manifest(tree)


def test_further_processes_walk_a_part_each(tree, shared, monkeypatch):
    found = manifest(tree)
    assert len(shared) == 2
    directories = [directory for part in shared for directory, names, _ in part if names is None]
    pieces = [directory for part in shared for directory, names, _ in part if names is not None]
    assert directories
    assert pieces, "the names of one directory are shared, too"
    assert found == alone(monkeypatch, tree)
    assert len(shared) == 2, "and one process shares with nobody"


def test_what_a_killed_process_was_to_walk_is_walked_all_the_same(tree, shared, monkeypatch):
    monkeypatch.setattr(walk.Walk, "_walk_in_child", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    found = manifest(tree)
    assert len(shared) == 2
    assert found == alone(monkeypatch, tree)


def test_what_a_further_process_cannot_read_is_named(tree, shared, monkeypatch):
    here, scandir = os.getpid(), os.scandir

    def closed(path):
        if os.getpid() != here:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(survey.SourceFault, match=r"cannot be read: .*Permission denied"):
        manifest(tree)
    assert shared


def test_a_source_that_a_further_process_finds_slow_is_slow(tree, shared, monkeypatch):
    here = os.getpid()
    monkeypatch.setattr(walk.Waiting, "is_most", lambda *_: os.getpid() != here)
    found, outside, slow = manifest(tree)
    assert slow
    assert shared
    assert (found, outside, False) == alone(monkeypatch, tree)


def test_a_failure_in_a_forked_process_is_no_result():
    assert fork.ForkedCall(lambda: {b"a": (1, [b"x", 2**70, "y"])}).result() == {
        b"a": (1, [b"x", 2**70, "y"])
    }
    assert fork.ForkedCall(lambda: 1 // 0).result() is None
    assert fork.ForkedCall(lambda: object()).result() is None


PARENT = """\
import os, sys, time
from dlrun.node.common.fork import ForkedCall

def work():
    print(os.getpid(), flush=True)
    time.sleep(600)

ForkedCall(work).result()
"""


def test_a_forked_process_ends_with_its_parent():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    os.kill(pid, 0)
    parent.kill()
    parent.wait()
    end = time.monotonic() + 60
    while not processes.is_over(pid):
        assert time.monotonic() < end
        time.sleep(0.01)
    parent.stdout.close()


@pytest.mark.parametrize("new", [b"user.name", b"trusted.name"])
def test_attributes_are_listed_again_only_of_files_that_may_have_new_ones(monkeypatch, tmp_path, new):
    names = [f"d{number % 2}/{number}" for number in range(40)]
    for name in names:
        write(os.fsencode(tmp_path / "tree" / name), b"content")
    if not has_xattrs(tmp_path / "tree"):
        pytest.skip("the file system has no extended attributes")
    source, options = selection.parse(str(tmp_path / "tree")), selection.Options()
    earlier, _ = survey.survey(source, options)
    changed = os.fsencode(tmp_path / "tree" / names[5])
    time.sleep(0.05)  # longer than the clock of the file system needs for another ctime
    try:
        os.setxattr(changed, new, b"value")
    except PermissionError:
        pytest.skip("only root may set this attribute")
    listed, list_them = [], os.listxattr

    def noted(path, **more):
        listed.append(path)
        return list_them(path, **more)

    monkeypatch.setattr(walk.os, "listxattr", noted)
    whole, _ = survey.survey(source, options)
    assert len(listed) == len(names) + 3  # with the directories
    listed.clear()
    found, findings = survey.survey(source, options, earlier=earlier)
    assert (found.pack(), {path for path in listed if os.path.isfile(path)}) == (whole.pack(), {changed})
    assert findings.attributes == {name for name in (new,) if not name.startswith(b"user.")}
    later, findings = survey.survey(source, options, earlier=found)
    assert later.pack() == whole.pack()
    assert findings.attributes == {name for name in (new,) if not name.startswith(b"user.")}
