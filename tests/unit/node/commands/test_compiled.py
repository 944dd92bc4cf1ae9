"""The store of compiled entries: added to by several jobs, complete or not there, and only what is the user's own and whole."""

import contextlib
import json
import os
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.unit.node.programs import HELD_READER, command, environment, prepared

KEY, RUN = "env", "7.0"
LATER = [pytest.mark.slow, pytest.mark.each_python]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "jobs" / ".store"


def run(*arguments, code=0):
    done = subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def entries(place, **files):
    """A directory of caches with these files."""
    for name, content in files.items():
        path = place / "inductor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


def save(store, place, *more, code=0):
    return run(
        "compiled-save", "--store", store, "--key", KEY, "--from", place, "--run", RUN, *more, code=code
    )


def seed(answer, target, *, kind=None, code=0, stage="stage"):
    """Give a node what `compiled-find` has found; kind: of the machine, if not this one."""
    words = seeding(answer, target, kind, stage)
    return run("compiled-seed", *words, code=code)


def seeding(answer, target, kind=None, stage="stage"):
    """The words of `compiled-seed` after `compiled-find`."""
    machine, digest, archive = answer.read_text().split(maxsplit=2)
    return ["--into", target / "caches", "--machine", kind or machine, "--digest", digest, "--archive", archive.strip(),
            "--run", "8.0", "--name", "seed", "--to", target / stage]  # fmt: skip


def found(store, tmp_path):
    """(what was said, what a job's node gets: path -> content); no files if there is no archive."""
    answer, target = tmp_path / "answer", tmp_path / f"node-{len(list(tmp_path.glob('node-*')))}"
    answer.unlink(missing_ok=True)
    said = run("compiled-find", "--store", store, "--key", KEY, "--out", answer)
    if not answer.exists():
        return said, {}
    seed(answer, target)
    files = (path for path in (target / "caches").rglob("*") if path.is_file())
    return said, {str(path.relative_to(target / "caches")): path.read_text() for path in files}


def marks(store):
    return sorted((store / f"caches--{KEY}").glob("*.json"))


def archive(store):
    return marks(store)[-1].with_suffix("") / "cache.tar"


def test_each_job_adds_what_is_new(store, tmp_path):
    assert "2 files added" in save(store, entries(tmp_path / "a", one="1", two="2"))
    assert save(store, tmp_path / "a") == "", "nothing is new"
    assert "1 file added" in save(store, entries(tmp_path / "b", three="3"))
    said, files = found(store, tmp_path)
    assert said == ""
    assert files == {"inductor/one": "1", "inductor/two": "2", "inductor/three": "3"}


def test_entries_that_all_nodes_must_have_are_those_of_the_archive(store, tmp_path):
    """Process 0 writes them: what its node had before, the others have not."""
    place = entries(tmp_path / "a", one="1")
    for run_id in (RUN, "6.0"):
        (place / ".runs" / run_id / "jax").mkdir(parents=True)
        (place / ".runs" / run_id / "jax/step").write_text(run_id)
    os.utime(place / ".runs/6.0", (1e9, 1e9))
    save(store, place)
    _, files = found(store, tmp_path)
    assert files == {"inductor/one": "1", ".runs/8.0/jax/step": RUN}


def test_a_node_of_another_kind_gets_nothing_and_is_known(store, tmp_path):
    save(store, entries(tmp_path / "a", one="1"))
    run("compiled-find", "--store", store, "--key", KEY, "--out", tmp_path / "answer")
    text = seed(tmp_path / "answer", tmp_path / "node", kind="riscv64-1", code=3)
    assert text.endswith(
        "dlrun: caches: this node compiles by itself: it is of another kind than the first\n"
    )
    assert not (tmp_path / "node/caches").exists()


def test_a_node_that_has_all_reads_nothing(store, tmp_path):
    save(store, entries(tmp_path / "a", one="1", two="2"))
    found(store, tmp_path)
    assert (
        seed(tmp_path / "answer", tmp_path / "node-0")
        == "dlrun: caches: this node has what is in the user's store\n"
    )
    (tmp_path / "node-0/caches/inductor/two").write_text("")
    assert "2 files" in seed(tmp_path / "answer", tmp_path / "node-0")
    (tmp_path / "node-0/caches/inductor/one").unlink()
    seed(tmp_path / "answer", tmp_path / "node-0")
    assert (tmp_path / "node-0/caches/inductor/one").read_text() == "1"


def test_a_node_forgets_environments_that_no_job_uses(store, tmp_path):
    """By the time of the last job in each; another one may have made its directories long ago and start now."""
    save(store, entries(tmp_path / "a", one="1"))
    node = tmp_path / "node-1"
    for name, made, used in (("empty", 0, None), ("old", 0, 0), ("in-use", 0, 3e9), ("new", 3e9, None)):
        (node / name / "triton").mkdir(parents=True)
        if used is not None:
            (node / name / ".used").touch()
            os.utime(node / name / ".used", (used, used))
        os.utime(node / name, (made, made))
    found(store, tmp_path)
    assert {path.name for path in node.iterdir()} == {"in-use", "new", "caches", "stage"}


def test_times_are_kept_to_the_nanosecond(store, tmp_path):
    """Build systems compare them with those in their logs."""
    place = entries(tmp_path / "a", one="1")
    os.utime(place / "inductor/one", ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    save(store, place)
    found(store, tmp_path)
    copy = tmp_path / "node-0/caches/inductor/one"
    assert copy.stat().st_mtime_ns == 1_700_000_000_123_456_789


@pytest.mark.slow
@pytest.mark.each_python
def test_what_is_not_complete_is_left_out(store, tmp_path):
    place = entries(tmp_path / "a", one="1", written="", new="n")
    os.utime(place / "inductor/one", (1e9, 1e9))
    (place / "inductor/tmp.pid_1").mkdir()
    (place / "inductor/tmp.pid_1/kernel.so").write_text("x")
    (place / "inductor/index.nbi.tmp.4f").write_text("x")
    for lock in ("sycl/0.lock", "neuron/MODULE_1/model.hlo.lock", "matplotlib/fontlist.json.matplotlib-lock"):
        (place / lock).parent.mkdir(parents=True)
        (place / lock).touch()
    for name in ("built", "building"):
        (place / "torch_extensions" / name).mkdir(parents=True)
        (place / "torch_extensions" / name / "op.so").write_text(name)
    (place / "torch_extensions/building/lock").touch()
    with (place / "inductor/written").open("w"):
        save(store, place)
    _, files = found(store, tmp_path)
    assert set(files) == {"inductor/one", "inductor/new", "torch_extensions/built/op.so"}
    os.utime(place / "inductor/written", (1e9, 1e9))
    (place / "inductor/late").write_text("x")
    save(store, place, "--settled", "1h")
    _, files = found(store, tmp_path)
    assert "inductor/written" in files
    assert "inductor/late" not in files


@pytest.mark.slow
@pytest.mark.each_python
def test_jobs_that_save_at_once_lose_nothing(store, tmp_path):
    savers = []
    for number in range(4):
        place = entries(tmp_path / f"a{number}", **{f"n{number}": str(number)})
        line = command("compiled-save", "--store", store, "--key", KEY, "--run", RUN, "--from", place)
        savers.append(subprocess.Popen(line, env=environment()))
    assert [saver.wait() for saver in savers] == [0] * 4
    _, files = found(store, tmp_path)
    assert files == {f"inductor/n{number}": str(number) for number in range(4)}


def test_the_latest_entries_stay_within_the_limit(store, tmp_path):
    place = entries(tmp_path / "a", old="o" * 1000, new="n" * 1000)
    os.utime(place / "inductor/old", (1e9, 1e9))
    save(store, place, "--limit", "1500")
    assert save(store, place, "--limit", "1500") == "", "not again and again"
    _, files = found(store, tmp_path)
    assert set(files) == {"inductor/new"}


KILLED = """
import os, signal, sys
calls = [int(sys.argv[1])]
def hook(event, arguments):
    if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir") and not str(arguments[0]).startswith("/"):
        calls[0] -= 1
        if not calls[0]:
            os.kill(os.getpid(), signal.SIGKILL)
from dlrun.node.__main__ import main
import dlrun.node.commands.compiled, tarfile
sys.addaudithook(hook)
sys.exit(main(sys.argv[2:]))
"""
"""Kills itself before one of the operations on files."""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 8), reason="audit hooks are Python 3.8's")
def test_a_node_that_fails_while_it_saves_leaves_what_was_there(store, tmp_path):
    save(store, entries(tmp_path / "a", one="1"))
    new = entries(tmp_path / "b", two="2")
    for call in range(1, 1000):
        line = [sys.executable, "-c", KILLED, str(call), "compiled-save", "--store", store]
        ended = subprocess.run(
            [*map(str, line), "--key", KEY, "--run", RUN, "--from", new], env=environment(), check=False
        ).returncode
        said, files = found(store, tmp_path)
        assert said == ""
        assert files in ({"inductor/one": "1"}, {"inductor/one": "1", "inductor/two": "2"})
        if ended == 0 or "inductor/two" in files:
            break
    assert call > 10, "each operation was the last one once"
    save(store, entries(new, three="3"))
    left = {path.name for path in (store / f"caches--{KEY}").iterdir() if path.suffix != ".json"}
    assert left - {".lock"} == {path.stem for path in (store / f"caches--{KEY}").glob("*.json")}
    assert set(found(store, tmp_path)[1]) >= {"inductor/one", "inductor/two", "inductor/three"}


@pytest.mark.parametrize("limit", [0, 3000])
def test_a_full_store_is_reported_and_has_what_it_had(store, tmp_path, limit):
    save(store, entries(tmp_path / "a", one="1"))
    new = entries(tmp_path / "b", two="2" * 50_000)
    line = command("compiled-save", "--store", store, "--key", KEY, "--run", RUN, "--from", new)
    full = ["bash", "-c", f'ulimit -f {limit // 1000}; exec "$@"', "x", *line]
    done = subprocess.run(full, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == "dlrun: caches: what was compiled is not kept: File too large\n"
    assert found(store, tmp_path) == ("", {"inductor/one": "1"})
    assert not list((store / f"caches--{KEY}").glob(".*.new"))


@pytest.mark.slow
@pytest.mark.each_python
def test_a_damaged_archive_is_left_aside(store, tmp_path):
    save(store, entries(tmp_path / "a", one="1"))
    damaged = archive(store)
    content = bytearray(damaged.read_bytes())
    content[1024] ^= 1
    damaged.write_bytes(content)
    answer = tmp_path / "answer"
    run("compiled-find", "--store", store, "--key", KEY, "--out", answer)
    machine, digest, path = answer.read_text().split(maxsplit=2)
    words = ["--into", tmp_path / "c", "--machine", machine, "--digest", digest, "--archive", path.strip()]
    said = run("compiled-seed", *words, "--run", RUN, "--name", "seed", "--to", tmp_path / "stage", code=1)
    assert "this node compiles by itself" in said
    assert not (tmp_path / "c").exists()
    assert "is damaged, and left aside" in run("compiled-check", "--store", store, "--key", KEY)
    assert found(store, tmp_path) == ("", {})
    save(store, tmp_path / "a")
    assert found(store, tmp_path)[1] == {"inductor/one": "1"}


@pytest.mark.parametrize("what", ["an archive", "its size", "the mark"])
def test_a_damaged_archive_is_not_added_to(store, tmp_path, what):
    save(store, entries(tmp_path / "a", one="1"))
    if what == "an archive":
        content = bytearray(archive(store).read_bytes())
        content[1024] ^= 1
        archive(store).write_bytes(content)
    elif what == "its size":
        archive(store).write_bytes(b"")
    else:
        marks(store)[0].write_text("{")
    said = save(store, entries(tmp_path / "b", two="2"))
    assert "is damaged, and left aside" in said
    assert found(store, tmp_path) == ("", {"inductor/two": "2"})


@pytest.mark.parametrize(
    "part", ["store", "archive", *(pytest.param(part, marks=LATER) for part in ("key", "version", "mark"))]
)
@pytest.mark.parametrize("how", ["a link", "open to others", "another user's"])
def test_what_another_could_have_put_there_is_refused(store, tmp_path, part, how):
    save(store, entries(tmp_path / "a", one="1"))
    places = {"store": store, "key": store / f"caches--{KEY}", "version": archive(store).parent,
              "archive": archive(store), "mark": marks(store)[0]}  # fmt: skip
    place: Path = places[part]
    if how == "a link":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    elif how == "open to others":
        place.chmod(0o770 if place.is_dir() else 0o660)
    elif os.geteuid():
        pytest.skip("only root can give it to another user")
    else:
        os.chown(place, 12345, -1)
    said, files = found(store, tmp_path)
    assert files == {}
    assert said.startswith("dlrun: caches: ")
    if part in ("store", "key"):
        assert "not kept" in save(store, entries(tmp_path / "b", two="2"), code=1)
    else:
        save(store, entries(tmp_path / "b", two="2"))
        assert found(store, tmp_path)[1] == {"inductor/two": "2"}


@pytest.mark.slow
@pytest.mark.each_python
def test_versions_that_no_job_uses_go(store, tmp_path):
    save(store, entries(tmp_path / "a", one="1"))
    (first,) = marks(store)
    other = first.with_name("s390x-000000000000-000000000000.json")
    other.write_text(first.read_text())
    save(store, entries(tmp_path / "b", two="2"))
    assert len(marks(store)) == 3, "jobs may read them now"
    os.utime(first, (1e9, 1e9))
    os.utime(other, (1e9, 1e9))
    save(store, entries(tmp_path / "b", three="3"))
    assert first not in marks(store)
    assert other not in marks(store)
    assert set(found(store, tmp_path)[1]) == {"inductor/one", "inductor/two", "inductor/three"}
    assert json.loads(marks(store)[-1].read_text())["files"] in (2, 3)


# --- While the archive arrives ------------------------------------------------------------------------------


@pytest.fixture
def large(store, tmp_path):
    """The store with an archive of several blocks; gives what `compiled-find` has found, and the files of the archive."""
    files = {f"entry-{number}": f"{number}" * (1 << 20) for number in range(9)}
    save(store, entries(tmp_path / "a", **files))
    run("compiled-find", "--store", store, "--key", KEY, "--out", tmp_path / "answer")
    return tmp_path / "answer", files


@contextlib.contextmanager
def arriving(answer, node):
    """A node program that has unpacked the first blocks of an archive, out of sight; the others come once `gate` exists."""
    words = prepared(
        command("compiled-seed", *seeding(answer, node)), HELD_READER.format(gate=str(node / "gate"))
    )
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE) as process:
        try:
            found = until(lambda: list(node.glob(".arriving-*/inductor/entry-*")))
            yield process, found[0].parents[1]
        finally:
            process.kill()


def until(found, seconds=60):
    """What is found once there is anything."""
    end = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return result


def there(node):
    return {path.name: path.read_text() for path in (node / "caches").rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.each_python
def test_entries_are_unpacked_while_they_arrive_and_seen_once_all_are_proved(large, tmp_path):
    answer, files = large
    node = tmp_path / "node"
    with arriving(answer, node) as (process, hidden):
        assert not (node / "caches").exists()
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
        (node / "gate").touch()
        assert process.wait(60) == 0
    assert there(node) == files
    assert not hidden.exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_node_program_that_is_killed_while_they_arrive_leaves_nothing_to_the_next(large, tmp_path):
    answer, files = large
    node = tmp_path / "node"
    with arriving(answer, node) as (process, hidden):
        process.kill()
        process.wait()
    assert hidden.exists()
    assert not (node / "caches").exists()
    seed(answer, node)
    assert there(node) == files
    assert {path.name for path in node.iterdir()} == {"caches", "stage"}


@pytest.mark.slow
def test_a_job_that_begins_leaves_what_arrives_for_another_one(large, tmp_path):
    answer, files = large
    node = tmp_path / "node"
    with arriving(answer, node) as (process, hidden):
        seed(answer, node, stage="other")
        assert there(node) == files
        assert hidden.exists()
        (node / "gate").touch()
        assert process.wait(60) == 0
    assert there(node) == files


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("part", ["an entry", "a header", "the size of an entry", "all but the first block"])
def test_a_damaged_archive_shows_nothing(store, large, tmp_path, part):
    """After some of it has been unpacked; `the size of an entry`: its header is valid, and names more than there is."""
    answer, _ = large
    content = bytearray(archive(store).read_bytes())
    second = content.index(b"ustar", 6 << 20) - 257
    if part == "an entry":
        content[-(1 << 20)] ^= 1
    elif part == "a header":
        content[second + 257] ^= 1
    elif part == "all but the first block":
        content[4 << 20 :] = bytes(len(content) - (4 << 20))
    else:
        header = tarfile.TarInfo.frombuf(bytes(content[second : second + 512]), "utf-8", "strict")
        header.size = 1 << 40
        content[second : second + 512] = header.tobuf(tarfile.GNU_FORMAT)[:512]
    archive(store).write_bytes(content)
    assert "not the checksum that was given" in seed(answer, tmp_path / "node", code=1)
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["stage"]
    assert "is damaged, and left aside" in run("compiled-check", "--store", store, "--key", KEY)
