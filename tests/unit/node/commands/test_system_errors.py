"""What the system refuses is reported in words, whatever call it was, and nothing half-done is left in the way."""

import errno
import itertools
import os

import pytest

from tests.examples import cases
from tests.unit.node.commands.test_refusals import as_nobody, as_root, open_path  # noqa: F401 - a fixture
from tests.unit.node.programs import Result, run, start
from tests.unit.node.trees import snapshot, write

FAULTY = """
import os
real, left = os.{call}, [{after}]
def call(*arguments, **options):
    left[0] -= 1
    if left[0] < 0:
        raise OSError({number}, os.strerror({number}))
    return real(*arguments, **options)
os.{call} = call
"""


@pytest.fixture
def source(tmp_path):
    for number in range(30):
        write(os.fsencode(tmp_path / "source" / f"d{number % 3}" / f"f{number}"), os.urandom(900))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20))
    return tmp_path / "source"


def stage(tmp_path, source, *more, prelude=None):
    words = ("stage", "--source", source, "--to", tmp_path / "node", "--name", "set", *more)
    process = start(*words, prelude=prelude)
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


CALLS = ["mkdir", "open", "rename", "fchmod", "utime", "pwrite", "ftruncate", "listdir"]
FAULTS = itertools.product(CALLS, [0, 3], ["EIO", "ENOSPC", "EDQUOT", "EROFS"])


@pytest.mark.parametrize(("call", "after", "fault"), cases(FAULTS, quick=6))
def test_any_call_may_fail(tmp_path, source, call, after, fault):
    prelude = FAULTY.format(call=call, after=after, number=getattr(errno, fault))
    failed = stage(tmp_path, source, prelude=prelude)
    assert "Traceback" not in failed.err
    assert failed.status in (0, 1)
    if failed.status:
        assert failed.err.startswith("error: ") or "\nerror: " in failed.err
    assert stage(tmp_path, source).status == 0
    assert snapshot(tmp_path / "node" / "set" / "data") == snapshot(source)


@pytest.mark.parametrize("call", ["mkdir", "rename", "pwrite"])
def test_a_full_disk_means_in_place_where_that_was_asked_for(tmp_path, source, call):
    prelude = FAULTY.format(call=call, after=1, number=28)
    found = stage(tmp_path, source, "--else-in-place", tmp_path / "why", prelude=prelude)
    assert found.status == 0, found.err
    assert found.out.strip() == str(source)
    assert (tmp_path / "why").read_text()


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize(
    ("number", "words"), [(5, "input/output error"), (116, "stale file handle"), (13, "permission denied")]
)
def test_a_source_that_cannot_be_read_did_not_change(tmp_path, source, number, words):
    prelude = FAULTY.format(call="readv", after=2, number=number)
    found = stage(tmp_path, source, prelude=prelude)
    assert found.status == 1
    assert words in found.err.lower()
    assert "changed" not in found.err


@pytest.mark.slow
@pytest.mark.each_python
@as_root
def test_a_file_that_cannot_be_read_is_found_before_anything_is_copied(open_path):  # noqa: F811
    for number in range(5):
        write(os.fsencode(open_path) + b"/source/%d" % number, b"data")
    write(os.fsencode(open_path) + b"/source/secret", b"data", 0o600)
    os.mkdir(open_path + "/own")
    os.chown(open_path + "/own", 65534, 65534)
    found = as_nobody(
        open_path + "/node.pyz", "stage", "--source", open_path + "/source", "--to", open_path + "/own/node",
        "--name", "s",
    )  # fmt: skip
    assert found.returncode == 1
    assert "1 entry of the source cannot be read: `secret`" in found.stderr
    assert not os.path.exists(open_path + "/own/node/.dlrun/part.s")


def test_what_is_not_kept_of_directories_is_reported(tmp_path, source):
    os.chmod(source / "d1", 0o2755)
    found = stage(tmp_path, source)
    assert found.status == 0
    assert "set-group-id and sticky bits of directories not kept: `d1`" in found.err


def test_an_empty_source_is_reported(tmp_path):
    (tmp_path / "source").mkdir()
    found = stage(tmp_path, tmp_path / "source")
    assert found.status == 0
    assert "holds no files" in found.err


def test_a_destination_that_is_too_long_is_refused(tmp_path, source):
    found = run(
        "stage", "--source", source, "--to", f"{tmp_path}/" + "/".join(["x" * 200] * 30), "--name", "set"
    )
    assert found.status == 1
    assert "File name too long" in found.err


def test_a_copy_whose_paths_no_program_could_open_is_refused_before_it_is_made(tmp_path, source):
    deep, to = "/".join(["d" * 200] * 10), tmp_path
    write(os.fsencode(source) + b"/" + os.fsencode(deep) + b"/last", b"data")
    while len(os.fsencode(to)) < 2200:
        to = to / ("t" * 200)
    to.mkdir(parents=True)
    found = run("stage", "--source", source, "--to", to, "--name", "set")
    assert found.status == 1
    assert "`last` would have a path of 4," in found.err
    assert "the system allows 4,095" in found.err
    assert not (to / "set").exists()
    assert run("stage", "--source", source, "--to", to, "--name", "set", "--strategy", "pack").status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may try to write in /sys")
def test_a_staging_directory_that_cannot_be_written_is_named_in_full():
    found = run("stage", "--source", "/etc/hosts", "--to", "/sys", "--name", "set")
    assert found.status == 1
    assert "`/sys/.dlrun`" in found.err


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("command", ["list", "clean", "stage-out"])
def test_other_commands_report_what_the_system_refuses(tmp_path, source, command):
    assert stage(tmp_path, source).status == 0
    words = {
        "list": ("list", "--to", tmp_path / "node"),
        "clean": ("clean", "--to", tmp_path / "node", "--all"),
        "stage-out": ("stage-out", "--source", source, "--to", tmp_path / "results"),
    }[command]
    for call in ("open", "listdir", "rename"):
        process = start(*words, prelude=FAULTY.format(call=call, after=2, number=5))
        _, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
