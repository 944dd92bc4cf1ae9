"""The one writer of files: a file is complete or as it was, and is never written through a link.

A process that is killed at any moment, or a full disk, leaves the old file or the new one, never a part: the content is
written to a hidden file beside it, flushed to the disk, and renamed. `tests/test_house.py` rejects writing elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dlrun.errors import DlrunError, Invalid, OperationFailed

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST = 16 << 20
"""Bytes of a user's file that is edited."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""Errors of link(2) on file systems without hard links, such as FAT and some FUSE file systems."""


def replace(
    path: Path,
    data: bytes | str,
    *,
    before: os.stat_result | None = None,
    mode: int | None = None,
    flush: bool = True,
    temporary_name: str | None = None,
) -> None:
    """Write a file, new or in place of an existing one, whose mode is kept.

    before: what `status` returned when the content was read: a file that has changed since is not replaced; mode: that of a
    new file, default: by the umask; flush: for what cannot be made again; temporary_name: of the hidden file, which a kill
    leaves. Raises OSError, also for a link, a file that this user may not write, and such a change.
    """
    seen = status(path)
    if seen is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    kept = mode if seen is None else stat.S_IMODE(seen.st_mode)
    with _complete(path, data, kept, flush, temporary_name) as (temporary, own):
        if seen is not None and (seen.st_uid, seen.st_gid) != (own.st_uid, own.st_gid):
            with suppress(OSError):  # only root, or for a group that this user is in
                os.chown(temporary, seen.st_uid, seen.st_gid)
        if before is not None and _mark(before) != _mark(status(path)):
            raise OSError(errno.EBUSY, "another program changed it meanwhile")
        temporary.replace(path)


def create(
    path: Path, data: bytes | str, *, mode: int | None = None, temporary_name: str | None = None
) -> None:
    """Write a file that must not exist; raises FileExistsError, also for a link, or OSError.

    temporary_name: as for `replace`.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with _complete(path, data, mode, name=temporary_name) as (temporary, _):
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # The name is taken with an empty file: rename(2) alone would replace what has appeared meanwhile.
            os.close(os.open(path, _NEW, 0o600))
            temporary.replace(path)


def write_below(directory: Path, name: str, data: bytes | str, *, mode: int = 0o600) -> Path:
    """Write a new file of a directory that is not in use yet, and directories in between, without flushing; returns its path."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _fill(path, data, mode, flush=False)
    return path


def append_to(path: Path) -> BinaryIO:
    """A log of dlrun's, made with mode 0600 if missing, for writing at its end; raises OSError, also for a link."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "a+b")


def status(path: Path) -> os.stat_result | None:
    """The status of a regular file, None if it does not exist; raises OSError for a link and anything else."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(seen.st_mode):
        raise OSError(errno.ELOOP, f"it is a symbolic link to `{path.readlink()}`; name the file itself")
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if not stat.S_ISREG(seen.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return seen


def write_output(path: Path, data: bytes | str, *, force: bool, error: type[DlrunError] = Invalid) -> None:
    """Write the result of a command to a file that the user named: `-o FILE`.

    Without `force` nothing that exists is replaced. Files in /dev and /proc, such as `/dev/stdout` and a shell's
    `>(program)`, and named pipes take the content as they are. Raises `error` if the file exists, OperationFailed if it cannot
    be written.
    """
    try:
        if _is_stream(path):
            with path.open("ab") as stream:
                stream.write(_bytes(data))
        elif force:
            replace(path, data)
        else:
            create(path, data)
    except FileExistsError:
        raise error(
            f"`{path}` already exists", help="name another file, or replace it with `--force`"
        ) from None
    except (OSError, ValueError) as fault:
        raise OperationFailed(cannot_write(path, fault)) from None


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise Invalid for an output file that `write_output` would refuse, before the work for it."""
    if not force and os.path.lexists(path) and not _is_stream(path):
        raise Invalid(f"`{path}` already exists", help="name another file, or replace it with `--force`")


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change a text file of the user's, unless another program changes it at the same time.

    Raises ValueError as `change` does, OperationFailed if the file cannot be read or written.
    """
    try:
        before = status(path)
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST >> 20} MiB")  # noqa: TRY301 - as the others
        replace(path, change(content.decode("utf-8")).encode("utf-8"), before=before)
    except OSError as error:
        raise OperationFailed(cannot_write(path, error)) from None


def cannot_write(path: Path, fault: OSError | ValueError) -> str:
    """The message for a file that cannot be written."""
    reason = getattr(fault, "strerror", None) or str(fault)
    return f"cannot write `{path}`: {reason[:1].lower()}{reason[1:]}"


def _is_stream(path: Path) -> bool:
    if str(path).startswith(("/dev/", "/proc/")):
        return True
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def _complete(
    path: Path, data: bytes | str, mode: int | None, flush: bool = True, name: str | None = None
) -> Iterator[tuple[Path, os.stat_result]]:
    """A hidden file beside `path` with the whole content; removed at the end, unless it was renamed."""
    # Not named after `path`, whose name may be as long as the file system allows.
    temporary = path.with_name(name or f".dlrun-{os.urandom(6).hex()}.new")
    try:
        yield temporary, _fill(temporary, data, mode, flush=flush)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _fill(path: Path, data: bytes | str, mode: int | None, *, flush: bool) -> os.stat_result:
    descriptor = os.open(path, _NEW, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        content = memoryview(_bytes(data))
        while content:
            content = content[file.write(content) :]
        if mode is not None:
            os.fchmod(descriptor, mode)
        if flush:
            os.fsync(descriptor)  # a full disk of a file server is often reported only here
        return os.fstat(descriptor)


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")


def _mark(seen: os.stat_result | None) -> tuple[int, ...] | None:
    return None if seen is None else (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
