"""Hashes of the copied data: XXH3 where the node has xxHash, else SHA-1 from the standard library.

xxHash is found as a Python package, as the system's library (a dependency of rsync and apt, so on nearly every node), or
as the library of the submit host (the system's, else that of the package xxhash), which a job carries next to `node.pyz`.
Every Python has SHA-1. On one core with SHA instructions XXH3 hashed 18.4 GB/s, CRC-32 6.2, SHA-1 1.9, SHA-256 1.8,
BLAKE2b 1.3. CRC-32 detects every error of up to 32 neighbouring bits, and misses one in 4 billion of the others;
`--hash crc32` selects it.

Hashes detect corruption, not attacks: anyone who can change the data can change the manifest next to it. Of hashlib's
functions SHA-1 is as fast as any on processors with SHA instructions, and about twice as fast as the next one on those
without (840 MB/s on one core; BLAKE2b and MD5 500, SHA-256 370). The choice does not depend on a measurement: a published
set is reused only if it has the same hash function.

A file of up to 4 MiB has one hash; a larger file has one hash per chunk, so that several processes can work on one file
and a part of it can be checked.
"""

import ctypes
import os
import sys
import zlib
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from ..common.errors import Usage

Buffer = Union[bytes, bytearray, memoryview]


class Hasher(NamedTuple):
    """A hash function: its name in manifests, the size of a digest in bytes, and the function buffer -> digest."""

    name: str
    size: int
    digest: Callable[[Buffer], bytes]


def _crc32(data: Buffer) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _none(_data: Buffer) -> bytes:
    return b""


def _built_in() -> Dict[str, Hasher]:
    """The hash functions of the standard library by name, the default first."""
    import hashlib  # only here: it loads OpenSSL, and nodes with xxHash mostly need none of these

    def sha1(data: Buffer) -> bytes:
        return hashlib.sha1(data).digest()  # noqa: S324 - see above

    def sha256(data: Buffer) -> bytes:
        return hashlib.sha256(data).digest()

    hashers = {"sha1": Hasher("sha1", 20, sha1)}
    try:
        sha1(b"")
    except ValueError:  # the system is in FIPS mode, which may forbid SHA-1
        del hashers["sha1"]
    hashers.update(sha256=Hasher("sha256", 32, sha256), crc32=Hasher("crc32", 4, _crc32))
    return dict(hashers, none=Hasher("none", 0, _none))


_LIBRARY = "libxxhash.so.0"
_SAMPLE = bytes(range(256)) * 4
# The values of XXH3 are stable since xxHash 0.8; a library that computes others is not used.
_KNOWN_DIGESTS = {b"": "99aa06d3014798d86001c324468d497f", _SAMPLE: "83885e853bb6640ca870f92984398d22"}


class _Digest128(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def _from_library() -> Optional[Callable[[Buffer], bytes]]:
    """XXH3 of the system's library or of the one next to `node.pyz`; digests as in the Python package (big-endian)."""
    for name in (_LIBRARY, os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), _LIBRARY)):
        digest = _usable_xxh3(name)
        if digest is not None:
            return digest
    return None


def _load(name: str) -> ctypes.CDLL:
    """A shared library; raises OSError if there is none."""
    # The library that a job carries may be the module of the package for the submit host's Python, and refer to functions
    # that this Python does not have. None of them is called here, but ctypes would resolve all of them at once.
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype, dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    handle = dlopen(os.fsencode(name), os.RTLD_LAZY)
    if not handle:
        raise OSError("cannot load " + name)
    return ctypes.CDLL(name, handle=handle)


def _usable_xxh3(name: str) -> Optional[Callable[[Buffer], bytes]]:
    """XXH3 of one library; None if it is missing, built for another processor, or too old (other digests)."""
    try:
        function = _load(name).XXH3_128bits
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = _Digest128, [ctypes.c_void_p, ctypes.c_size_t]

    def digest(data: Buffer) -> bytes:
        if isinstance(data, bytes):
            halves = function(data, len(data))
        elif not len(data) or (isinstance(data, memoryview) and data.readonly):
            halves = function(bytes(data), len(data))
        # Without a copy; ctypes releases the interpreter lock during the call.
        else:
            halves = function(ctypes.addressof(ctypes.c_char.from_buffer(data)), len(data))
        return bytes(halves.high.to_bytes(8, "big") + halves.low.to_bytes(8, "big"))

    return digest if all(digest(data).hex() == known for data, known in _KNOWN_DIGESTS.items()) else None


_xxh3_digest: List[Optional[Callable[[Buffer], bytes]]] = []


def _xxh3() -> List[Hasher]:
    if not _xxh3_digest:
        try:
            import xxhash
        except ImportError:
            _xxh3_digest.append(_from_library())
        else:
            # The package has no XXH3 before version 2.0.
            _xxh3_digest.append(getattr(xxhash, "xxh3_128_digest", None) or _from_library())
    return [Hasher("xxh3", 16, digest) for digest in _xxh3_digest if digest is not None]


def usable() -> List[str]:
    """The names of the hash functions of this node, the default (`auto`) first."""
    return [h.name for h in _xxh3()] + list(_built_in())


def hasher(name: str) -> Hasher:
    """The hash function of a name or `auto`; raises Usage if the node does not have it."""
    if name in ("auto", "xxh3"):
        hashers = _xxh3()
        if hashers:
            return hashers[0]
        if name == "xxh3":
            raise Usage(
                "this node has no xxHash",
                "use `--hash auto`, or install libxxhash (or the Python package xxhash)",
            )
    built_in = _built_in()
    name = next(iter(built_in)) if name == "auto" else name
    if name in built_in:
        return built_in[name]
    raise Usage("unknown hash `{}`".format(name), "one of auto, {}".format(", ".join(usable())))
