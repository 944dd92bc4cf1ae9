"""What a set contains is proved by its publisher's checksums, and named by a digest that `sha256sum` makes, too."""

import hashlib
import os
import subprocess

import pytest

from tests.unit.node.programs import run
from tests.unit.node.relay.test_chain import nodes  # noqa: F401 - a fixture
from tests.unit.node.trees import write

FILES = {
    "a": b"one",
    "b/c": b"two" * 3_000_000,
    "b/d": b"",
    "b/e f": b"x" * 5000,
    "line\nbreak": b"n",
    "back\\slash": b"b",
}


@pytest.fixture
def source(tmp_path):
    for name, content in FILES.items():
        write(os.fsencode(tmp_path / "source" / name), content)
    os.link(tmp_path / "source/a", tmp_path / "source/hard")
    os.symlink("a", tmp_path / "source/link")
    return tmp_path / "source"


def shell(line, source):
    return subprocess.run(["bash", "-c", line], cwd=source, capture_output=True, check=True).stdout


def digest_of(source):
    line = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    return "sha256:" + shell(line, source).decode().split()[0]


def stage(tmp_path, source, *more):
    return run("stage", "--source", source, "--to", tmp_path / "to", "--name", "set", "--json", *more)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("strategy", ["copy", "pack"])
def test_the_digest_is_that_of_sha256sum_and_can_be_pinned(tmp_path, source, strategy):
    strategy = ("--strategy", strategy)
    assert stage(tmp_path, source, "--version", "compute", *strategy).done()["digest"] == digest_of(source)
    again = stage(tmp_path, source, "--version", digest_of(source), *strategy).done()
    assert again["how"] == "warm"
    assert again["digest"] == digest_of(source)
    other = "sha256:" + "0" * 64
    refused = stage(tmp_path, source, "--version", other, *strategy)
    assert refused.status == 1
    assert f"the data set is {digest_of(source)}, not {other}" in refused.err


def test_a_copy_that_was_not_proved_is_proved_when_that_is_asked(tmp_path, source):
    assert "digest" not in stage(tmp_path, source).done()
    found = stage(tmp_path, source, "--version", "compute").done()
    assert (found["how"], found["digest"]) == ("warm", digest_of(source))


@pytest.mark.slow
@pytest.mark.each_python
def test_a_changed_source_is_not_published_under_a_pinned_version(tmp_path, source):
    pinned = digest_of(source)
    stage(tmp_path, source, "--version", pinned).done()
    write(os.fsencode(source / "a"), b"new", mtime=10**18)
    refused = stage(tmp_path, source, "--version", pinned)
    assert refused.status == 1
    assert "the source has changed" in refused.err
    assert (tmp_path / "to/set/data/a").read_bytes() == b"one"


SUMS = {
    "sha256sum": "sha256sum a b/c b/d 'b/e f' line* back* hard",
    "with dots": "find . -type f -exec sha256sum {} +",
    "binary": "find . -type f -exec sha256sum -b {} +",
    "BSD's form": "find . -type f -exec sha256sum --tag {} +",
    "md5sum": "find . -type f -exec md5sum {} +",
    "sha512sum": "find . -type f -exec sha512sum {} +",
    "some of the files": "echo '# comment'; echo; sha1sum a b/c",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("strategy", ["copy", "pack"])
def test_checksums(tmp_path, source, line, strategy):
    sums = tmp_path / "SUMS"
    sums.write_bytes(shell(line, source))
    more = ("--checksums", sums, "--strategy", strategy)
    found = stage(tmp_path, source, *more).done()
    assert any("as in the checksums" in note for note in found["notes"])
    assert stage(tmp_path, source, *more).done()["how"] == "warm"
    content = bytearray(FILES["b/c"])
    content[5_000_000] ^= 1
    write(os.fsencode(source / "b/c"), bytes(content), mtime=10**18)
    refused = stage(tmp_path, source, *more)
    assert refused.status == 1
    assert "1 file differs from the given checksum: `b/c`" in refused.err


@pytest.mark.slow
def test_checksums_in_the_set_and_of_one_file(tmp_path, source):
    (source / "SHA256SUMS").write_bytes(shell("sha256sum a b/c", source))
    notes = stage(tmp_path, source, "--checksums", "SHA256SUMS").done()["notes"]
    assert any(note.startswith("2 files as in the checksums, 6 without a") for note in notes)
    one = "sha256:" + hashlib.sha256(b"one").hexdigest()
    assert (
        run(
            "stage", "--source", source / "a", "--to", tmp_path / "to", "--name", "o", "--checksums", one
        ).status
        == 0
    )
    wrong = run(
        "stage", "--source", source / "b/c", "--to", tmp_path / "to", "--name", "p", "--checksums", one
    )
    assert "1 file differs" in wrong.err
    assert not (tmp_path / "to/p").exists()
    several = stage(tmp_path, source, "--checksums", one)
    assert "one checksum is given for 7 files" in several.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "are empty"), (b"nonsense", "line 1"), (b"abc  a\n", "line 1"), (b"0" * 64 + b"  none\n", "not in the data set"),
     (b"0" * 32 + b"  a\n" + b"1" * 32 + b"  a\n", "two hashes")],
)  # fmt: skip
def test_checksums_that_cannot_be_used(tmp_path, source, content, said):
    (tmp_path / "SUMS").write_bytes(content)
    refused = stage(tmp_path, source, "--checksums", tmp_path / "SUMS")
    assert refused.status == 1
    assert said in refused.err
    assert "cannot be read" in stage(tmp_path, source, "--checksums", "/nowhere/SUMS").err
    assert "no such file" in stage(tmp_path, source, "--checksums", "NONE").err


@pytest.mark.slow
@pytest.mark.each_python
def test_all_nodes_prove_their_copies(tmp_path, source, nodes):  # noqa: F811 - a fixture
    group = nodes(3)
    for result in group.stage(source, "--version", "compute"):
        assert result.done()["digest"] == digest_of(source)
