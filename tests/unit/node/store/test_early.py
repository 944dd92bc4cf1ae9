"""Training that begins before a set is complete: files appear whole, the rest can be waited for, or is known not to come."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from dlrun.node import dlrun_data

from tests.unit.node.programs import HELD_READER, environment, run, staging, start
from tests.unit.node.relay.test_chain import until
from tests.unit.node.trees import odd, snapshot, write

HELPER = Path(dlrun_data.__file__)


@pytest.fixture
def source(tmp_path):
    for number in range(6):
        write(os.fsencode(tmp_path / "source" / f"shard-{number}"), os.urandom(5 << 20))
    return tmp_path / "source"


def words(tmp_path, source, *more):
    return ("stage", "--source", source, "--to", tmp_path / "to", "--name", "set", "--job", "7", "--workers", "1", "--json",
            "--start", "1 file", "--started", tmp_path / "started", *more)  # fmt: skip


def start_held(gate, *arguments):
    """Start a node program that reads the first file, and the rest once the file `gate` is there."""
    return start(*arguments, prelude=HELD_READER.format(gate=str(gate)))


def ended(program):
    """The exit status of a program, whose output nobody needs."""
    program.communicate(timeout=120)
    return program.returncode


def data(tmp_path):
    return tmp_path / "to" / ".early-7" / "set" / "data"


def waiting(*paths):
    """A process that waits for paths."""
    return subprocess.Popen(
        [sys.executable, str(HELPER), *map(str, paths)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip


def test_files_appear_whole_and_the_rest_is_waited_for(tmp_path, source):
    program = start_held(tmp_path / "gate", *words(tmp_path, source))
    until((tmp_path / "started").exists)
    assert not (tmp_path / "to" / "set").exists(), "it is not complete"
    there = os.listdir(data(tmp_path))
    assert there
    for name in there:
        assert (data(tmp_path) / name).read_bytes() == (source / name).read_bytes()
    names = dlrun_data.files(data(tmp_path), "shard-*")
    assert names == [str(data(tmp_path) / f"shard-{number}") for number in range(6)]
    last = waiting(names[-1])
    with pytest.raises(TimeoutError):
        dlrun_data.wait(names[-1], timeout=0.1)
    assert last.poll() is None
    (tmp_path / "gate").touch()
    out, err = last.communicate(timeout=120)
    assert (out, err) == (f"{names[-1]}\n", "")
    assert Path(names[-1]).read_bytes() == (source / "shard-5").read_bytes()
    assert ended(program) == 0
    assert dlrun_data.wait(data(tmp_path)) == str(data(tmp_path)), "all files below it"


def test_what_is_not_part_of_the_set_is_an_error_at_once(tmp_path, source):
    program = start_held(tmp_path / "gate", *words(tmp_path, source))
    until((tmp_path / "started").exists)
    with pytest.raises(dlrun_data.NeverComes, match="not part of the data set"):
        dlrun_data.wait(data(tmp_path) / "shard-6")
    (tmp_path / "gate").touch()
    assert ended(program) == 0
    with pytest.raises(dlrun_data.NeverComes):
        dlrun_data.wait(tmp_path / "elsewhere")


@pytest.mark.parametrize("how", ["killed", "source changed"])
def test_who_waits_learns_that_the_copying_has_ended(tmp_path, source, how):
    program = start_held(tmp_path / "gate", *words(tmp_path, source))
    until((tmp_path / "started").exists)
    waiter = waiting(data(tmp_path) / "shard-5")
    if how == "killed":
        os.killpg(program.pid, signal.SIGKILL)
    else:
        (source / "shard-5").write_bytes(b"shorter")
        (tmp_path / "gate").touch()
    _, err = waiter.communicate(timeout=120)
    assert waiter.returncode == 1
    assert "it will not be copied" in err
    assert "changed" in err or how == "killed"
    ended(program)


@pytest.mark.slow
def test_a_tree_of_odd_names_is_complete_in_the_end_and_known_again_after_the_job(tmp_path):
    odd(tmp_path / "source")
    assert run(*words(tmp_path, tmp_path / "source")).done()["how"] == "copied"

    def plain(found):
        """All but directories, whose modes differ, and but which names are one file: those of the set are, too."""
        files = {path: entry for path, entry in found.items() if entry[0] != stat.S_IFDIR}
        return {path: entry[:5] for path, entry in files.items()}

    assert plain(snapshot(data(tmp_path))) == plain(snapshot(tmp_path / "source"))
    run("clean", "--to", tmp_path / "to", "--job", "7")
    assert not (tmp_path / "to" / ".early-7").exists()
    again = run(*words(tmp_path, tmp_path / "source")).done()
    assert (again["how"], again["read"]) == ("warm", 0)
    assert snapshot(os.path.realpath(data(tmp_path))) == snapshot(tmp_path / "source"), (
        "what was there before is seen at once"
    )
    assert (tmp_path / "started").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_reader_that_wrote_through_a_link_is_found_after_the_job(tmp_path, source):
    run(*words(tmp_path, source)).done()
    path = data(tmp_path) / "shard-0"
    status = path.stat()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    run("clean", "--to", tmp_path / "to", "--job", "7")
    again = run(*words(tmp_path, source)).done()
    assert again["how"] == "copied"
    assert (tmp_path / "to" / "set" / "data" / "shard-0").read_bytes() == (source / "shard-0").read_bytes()


@pytest.mark.slow
@pytest.mark.each_python
def test_links_of_a_job_that_is_gone_are_removed_by_the_next(tmp_path, source):
    program = start_held(tmp_path / "gate", *words(tmp_path, source))
    until((tmp_path / "started").exists)
    other = ("stage", "--source", source, "--to", tmp_path / "to", "--name", "other", "--json")
    run(*other).done()
    assert data(tmp_path).exists(), "it is being copied"
    os.killpg(program.pid, signal.SIGKILL)
    ended(program)
    run(*other).done()
    assert not (tmp_path / "to" / ".early-7").exists()


@pytest.mark.parametrize("amount", ["150%", "0%", "0 files", "0B", "files", "-1 file"])
def test_training_starts_with_something_and_with_no_more_than_all(tmp_path, source, amount):
    found = run(
        *staging(source, tmp_path / "to"),
        "--job",
        "7",
        "--start=" + amount,
    )
    assert found.status == 2
    assert amount in found.err
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("more", [("--strategy", "pack"), ("--verify",)], ids=["pack", "verify"])
def test_start_is_refused_where_nothing_can_be_early(tmp_path, source, more):
    found = run(*words(tmp_path, source, *more))
    assert found.status == 2
    assert "--start" in found.err


@pytest.mark.parametrize(
    "command", ["stage", "stage-out", "list", "evict", "clean", "fix-venv", "results", "verify"]
)
def test_help_of_every_command(command):
    assert "usage: node.pyz" in run(command, "--help").out


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_that_the_training_put_beside_early_ones_stays(tmp_path, source):
    run(*words(tmp_path, source)).done()
    (data(tmp_path) / "labels.cache").write_bytes(b"mine")
    run("clean", "--to", tmp_path / "to", "--job", "7")
    assert (data(tmp_path) / "labels.cache").read_bytes() == b"mine"
    (data(tmp_path) / "labels.cache").unlink()
    run("clean", "--to", tmp_path / "to", "--job", "7")
    assert not (tmp_path / "to" / ".early-7").exists()
