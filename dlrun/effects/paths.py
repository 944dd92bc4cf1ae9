"""Look at paths that a user or a record names: whatever they are, an answer and no exception comes, and at once."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from dlrun import resources
from dlrun.model.keys import from_home


def expanded(name: str) -> Path:
    """A path with `~` and `$HOME` as the shell expands them; an unknown user's stays (Path.expanduser raises RuntimeError)."""
    return Path(os.path.expanduser(from_home(name)))  # noqa: PTH111


def fault(path: Path, *, directory: bool | None = None) -> str | None:
    """What keeps a path from being used (`does not exist`, `cannot be read: …`), None if nothing does.

    With `directory`, also what is not one (True), or is not a regular file (False).
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    except ValueError:  # a NUL
        return "is not a path"
    if directory is not None and (stat.S_ISDIR if directory else stat.S_ISREG)(mode) is False:
        return f"is not a {'directory' if directory else 'regular file'}"
    return None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; OSError at once for anything else.

    What the shell itself hands over, as in `dlrun plan <(generate)`, is read all the same.
    """
    inside = resources.packed(path)
    if inside is not None:
        return io.BytesIO(inside)
    if str(path).startswith(("/dev/", "/proc/")):
        return path.open("rb")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory")
    raise OSError(22, "it is not a regular file")


def read_bytes(path: Path, most: int) -> bytes:
    """A regular file's content; OSError also if it is larger than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(27, f"it has more than {most >> 20} MiB")
    return data


def runnable(program: Path) -> Path:
    """A file that another interpreter can run: the program itself; of one inside `dlrun.pyz`, a copy in the user's cache.

    Raises OSError if none can be written.
    """
    inside = resources.packed(program)
    if inside is None:
        return program
    from hashlib import sha256  # noqa: PLC0415 - OpenSSL, which few commands need

    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    place = base / "dlrun" / f"program-{sha256(inside).hexdigest()[:16]}"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy = place / program.name
    try:
        own = copy.stat().st_uid == os.getuid() and copy.read_bytes() == inside
    except OSError:
        own = False
    if not own:
        part = copy.with_name(f".{copy.name}.{os.getpid()}")
        part.write_bytes(inside)
        part.rename(copy)
    return copy
