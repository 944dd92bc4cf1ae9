"""Check and read paths given by a user or a record: without exceptions for odd paths, and without blocking on pipes."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import BinaryIO

from dlrun import resources
from dlrun.errors import Invalid
from dlrun.model.keys import from_home


def expanded(name: str) -> Path:
    """Expand `~` and `$HOME`; `~NAME` of an unknown user stays as it is (Path.expanduser would raise RuntimeError)."""
    return Path(os.path.expanduser(from_home(name)))  # noqa: PTH111


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory of the user's records: `$XDG_STATE_HOME/dlrun` (XDG Base Directory Specification)."""
    return Path(environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "dlrun"  # noqa: PTH111


def cache_home() -> Path:
    """The directory of the user's cache: `$XDG_CACHE_HOME/dlrun`."""
    # os.path.expanduser: without a home directory Path.expanduser would raise RuntimeError.
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "dlrun"  # noqa: PTH111


def jobs_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The base of job directories: `$DLRUN_JOBS`, else `jobs` in `state_home`."""
    if given := environment.get("DLRUN_JOBS"):
        return Path(given).expanduser()
    return state_home(environment) / "jobs"


@contextmanager
def working_in(directory: Path, what: str) -> Iterator[None]:
    """Work in the directory where something (`what`) was started, for relative paths; raises Invalid."""
    with ExitStack() as stack:
        try:
            stack.enter_context(chdir(directory))
        except OSError as error:
            raise Invalid(
                f"`{directory}`, where {what} was started, cannot be entered: {error.strerror}"
            ) from None
        yield


def fault(path: Path, *, directory: bool | None = None) -> str | None:
    """The reason why a path cannot be used (`does not exist`, `cannot be read: …`), or None.

    directory: also require a directory (True) or a regular file (False).
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
    """Open a regular file for reading; raises OSError for anything else, without waiting.

    Paths in /dev and /proc are opened in any case, for the shell's `dlrun plan <(generate)`.
    """
    inside = resources.packed(path)
    if inside is not None:
        return io.BytesIO(inside)
    if str(path).startswith(("/dev/", "/proc/")):
        return path.open("rb")
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_bytes(path: Path, most: int) -> bytes:
    """A regular file's content; raises OSError, also if it has more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
    return data


def runnable(program: Path) -> Path:
    """The path of a program for another interpreter: itself, or for one inside `dlrun.pyz` a copy in the user's cache.

    Raises OSError if the copy cannot be written.
    """
    inside = resources.packed(program)
    if inside is None:
        return program
    from hashlib import sha256  # noqa: PLC0415 - OpenSSL, which few commands need

    directory = cache_home() / f"program-{sha256(inside).hexdigest()[:16]}"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy = directory / program.name
    try:
        own = copy.stat().st_uid == os.getuid() and copy.read_bytes() == inside
    except OSError:
        own = False
    if not own:
        # Renamed into place: another dlrun may run the copy at the same time.
        part = copy.with_name(f".{copy.name}.{os.getpid()}")
        part.write_bytes(inside)
        part.rename(copy)
    return copy
