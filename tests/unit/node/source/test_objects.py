"""A changed S3 source: only changed objects are fetched, and nothing writes to what is published."""

import os
import sys

import pytest
from dlrun.node.source import keys, objects

from tests.unit.node.programs import run, staging
from tests.unit.node.relay.test_chain import nodes  # noqa: F401 - a fixture
from tests.unit.node.trees import snapshot

CLIENT = """#!{python}
import hashlib, os, shlex, shutil, sys
bucket, words = "{root}/bucket", sys.argv[1:]

def objects():
    for above, _, names in os.walk(bucket):
        for path in (os.path.join(above, name) for name in names):
            yield path, os.path.relpath(path, bucket)

def fetch(path, to):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(path, "rb") as source, open(to, "wb") as file:  # in place
        shutil.copyfileobj(source, file)
    with open("{root}/fetched", "a") as log:
        log.write(os.path.relpath(path, bucket) + "\\n")
    if os.path.exists("{root}/kill"):
        os.remove("{root}/kill")
        os.kill(os.getppid(), 9)
        os._exit(9)

if words[0] == "ls":
    for path, key in sorted(objects()):
        status = os.stat(path)
        print("2026/11/26", status.st_ctime_ns, hashlib.md5(open(path, "rb").read()).hexdigest(), status.st_size, key)
elif words[-1] == "run":
    if os.path.exists("{root}/old"):
        sys.exit("ERROR: flag provided but not defined: -raw")
    for line in sys.stdin:
        cp, raw, url, to = shlex.split(line)
        fetch(bucket + url[len("s3://bucket/set"):], to)
else:
    for path, key in objects():
        fetch(path, os.path.join(words[-1], key))
"""
NAMES = ["a", "d/b c", "d/it's [1]*", "e/same", "e/too"]


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A directory that a client in the words of s5cmd takes for a bucket."""
    client = tmp_path / "bin" / "s5cmd"
    client.parent.mkdir()
    client.write_text(CLIENT.format(python=sys.executable, root=tmp_path))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    for name in NAMES:
        put(tmp_path / "bucket", name, b"same" if name.startswith("e/") else os.urandom(20_000))
    return tmp_path / "bucket"


def put(bucket, name, content):
    (bucket / name).parent.mkdir(parents=True, exist_ok=True)
    (bucket / name).write_bytes(content)


@pytest.fixture
def stage(tmp_path, bucket):
    def one(*more):
        return run(*staging("s3://bucket/set", tmp_path / "node"), "--json", *more)

    return one


def fetched(tmp_path):
    """The keys that were fetched since the last call."""
    log = tmp_path / "fetched"
    found = sorted(log.read_text().splitlines()) if log.exists() else []
    log.write_text("")
    return found


def contents(top):
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def inode(path):
    return path.stat().st_ino


def test_only_changed_objects_are_fetched(tmp_path, bucket, stage):
    data = tmp_path / "node" / "set" / "data"
    stage().done()
    assert fetched(tmp_path) == sorted(NAMES)
    before = inode(data / "a")
    for turn in range(3):
        put(bucket, "d/it's [1]*", b"other%d" % turn)
        put(bucket, "new", os.urandom(3 + turn))
        (bucket / "d" / "b c").unlink(missing_ok=True)
        assert stage().done()["copied"] == 6 + 3 + turn
        assert fetched(tmp_path) == ["d/it's [1]*", "new"]
        assert contents(data) == contents(bucket)
        assert inode(data / "a") == before
        assert inode(data / "e" / "same") != inode(data / "e" / "too"), "equal objects are files of their own"
    done = stage("--verify").done()
    assert done["how"] == "warm"
    assert stage().done()["read"] == 0, "links alone do not make a set look as if it had been written to"
    (bucket / "d" / "it's [1]*").unlink()
    stage().done()
    assert fetched(tmp_path) == []
    assert sorted(path.name for path in data.iterdir()) == ["a", "e", "new"], (
        "no directory without files stays"
    )
    assert {path.name for path in (tmp_path / "node" / ".dlrun").iterdir()} == {"lock.set", "used.set"}


@pytest.mark.slow
@pytest.mark.each_python
def test_an_object_that_was_uploaded_again_is_fetched(tmp_path, bucket, stage):
    """Of the same size, with another ETag or with the same."""
    stage().done()
    fetched(tmp_path)
    put(bucket, "a", os.urandom(20_000))
    put(bucket, "e/too", b"same")
    stage().done()
    assert fetched(tmp_path) == ["a", "e/too"]
    assert contents(tmp_path / "node" / "set" / "data") == contents(bucket)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("kept", [True, False])
def test_a_published_file_that_was_written_to_is_fetched_again(tmp_path, bucket, stage, kept):
    data = tmp_path / "node" / "set" / "data"
    stage().done()
    fetched(tmp_path)
    status = (data / "a").stat()
    (data / "a").write_bytes(b"x" * 20_000)
    if kept:
        os.utime(data / "a", ns=(status.st_mtime_ns,) * 2)
    put(bucket, "new", b"new")
    stage().done()
    assert fetched(tmp_path) == ["a", "new"]
    assert contents(data) == contents(bucket)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_client_that_cannot_fetch_some_fetches_all(tmp_path, bucket, stage):
    data = tmp_path / "node" / "set" / "data"
    stage().done()
    fetched(tmp_path)
    (tmp_path / "old").touch()
    put(bucket, "new", b"new")
    before = snapshot(data)
    os.link(data / "a", tmp_path / "published")
    stage().done()
    assert fetched(tmp_path) == sorted([*NAMES, "new"])
    assert contents(data) == contents(bucket)
    assert (tmp_path / "published").read_bytes() == (bucket / "a").read_bytes()
    assert snapshot(data) != before


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("then", ["old", "as before"])
def test_a_killed_fetch_harms_nothing(tmp_path, bucket, stage, then):
    data = tmp_path / "node" / "set" / "data"
    stage().done()
    first = contents(data)
    put(bucket, "a", os.urandom(20_000))
    put(bucket, "e/too", b"other")
    (tmp_path / "kill").touch()
    assert stage().status == -9
    assert contents(data) == first
    if then == "old":
        (tmp_path / "old").touch()
    put(bucket, "e/same", b"third")
    stage().done()
    assert contents(data) == contents(bucket)


@pytest.mark.slow
@pytest.mark.each_python
def test_most_has_changed(tmp_path, bucket, stage):
    stage().done()
    fetched(tmp_path)
    for name in NAMES[:3]:
        put(bucket, name, os.urandom(20_000))
    stage().done()
    assert fetched(tmp_path) == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.slow
def test_of_ten_thousand_objects_only_the_changed_one_is_fetched(tmp_path, bucket, stage):
    for number in range(10_000):
        put(bucket, f"many/{number % 100}/{number}", b"%d" % number)
    assert stage().done()["files"] == 10_000 + len(NAMES)
    data = tmp_path / "node" / "set" / "data"
    assert contents(data) == contents(bucket)
    fetched(tmp_path)
    put(bucket, "many/7/1207", b"changed")
    assert stage().done()["how"] == "copied"
    assert fetched(tmp_path) == ["many/7/1207"]
    assert contents(data) == contents(bucket)


def test_over_several_nodes_only_changed_objects_are_fetched_and_travel(tmp_path, bucket, nodes):  # noqa: F811
    three = nodes(3)
    for one in three.stage("s3://bucket/set"):
        one.done()
    fetched(tmp_path)
    put(bucket, "d/b c", b"other")
    found = [one.done() for one in three.stage("s3://bucket/set")]
    assert fetched(tmp_path) == ["d/b c"]
    assert [one["copied"] for one in found] == [5] * 3
    assert all(contents(three.data(number)) == contents(bucket) for number in range(3))


def test_a_client_without_etags_and_directories_give_no_states():
    assert objects.states(objects.parse("rclone", "", "  5 2026-11-26 01:02:03.0 a\n")) == {}
    lines = "2026 1 e 5 a\n2026 1 e 0 d/\n"
    assert objects.states(objects.parse("s5cmd", "", lines)) == {}
    assert list(objects.states(objects.parse("s5cmd", "", lines.splitlines()[0]))) == [b"a"]


def test_keys_are_quoted_for_each_client():
    words, given = keys.fetching("s5cmd", "b/set", "/to", ["it's *"])
    assert given == """cp --raw 's3://b/set/it'"'"'s *' '/to/it'"'"'s *'\n"""
    words, given = keys.fetching("aws", "b/set", "/to", ["a[1]*?"])
    assert words[-2:] == ["--include", "a[[]1][*][?]"]
    assert keys.fetching("aws", "b/set", "/to", ["k" * 100] * 1000) is None
    assert keys.fetching("rclone", "b/set", "/to", ["k"]) is None


def test_large_objects_come_first_and_the_others_in_batches(monkeypatch):
    monkeypatch.setattr(keys, "LARGE", 100)
    monkeypatch.setattr(keys, "BATCH", 30)
    monkeypatch.setattr(keys, "BATCH_OBJECTS", 3)
    sizes = [10, 20, 100, 10, 50, 0, 0, 0, 0, 500]
    found = [objects.Object(f"k{number}", size, "", "") for number, size in enumerate(sizes)]
    batches = [[one.size for one in batch] for batch in keys.batches(found)]
    assert batches == [[100, 500], [10, 20], [10], [50], [0, 0, 0], [0]]
    assert list(keys.batches([])) == []
