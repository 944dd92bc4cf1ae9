"""Small files in the user's cache, for results that are slow to compute.

A damaged file counts as missing, and a failure to write is ignored. The content may be code: it is read and written only in a
directory that no other user can change.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dlrun.system.private import cache_directory
from dlrun.system.writing import replace


def path_of(kind: str, key: object) -> Path | None:
    """The path of a cached file of a kind, None without a cache; key: such as the versions and times of its sources."""
    directory = cache_directory()
    return directory and directory / f"{kind}-{sha256(repr(key).encode()).hexdigest()[:12]}"


def read(path: Path | None) -> bytes | None:
    """The content of a cached file; None if it is missing, damaged or another user's, or without a cache."""
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            own = os.fstat(stream.fileno()).st_uid == os.getuid()
            digest, data = stream.read(sha256().digest_size), stream.read()
    except OSError:
        return None
    return data if own and digest == sha256(data).digest() else None


def write(path: Path | None, data: bytes) -> None:
    """Write a file atomically, with its digest; nothing without a cache."""
    if path is None:
        return
    # The digest detects files cut off by a full disk or a quota: compiled code must not be loaded from them.
    with suppress(OSError):
        replace(path, sha256(data).digest() + data, flush=False)
