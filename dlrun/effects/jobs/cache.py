"""Small files in the user's cache, of what takes long to make.

They are a convenience: whatever is wrong with one, it counts as not there, and where it cannot be written, nothing
is kept.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path


def place(kind: str, made_of: object) -> Path:
    """The file for one kind of thing, one for each `made_of`, such as the versions of what makes it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - a missing home is not an error
    return base / "dlrun" / f"{kind}-{sha256(repr(made_of).encode()).hexdigest()[:12]}"


def read(path: Path) -> bytes | None:
    """What `write` wrote; None if there is nothing, if it is another user's, or not what was written."""
    try:
        with path.open("rb") as stream:
            own = os.fstat(stream.fileno()).st_uid == os.getuid()
            digest, data = stream.read(sha256().digest_size), stream.read()
    except OSError:
        return None
    return data if own and digest == sha256(data).digest() else None


def write(path: Path, data: bytes) -> None:
    """Keep it, in one step; a directory that has to be made is the user's alone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_bytes(sha256(data).digest() + data)
        temporary.rename(path)
