"""A published set stays until its successor is published, whatever keeps the successor from being built."""

import os
import signal

import pytest

from tests.unit.node.commands.test_refusals import on_small_disk
from tests.unit.node.programs import run, staging, start, start_held
from tests.unit.node.relay.test_chain import until
from tests.unit.node.trees import snapshot, write

FILES = 100
STAGE = '$PYTHON -m dlrun.node stage --source "$SOURCE" --to "$DISK/node" --name s'
SHOW = 'echo "status $?"; find "$DISK/node/s/data" -type f -printf "%P\\n" | sort | tr "\\n" " "; '


@pytest.fixture
def source(tmp_path):
    for number in range(FILES):
        write(os.fsencode(tmp_path / "source" / f"f{number}"), b"data %d" % number)
    return tmp_path / "source"


def test_where_inodes_are_short_only_the_missing_files_count(tmp_path, source):
    add = 'echo new > "$SOURCE/new"; '
    found = on_small_disk(tmp_path, f"{STAGE} && {add} {STAGE}; {SHOW}", inodes=160)
    assert "status 0" in found.stdout, found.stderr
    assert " new " in found.stdout


def test_a_set_stays_where_its_successor_has_too_many_files(tmp_path, source):
    add = 'for i in $(seq 60); do echo new > "$SOURCE/new$i"; done; '
    found = on_small_disk(tmp_path, f"{STAGE} && {add} {STAGE}; {SHOW}", inodes=160)
    assert "status 1" in found.stdout
    assert "more files, but the data set needs " in found.stderr
    assert "new" not in found.stdout
    assert found.stdout.count(" f") == FILES - 1


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("change", ["new", "rewritten"])
def test_a_set_stays_where_its_successor_is_too_large(tmp_path, source, change):
    write(os.fsencode(source / "large"), os.urandom(14 << 20))
    size = {"new": 20, "rewritten": 25}[change]
    name = {"new": "larger", "rewritten": "large"}[change]
    add = f'head -c {size}M /dev/zero | tr "\\0" x > "$SOURCE/{name}"; '
    found = on_small_disk(tmp_path, f"{STAGE} && {add} {STAGE}; {SHOW} ls -l $DISK/node/s/data/large; {add} ")
    assert "status 1" in found.stdout
    assert f" {14 << 20} " in found.stdout, found.stdout


@pytest.mark.slow
@pytest.mark.each_python
def test_a_set_makes_way_where_the_disk_holds_only_one_and_its_successor_is_known_to_fit(tmp_path, source):
    write(os.fsencode(source / "large"), os.urandom(14 << 20))
    add = 'head -c 15M /dev/zero | tr "\\0" x > "$SOURCE/large"; '
    found = on_small_disk(tmp_path, f"{STAGE} && {add} {STAGE}; {SHOW} ls -l $DISK/node/s/data/large")
    assert "status 0" in found.stdout, found.stderr
    assert f" {15 << 20} " in found.stdout
    assert "the previous version was removed first" in found.stderr


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("strategy", ["copy", "pack"])
def test_a_set_is_whole_while_its_successor_is_built_and_after_that_is_killed(tmp_path, source, strategy):
    write(os.fsencode(source / "large"), os.urandom(9 << 20))
    words = ("stage", "--source", source, "--to", tmp_path / "node", "--name", "s", "--strategy", strategy)
    assert run(*words).status == 0
    before = snapshot(tmp_path / "node" / "s" / "data")
    write(os.fsencode(source / "large"), os.urandom(25 << 20))
    (source / "f7").unlink()
    process = start_held(tmp_path / "gate", *words)
    part = tmp_path / "node" / ".dlrun" / "part.s"
    until(lambda: any(path.stat().st_size for path in part.glob("journal.*")))
    assert contents(tmp_path / "node" / "s" / "data") == without_links(before)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert contents(tmp_path / "node" / "s" / "data") == without_links(before)
    done = run(*words, "--json").done()
    if strategy == "copy":
        assert done["copied"] <= 25 << 20, "the small files were there already"
        assert snapshot(tmp_path / "node" / "s" / "data") == snapshot(source)
    assert os.listdir(tmp_path / "node" / ".dlrun").count("part.s") == 0


def without_links(found):
    """A snapshot without what a second name of a file changes."""
    return {path: entry[:-1] if len(entry) == 7 else entry for path, entry in found.items()}


def contents(root):
    """What is in a tree, but for further names of its files."""
    return without_links(snapshot(root))


KILLED_BEFORE_THE_OLD_VERSION_IS_REMOVED = """
import os
from dlrun.node.store.area import Area
def discard(self, directory, name):
    os._exit(9)
Area.discard = discard
"""


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("strategy", ["copy", "pack"])
def test_the_next_run_removes_the_old_version_that_a_kill_left_also_where_it_copies_nothing(
    tmp_path, source, strategy
):
    words = (
        *staging(source, tmp_path / "node", "s"),
        "--json",
        "--strategy",
        strategy,
    )
    run(*words).done()
    write(os.fsencode(source / "f0"), b"another")
    ended = start(*words, prelude=KILLED_BEFORE_THE_OLD_VERSION_IS_REMOVED)
    ended.communicate()
    assert ended.returncode == 9
    assert "part.s" in os.listdir(tmp_path / "node" / ".dlrun")
    assert run(*words).done()["how"] == "warm"
    assert "part.s" not in os.listdir(tmp_path / "node" / ".dlrun")
