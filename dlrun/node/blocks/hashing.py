"""The hash of every byte that is moved: xxh3 where the node has xxhash, else sha1 from the standard library.

It finds accidents, not attacks: who may change the data may change the manifest beside it. Of hashlib's functions
SHA-1 is as fast as any on processors with SHA instructions and about twice as fast as the next on those without
(840 MB a second of one core; BLAKE2b and MD5 500, SHA-256 370). The choice must not depend on a measurement: a set
is only warm when it has the same hash.

A file of one block has the hash of its bytes; a file cut into chunks has the hash of its chunks' hashes, so
that several processes can work on one file and a part of it can be checked.
"""

import hashlib
import zlib
from typing import Callable, Dict, List, NamedTuple, Union

from ..common.errors import Usage

Buffer = Union[bytes, bytearray, memoryview]


class Hasher(NamedTuple):
    """A hash function: its name in manifests, the bytes of a digest, and buffer -> digest."""

    name: str
    size: int
    digest: Callable[[Buffer], bytes]


def _sha1(data: Buffer) -> bytes:
    return hashlib.sha1(data).digest()  # noqa: S324 - see above


def _sha256(data: Buffer) -> bytes:
    return hashlib.sha256(data).digest()


def _crc32(data: Buffer) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _none(_data: Buffer) -> bytes:
    return b""


_BUILT_IN: Dict[str, Hasher] = {
    "sha256": Hasher("sha256", 32, _sha256),
    "crc32": Hasher("crc32", 4, _crc32),
    "none": Hasher("none", 0, _none),
}


def _has_sha1() -> bool:
    try:
        hashlib.sha1()  # noqa: S324 - see above
    except ValueError:  # a system that allows only what FIPS lists
        return False
    return True


if _has_sha1():
    _BUILT_IN = dict({"sha1": Hasher("sha1", 20, _sha1)}, **_BUILT_IN)


def _xxh3() -> List[Hasher]:
    try:
        import xxhash
    except ImportError:
        return []
    if not hasattr(xxhash, "xxh3_128_digest"):  # xxhash before 2.0
        return []
    return [Hasher("xxh3", 16, xxhash.xxh3_128_digest)]


def usable() -> List[str]:
    """The names that this node can compute, the one `auto` takes first."""
    return [h.name for h in _xxh3()] + list(_BUILT_IN)


def hasher(name: str) -> Hasher:
    """The hash function of a name or `auto`; Usage when this node has it not."""
    name = usable()[0] if name == "auto" else name
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if name == "xxh3":
        found = _xxh3()
        if found:
            return found[0]
        raise Usage("this Python has no `xxhash` package", "use `--hash sha256`, or install xxhash")
    message = "unknown hash `{}`".format(name)
    raise Usage(message, "one of auto, {}".format(", ".join(usable())))
