"""Check and read paths given by a user or a record: without exceptions for odd paths, and without blocking on pipes."""

from __future__ import annotations

import errno
import io
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dlrun import resources
from dlrun.errors import Invalid
from dlrun.model.keys import from_home
from dlrun.system.writing import replace


def expanded(name: str) -> Path:
    """Expand `~` and `$HOME`; `~NAME` of an unknown user stays as it is (Path.expanduser would raise RuntimeError)."""
    return Path(os.path.expanduser(from_home(name)))  # noqa: PTH111


def home() -> Path | None:
    """The user's home directory: an absolute `$HOME`, else that of the user database; None without one."""
    named = os.environ.get("HOME", "")
    if not named.startswith("/"):
        with suppress(KeyError):
            named = pwd.getpwuid(os.getuid()).pw_dir
    return Path(named) if named.startswith("/") else None


NO_HOME = Path(os.devnull)
"""A home directory with nothing in it, for a user who has none."""


def working_directory() -> Path:
    """The working directory; raises Invalid if it was deleted or cannot be read."""
    try:
        return Path.cwd()
    except OSError as error:
        raise no_working_directory(error) from None


def no_working_directory(error: OSError) -> Invalid:
    """The error for a working directory that was deleted, as scratch directories are, or cannot be read."""
    gone = isinstance(error, FileNotFoundError)
    why = "does not exist any more" if gone else f"cannot be read: {(error.strerror or str(error)).lower()}"
    return Invalid(f"the working directory {why}", help="`cd` to a directory that you can read")


def xdg_directory(variable: str, below_home: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """`$VARIABLE/dlrun`, else `~/BELOW_HOME/dlrun`, for one of the XDG variables; None without a home directory.

    Relative values are ignored (XDG Base Directory Specification).
    """
    named = environment.get(variable, "")
    if named.startswith("/"):
        return Path(named) / "dlrun"
    base = home()
    return base / below_home / "dlrun" if base is not None else None


def jobs_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The base of job directories: `$DLRUN_JOBS`, else `jobs` in the user's state; raises Invalid without a home directory."""
    if named := environment.get("DLRUN_JOBS"):
        return expanded(named)
    state = xdg_directory("XDG_STATE_HOME", ".local/state", environment)
    if state is None:
        raise Invalid(
            "you have no home directory for the directories of jobs", help="set `DLRUN_JOBS` to a directory"
        )
    return state / "jobs"


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


def text_of(path: Path, most: int, errors: str = "replace") -> str:
    """A regular file's text; empty if it cannot be read, or has more than `most` bytes."""
    try:
        return read_bytes(path, most).decode("utf-8", errors)
    except OSError:
        return ""


def runnable(program: Path, below: Path) -> Path:
    """The path of a program for another interpreter: itself, or for one inside `dlrun.pyz` a copy in a private directory.

    Raises OSError if the copy cannot be written.
    """
    inside = resources.packed(program)
    if inside is None:
        return program
    copy = below / program.name
    replace(copy, inside, mode=0o600)
    return copy


@contextmanager
def runnable_meanwhile(program: Path) -> Iterator[Path]:
    """The path of such a program within the block, where no job directory has room for a copy; raises OSError."""
    if resources.packed(program) is None:
        yield program
        return
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - only `dlrun.pyz` has use for it

    with TemporaryDirectory(prefix="dlrun-") as directory:
        yield runnable(program, Path(directory))
