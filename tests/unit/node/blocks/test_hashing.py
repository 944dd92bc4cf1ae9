"""The hash functions that a node may have."""

import ctypes
import hashlib
import mmap
import sys

import pytest
from dlrun.effects.jobs.files import _hash_library
from dlrun.node.blocks import hashing
from dlrun.node.common.errors import Usage

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
            return hashing._Halves(1, 2)

    monkeypatch.setattr(Other, "XXH3_128bits", type("F", (), {"__call__": Other.XXH3_128bits})())
    monkeypatch.setattr(ctypes, "CDLL", Other)
    assert hashing._from_library() is None


def test_the_library_of_the_submitting_host_is_used_where_the_system_has_none(monkeypatch, tmp_path, library):
    real = ctypes.CDLL
    carried = tmp_path / "libxxhash.so.0"

    def load(name):
        if name == carried.name:
            raise OSError(name)
        return real(name)

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "node.pyz")])
    assert hashing._from_library() is None
    carried.write_bytes(b"for another processor")
    assert hashing._from_library() is None
    made = _hash_library()
    assert list(made) == [carried.name]
    carried.unlink()
    carried.write_bytes(made[carried.name].encode("utf-8", errors="surrogateescape"))
    assert hashing._from_library()(b"a").hex() == KNOWN[b"a"]


def test_without_xxhash_it_is_sha1(monkeypatch):
    monkeypatch.setattr(hashing, "_found", [None])
    assert hashing.hasher("auto").digest(b"x") == hashlib.sha1(b"x").digest()
    with pytest.raises(Usage, match="no xxHash"):
        hashing.hasher("xxh3")
