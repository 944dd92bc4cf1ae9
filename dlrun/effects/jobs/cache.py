"""Small files in the user's cache, for results that are slow to compute.

A damaged file counts as missing, and a failure to write is ignored.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dlrun.effects.paths import cache_home


def path_of(kind: str, key: object) -> Path:
    """The path of a cached file of a kind; key: such as the versions and times of its sources."""
    return cache_home() / f"{kind}-{sha256(repr(key).encode()).hexdigest()[:12]}"


def read(path: Path) -> bytes | None:
    """The content of a cached file; None if it is missing, damaged, or another user's."""
    try:
        with path.open("rb") as stream:
            own = os.fstat(stream.fileno()).st_uid == os.getuid()
            digest, data = stream.read(sha256().digest_size), stream.read()
    except OSError:
        return None
    return data if own and digest == sha256(data).digest() else None


def write(path: Path, data: bytes) -> None:
    """Write a file atomically, with its digest; new directories get mode 0700."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The digest detects files cut off by a full disk or a quota: compiled code must not be loaded from them.
        temporary.write_bytes(sha256(data).digest() + data)
        temporary.rename(path)
