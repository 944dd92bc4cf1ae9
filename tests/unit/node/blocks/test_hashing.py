"""The hash functions that a node may have."""

import hashlib
import mmap
import subprocess
import sys

import pytest
from dlrun.jobs.submission import files
from dlrun.node.blocks import hashing
from dlrun.node.common.errors import Usage

from tests import programs
from tests.unit.node.programs import ROOT

KNOWN = {
    b"": "99aa06d3014798d86001c324468d497f",
    b"a": "a96faf705af16834e6c632b61e964e1f",
}
"""XXH3, 128 bits, as `xxhsum -H2` prints it."""


@pytest.fixture
def library():
    found = hashing._from_library()
    if found is None:
        pytest.skip("this machine has no libxxhash")
    return found


@pytest.mark.parametrize("text", KNOWN)
def test_the_systems_library_gives_what_xxhash_gives(library, text):
    assert library(text).hex() == KNOWN[text]


@pytest.mark.parametrize("size", [0, 1, 240, 241, 5000])
def test_it_is_the_same_for_every_kind_of_buffer(library, size):
    memory = memoryview(mmap.mmap(-1, 8192))[:size]
    memory[:] = bytes(k % 251 for k in range(size))
    data = bytes(memory)
    assert library(data) == library(memory) == library(bytearray(data)) == library(memoryview(data))


def test_a_library_that_computes_something_else_is_not_used(monkeypatch):
    class Other:
        def __init__(self, name):
            assert name.endswith("libxxhash.so.0")

        def XXH3_128bits(self, data, size):  # noqa: N802
            return hashing._Digest128(1, 2)

    monkeypatch.setattr(Other, "XXH3_128bits", type("F", (), {"__call__": Other.XXH3_128bits})())
    monkeypatch.setattr(hashing, "_load", Other)
    assert hashing._from_library() is None


CARRIED = {"the system's library": None, "the library in the package xxhash": ()}


@pytest.fixture(params=CARRIED.values(), ids=CARRIED.keys())
def carried(request, monkeypatch, tmp_path, library):
    """The library that a job directory has, before it is there."""
    if request.param is not None:
        monkeypatch.setattr(files, "_SYSTEM", request.param)
    made = files._hash_library()
    assert list(made) == ["libxxhash.so.0"]
    return tmp_path / "libxxhash.so.0", made["libxxhash.so.0"].encode("utf-8", errors="surrogateescape")


def test_the_library_of_the_submitting_host_is_used_where_the_system_has_none(monkeypatch, tmp_path, carried):
    path, content = carried
    real = hashing._load

    def load(name):
        if name == path.name:
            raise OSError(name)
        return real(name)

    monkeypatch.setattr(hashing, "_load", load)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "node.pyz")])
    assert hashing._from_library() is None
    path.write_bytes(b"for another processor")
    assert hashing._from_library() is None
    path.unlink()
    path.write_bytes(content)
    assert hashing._from_library()(b"a").hex() == KNOWN[b"a"]


@pytest.mark.needs
@pytest.mark.parametrize("minor", [6, 8, 9, 12, 13, 14])
def test_every_python_of_a_node_can_use_it(minor, carried):
    python = programs.python(minor)
    path, content = carried
    path.write_bytes(content)
    code = "import sys; from dlrun.node.blocks import hashing; print(hashing._usable_xxh3(sys.argv[1])(b'a').hex())"
    found = subprocess.run(
        [python, "-c", code, path],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert found.stdout.strip() == KNOWN[b"a"]


def test_without_xxhash_it_is_sha1(monkeypatch):
    monkeypatch.setattr(hashing, "_xxh3_digest", [None])
    assert hashing.hasher("auto").digest(b"x") == hashlib.sha1(b"x").digest()
    with pytest.raises(Usage, match="no xxHash"):
        hashing.hasher("xxh3")
