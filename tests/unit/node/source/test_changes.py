"""A survey from a known one finds what a walk finds, or leaves the source to the walk."""

import os
import time

import pytest
from dlrun.node.common import fork
from dlrun.node.source import changes, selection, survey

from tests.unit.node.trees import has_xattrs, write

COUNT = 400  # files


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for number in range(COUNT):
        write(os.fsencode(root / f"d{number % 3}" / f"{number:04}"), b"%d" % number)
    (root / "empty").mkdir()
    return root


def rewrite(tree):
    for name in ("d0/0000", "d1/0004", "d2/0398"):
        (tree / name).write_bytes(b"rewritten")


def give_old_times(tree):
    before = os.stat(tree / "d1" / "0001")
    (tree / "d1" / "0001").write_bytes(b"2")
    os.utime(tree / "d1" / "0001", ns=(before.st_atime_ns, before.st_mtime_ns))


def change_mode(tree):
    (tree / "d1" / "0001").chmod(0o755)
    (tree / "d2").chmod(0o700)


def replace(tree):
    (tree / "d1" / "new").write_bytes(b"other content")
    (tree / "d1" / "new").rename(tree / "d1" / "0001")


def add_attribute(tree):
    if not has_xattrs(tree):
        pytest.skip("the file system has no extended attributes")
    os.setxattr(tree / "d1" / "0001", "user.name", b"value")


def add_attribute_of_directory(tree):
    if not has_xattrs(tree):
        pytest.skip("the file system has no extended attributes")
    os.setxattr(tree / "empty", "user.name", b"value")


def become_link(tree):
    (tree / "d1" / "0001").unlink()
    (tree / "d1" / "0001").symlink_to("0004")


def become_pipe(tree):
    (tree / "d1" / "0001").unlink()
    os.mkfifo(tree / "d1" / "0001")


def become_directory(tree):
    (tree / "d1" / "0001").unlink()
    (tree / "d1" / "0001").mkdir()


def get_hole(tree):
    os.truncate(tree / "d1" / "0001", 1 << 20)


def add_with_old_time_of_directory(tree):
    before = os.stat(tree / "d1")
    (tree / "d1" / "more").write_bytes(b"")
    os.utime(tree / "d1", ns=(before.st_atime_ns, before.st_mtime_ns))


QUICK = [rewrite, give_old_times, change_mode, replace]
OTHERS = [
    add_with_old_time_of_directory,
    add_attribute,
    add_attribute_of_directory,
    become_link,
    become_directory,
    get_hole,
    lambda tree: (tree / "d1" / "second").hardlink_to(tree / "d1" / "0001"),
    lambda tree: (tree / "d1" / "0001").unlink(),
    lambda tree: (tree / "d1" / "more").write_bytes(b""),
    lambda tree: (tree / "empty" / "more").mkdir(),
    lambda tree: (tree / "empty").rmdir(),
    lambda tree: [path.write_bytes(b"") for path in tree.glob("d*/*")],
]


def surveys(tree, change, options=None):
    """(what `survey_changes` finds after a change, what a walk finds), as packed manifests."""
    source, options = selection.parse(str(tree)), options or selection.Options()
    earlier, _ = survey.survey(source, options)
    time.sleep(0.05)  # longer than the clock of the file system needs for another ctime
    change(tree)
    found = changes.survey_changes(source, options, earlier)
    whole, findings = survey.survey(source, options, earlier=earlier)
    plain, _ = survey.survey(source, options)
    assert whole.pack() == plain.pack()
    if found is not None:
        survey.describe(found[0], source, options, found[1])
    return found and (found[0].pack(), found[1].directories), (plain.pack(), findings.directories)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("change", [lambda _: None, *QUICK])
def test_changed_files_are_found_without_a_walk(tree, monkeypatch, change, cores):
    monkeypatch.setattr(fork, "usable_cores", lambda: cores)
    monkeypatch.setattr(changes, "FILES_PER_HELPER", COUNT // 4)
    monkeypatch.setattr(changes, "BUSY", 0)  # however busy this machine is, the source is not slow
    found, walked = surveys(tree, change)
    assert found == walked


@pytest.mark.parametrize("change", OTHERS)
def test_other_changes_are_left_to_the_walk(tree, monkeypatch, change):
    monkeypatch.setattr(changes, "BUSY", 0)
    monkeypatch.setattr(changes, "MANY", 16)  # so that there are several batches
    assert surveys(tree, change)[0] is None


def test_a_slow_source_is_left_to_the_walk(tree, monkeypatch):
    monkeypatch.setattr(changes.Waiting, "is_most", lambda *_: True)
    assert surveys(tree, rewrite)[0] is None


@pytest.mark.parametrize("options", [selection.Options(follow=True), selection.Options(skip_special=True)])
def test_links_that_are_followed_and_special_files_need_a_walk(tree, options):
    assert surveys(tree, rewrite, options)[0] is None


def test_a_special_file_is_still_rejected(tree):
    with pytest.raises(survey.SourceFault, match="the source holds devices, pipes or sockets"):
        surveys(tree, become_pipe)


@pytest.mark.parametrize("key", ["shard", "slow"])
def test_a_shard_is_not_the_source_and_a_slow_one_needs_a_walk(tree, monkeypatch, key):
    monkeypatch.setattr(changes, "BUSY", 0)
    source, options = selection.parse(str(tree)), selection.Options()
    earlier, _ = survey.survey(source, options)
    assert changes.survey_changes(source, options, earlier) is not None
    earlier.info[key] = True
    assert changes.survey_changes(source, options, earlier) is None
