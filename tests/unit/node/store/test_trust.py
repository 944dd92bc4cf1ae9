"""A published set is believed only as far as it was looked at: rewritten files, power cuts, what readers leave."""

import os

import pytest

from tests.unit.node.programs import run, staging, start
from tests.unit.node.trees import snapshot, write


@pytest.fixture
def source(tmp_path):
    for number in range(40):
        write(os.fsencode(tmp_path / "source" / f"d{number % 3}" / f"f{number}"), os.urandom(900))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(9 << 20))
    return tmp_path / "source"


@pytest.fixture
def stage(tmp_path, source):
    def one(*more):
        return run("stage", "--source", source, "--to", tmp_path / "node", "--name", "set", "--json", *more)

    return one


@pytest.fixture
def data(tmp_path):
    return tmp_path / "node" / "set" / "data"


def rewrite(path, at=0):
    """Write other bytes of the same number into a file, which keeps its time."""
    times = os.stat(path).st_mtime_ns
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(b ^ 255 for b in path.read_bytes()[at : at + 50]))
    os.utime(path, ns=(times, times))


def as_if_older(data):
    """Let a set be as if what was done to it had been done before it was published."""
    os.utime(data.parent / "manifest")


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("name", ["d1/f1", "large"])
@pytest.mark.parametrize("where", ["source", "copy"])
def test_a_file_rewritten_in_place_with_its_old_time_is_noticed(stage, source, data, where, name):
    stage().done()
    rewrite({"source": source, "copy": data}[where] / name)
    assert stage().done()["how"] == "copied"
    assert snapshot(data) == snapshot(source)
    assert stage().done()["how"] == "warm"


def test_what_only_changes_the_status_of_a_copy_is_read_once_and_not_copied(stage, source, data):
    stage().done()
    os.utime(data / "d1" / "f1", ns=(1, 1))
    os.utime(data / "d1" / "f1", ns=(os.stat(source / "d1" / "f1").st_mtime_ns,) * 2)
    assert stage().done()["how"] == "warm"


@pytest.mark.parametrize("name", ["d1/f1", "large"])
def test_verify_reads_a_warm_set_and_copies_what_is_damaged(stage, source, data, name):
    stage().done()
    rewrite(data / name)
    as_if_older(data)
    assert stage().done()["how"] == "warm"
    done = stage("--verify").done()
    assert done["how"] == "copied"
    assert done["copied"] < done["bytes"]
    assert snapshot(data) == snapshot(source)
    assert stage("--verify").done()["how"] == "warm"


@pytest.mark.slow
@pytest.mark.each_python
def test_verify_reads_a_warm_pack(stage, source, data):
    stage("--strategy", "pack").done()
    (data / "set.tar").chmod(0o644)  # it is published read-only
    rewrite(data / "set.tar", at=5 << 20)
    as_if_older(data)
    assert stage("--strategy", "pack").done()["how"] == "warm"
    assert stage("--strategy", "pack", "--verify").done()["how"] == "copied"
    assert run("verify", "--to", data.parents[1], "--name", "set").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["copy", "pack"])
def test_after_a_power_cut_a_set_that_was_not_on_the_disk_is_read_back(stage, source, data, strategy):
    words = ("--strategy", strategy, "--sync", "none")
    stage(*words).done()
    torn = data / ("large" if strategy == "copy" else "set.tar")
    times = torn.stat().st_mtime_ns
    torn.chmod(0o644)
    torn.write_bytes(bytes(torn.stat().st_size))
    os.utime(torn, ns=(times, times))
    as_if_older(data)
    (data.parent / "boot").write_text("another boot")
    assert stage(*words).done()["how"] == "copied"
    assert run("verify", "--to", data.parents[1], "--name", "set").status == 0
    (data.parent / "boot").write_text("another boot")
    assert stage(*words).done()["how"] == "warm"
    assert (data.parent / "boot").read_text() != "another boot", "it is read once a boot"


def test_what_is_kept_is_on_the_disk_before_it_is_published(stage, data):
    stage("--keep", "cache").done()
    rewrite(data / "large", at=7 << 20)
    as_if_older(data)
    (data.parent / "boot").write_text("another boot")
    assert stage("--keep", "cache").done()["how"] == "warm", "what was on the disk survives a power cut"


NOTED = """
import os
from dlrun.node.store import area, build
def noted(what, real):
    def call(*arguments, **options):
        with open({log!r}, "a") as file:
            file.write(what + " ")
        return real(*arguments, **options)
    return call
build.sync_file_system = noted("data", build.sync_file_system)
area.Area.publish = noted("publish", area.Area.publish)
os.fsync = noted("name", os.fsync)
"""


@pytest.mark.parametrize(("keep", "order"), [("cache", "data publish name "), ("job", "publish ")])
def test_the_disk_is_waited_for_before_a_kept_set_gets_its_name(tmp_path, source, keep, order):
    words = (
        *staging(source, tmp_path / "node"),
        "--job",
        "7",
        "--keep",
        keep,
    )
    program = start(*words, prelude=NOTED.format(log=str(tmp_path / "log")))
    assert program.communicate()[1].count("copied") == 1
    assert (tmp_path / "log").read_text() == order


def test_what_a_reader_leaves_beside_the_data_is_kept_and_named(stage, source, data):
    write(os.fsencode(source / "db" / "data.mdb"), os.urandom(5000))
    write(os.fsencode(source / "db" / "lock.mdb"), bytes(8192))
    stage("--job", "17", "--lasting", "1h").done()
    (data / "db" / "lock.mdb").write_bytes(b"reader 4711".ljust(8192))
    (data / "d1" / "index.cache").write_bytes(b"made by a reader")
    done = stage("--job", "18").done()
    assert done["how"] == "warm"
    notes = " ".join(done["notes"])
    assert "d1/index.cache" in notes
    assert "db/lock.mdb" in notes
    assert (data / "d1" / "index.cache").exists()


def test_what_a_reader_may_change_is_no_damage_for_verify(tmp_path, stage, source, data):
    write(os.fsencode(source / "db" / "data.mdb"), os.urandom(5000))
    write(os.fsencode(source / "db" / "lock.mdb"), bytes(8192))
    stage().done()
    (data / "db" / "lock.mdb").write_bytes(b"reader 4711".ljust(8192))
    verify = ("verify", "--to", tmp_path / "node", "--name", "set")
    assert run(*verify).status == 0
    rewrite(data / "db" / "data.mdb")
    damaged = run(*verify)
    assert damaged.status == 1
    assert "differs from its manifest: `db/data.mdb`" in damaged.err


def test_a_copy_that_is_damaged_and_in_use_is_named(stage, data):
    stage("--job", "17", "--lasting", "1h").done()
    (data / "d2" / "f2").write_bytes(b"written by a reader")
    refused = stage("--job", "18")
    assert refused.status == 1
    assert "`d2/f2`" in refused.err
    assert "in use by job 17" in refused.err


@pytest.mark.slow
@pytest.mark.each_python
def test_a_pack_is_published_read_only(stage, data):
    stage("--strategy", "pack").done()
    assert {oct(path.stat().st_mode & 0o222) for path in [data, *data.iterdir()]} == {"0o0"}
