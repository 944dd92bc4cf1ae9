"""Collect the files of the working tree for a login node, and send them with the job directory as one tar stream."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from dlrun.errors import OperationFailed
from dlrun.grouping import grouped
from dlrun.jobs.code import store
from dlrun.jobs.records import directories, ownership
from dlrun.model.data import DATE, Snapshot
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.spec import Spec
from dlrun.render.written_names import WrittenNames

FILES = "files"
"""Subdirectory of the job directory with the sent files, in which the job runs."""

SUBMISSION = ".submission"
"""Subdirectory of the job directory with the records of the submission's steps."""

COMPLETE = f"{SUBMISSION}/complete"
"""The last file of the stream: if it has the right token, all files are complete."""

_ATTEMPTS = 64
"""Attempts at one submission of which the login node's list has the links (attempts.sh)."""

_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints"})
"""Directories that are never sent: not needed by jobs, and large or volatile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file, directory (`size` None) or symbolic link to send; name: relative to `files/`."""

    name: str
    path: Path
    size: int | None
    mtime_ns: int
    mode: int
    link: str | None = None


class Collected(NamedTuple):
    """Files to send, and problems."""

    files: list[SentFile]
    problems: list[Problem]


def collect(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Collected:
    """The files of the key `files`, relative to `base`; else those of the command, and what a snapshot includes; problems."""
    problems: list[Problem] = []
    files: dict[str, SentFile] = {}
    more = spec.code.include if isinstance(spec.code, Snapshot) else ()
    named = [("files", index, name) for index, name in enumerate(spec.files or _of_command(spec, base))]
    for key, index, pattern in (*named, *(("code.include", *numbered) for numbered in enumerate(more))):
        origin = origins.get(f"{key}.{index}") or origins.get(key)
        parts = Path(pattern).parts
        if Path(pattern).is_absolute() or ".." in parts:
            message = f"`{pattern}` is outside the directory that the job is submitted from"
            problems.append(Problem(message=message, origin=origin, help="name paths below it"))
            continue
        matches = sorted(base.glob(pattern)) if any(c in pattern for c in "*?[") else [base / pattern]
        if not matches or not os.path.lexists(matches[0]):
            message = f"there is no `{pattern}` to copy"
            hint = f"names are relative to `{base}`"
            problems.append(Problem(message=message, origin=origin, help=hint))
            continue
        try:
            for match in matches:
                files.update((file.name, file) for file in _walk(match, base))
        except OSError as error:
            message = f"cannot send `{error.filename}`: {(error.strerror or str(error)).lower()}"
            problems.append(Problem(message=message, origin=origin, help="`files` may name fewer of them"))
    return Collected([files[name] for name in sorted(files)], problems)


def _of_command(spec: Spec, base: Path) -> list[str]:
    """Arguments of the command that are files on this host, such as the script."""
    if spec.directory is not None:
        return []
    words = spec.run.split() if spec.run is not None else spec.command
    names = [os.path.normpath(word) for word in words if word and not word.startswith(("-", "/"))]
    inside = (name for name in names if not name.startswith(".."))
    return [name for name in dict.fromkeys(inside) if (base / name).is_file()]


def _walk(path: Path, base: Path) -> Iterator[SentFile]:
    # Not stat: a symbolic link is sent as a link, and its target may be missing.
    seen = path.lstat()
    name = path.relative_to(base).as_posix()
    common = {"path": path, "mtime_ns": seen.st_mtime_ns, "mode": stat.S_IMODE(seen.st_mode)}
    if stat.S_ISLNK(seen.st_mode):
        yield SentFile(name=name, size=0, link=str(path.readlink()), **common)  # type: ignore[arg-type]
    elif stat.S_ISREG(seen.st_mode):
        yield SentFile(name=name, size=seen.st_size, **common)  # type: ignore[arg-type]
    elif stat.S_ISDIR(seen.st_mode) and path.name not in _LEFT_OUT:
        if name != ".":
            yield SentFile(name=name, size=None, **common)  # type: ignore[arg-type]
        for child in sorted(path.iterdir()):
            yield from _walk(child, base)


def manifest(sent: Iterable[SentFile]) -> list[list[str | int | None]]:
    """The sent files for the record: name, size, time, mode and link; a difference means another submission."""
    return [[file.name, file.size, file.mtime_ns, file.mode, file.link] for file in sent]


def keys(sent: Iterable[SentFile]) -> dict[str, str]:
    """The name of each sent file in the store of code, `ab/REST`, by its name; raises OperationFailed if one cannot be read."""
    keys_by_name = {}
    for file in sent:
        if file.size is None or file.link is not None:
            continue
        try:
            key = store.key_of(store.digest_of(file.path), file.mode)
        except OSError as error:
            raise _unreadable(file, error) from None
        keys_by_name[file.name] = f"{key[:2]}/{key[2:]}"
    return keys_by_name


def digest_in(key: str) -> str:
    """The digest in such a name."""
    return key.replace("/", "")[:64]


def seconds(mtime_ns: int) -> int:
    """The time (ns) that a sent file has on the login node: whole seconds."""
    return mtime_ns // 10**9 * 10**9


def written_list(
    texts: Mapping[str, str],
    names: WrittenNames,
    sent: Iterable[SentFile],
    place: str,
    token: str,
    tree: str = "",
) -> str:
    """The list of what dlrun writes in the job directory `place` of a login node (`ownership`); tree: of a snapshot, in it."""
    steps = [f"{SUBMISSION}/{name}" for name in ("part", "complete", "said", "given-up")]
    attempts = [(f"{SUBMISSION}/{number}", 0, None, 0, "") for number in range(1, _ATTEMPTS)]
    own = [
        (
            f"{below}/{file.name}",
            file.size,
            DATE * 10**9 if tree else seconds(file.mtime_ns),
            file.mode,
            file.link,
        )
        for file in sent
        for below in ((FILES, tree) if tree else (FILES,))
    ]
    return ownership.text(
        "job",
        place,
        token,
        files=texts,
        records=[directories.SUBMISSION, *steps, f"{FILES}/"],
        names=names,
        sent=[*attempts, *own],
    )


def write_stream(
    write: Callable[[bytes], bool],
    texts: Mapping[str, str],
    runs: Sequence[str],
    sent: Iterable[SentFile],
    token: str,
    keys: Mapping[str, str] | None = None,
    missing: frozenset[str] | None = None,
    programs: Mapping[str, str] | None = None,
) -> bool:
    """Write a job directory as a tar stream; False if the other end stopped reading.

    keys: of the files by name (`keys`); programs: of those of the texts that the store has; missing: those that the store there
    lacks, None if it cannot be used. Raises OperationFailed if a file cannot be read or changes meanwhile.
    """
    keys, programs = keys or {}, programs or {}
    try:
        with tarfile.open(
            fileobj=cast("BinaryIO", _Pipe(write)), mode="w|", format=tarfile.PAX_FORMAT
        ) as tar:
            for run in (*runs, SUBMISSION):
                tar.addfile(_entry(run, kind=tarfile.DIRTYPE, mode=0o700))
            fresh: dict[str, str] = {}
            for name, text in texts.items():
                key = programs.get(name)
                if key is not None and missing is not None and key not in missing:
                    _add_link(tar, name, f".objects/{key}")
                    continue
                _add_text(tar, name, text)
                if key is not None and missing is not None:
                    fresh.setdefault(key, name)
            laid: list[SentFile] = []
            for file in sent:
                key = keys.get(file.name)
                if key is None or missing is None or key in missing:
                    _add_file(tar, file, key)
                    if key is not None and missing is not None:
                        fresh.setdefault(key, f"{FILES}/{file.name}")
                else:
                    laid.append(file)
                    _add_link(tar, f".laid/{file.name}", f".objects/{key}")
            for key, name in fresh.items():
                _add_link(tar, f".fresh/{key}", name)
            if laid:
                _add_text(tar, ".times", _times(laid))
            # Last: with the token all files before it are complete (receive.sh).
            _add_text(tar, COMPLETE, token)
    except _StoppedReading:
        return False
    return True


def _times(laid: Iterable[SentFile]) -> str:
    """The time of files, `@SECONDS`, and their names, each followed by NUL."""
    by_time = grouped((file.mtime_ns // 10**9, f"{FILES}/{file.name}") for file in laid)
    return "".join(f"{item}\0" for time, names in by_time.items() for item in (f"@{time}", *names))


class _StoppedReading(Exception):
    """The other end stopped reading."""


class _Pipe:
    """A file object over a write function, for tarfile."""

    def __init__(self, write: Callable[[bytes], bool]) -> None:
        self._write = write

    def write(self, data: bytes) -> int:
        """Pass data on; raises _StoppedReading."""
        if not self._write(data):
            raise _StoppedReading
        return len(data)


def _entry(
    name: str, *, kind: bytes = tarfile.REGTYPE, mode: int, mtime_ns: int | None = None, size: int = 0
) -> tarfile.TarInfo:
    """A tar header; its time is in whole seconds, as files of the store get it."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size = kind, mode, size
    info.mtime = (time.time_ns() if mtime_ns is None else mtime_ns) // 10**9
    return info


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", errors="surrogateescape")
    mode = 0o700 if name.endswith(".sh") else 0o600
    tar.addfile(_entry(name, mode=mode, size=len(data)), io.BytesIO(data))


def _add_link(tar: tarfile.TarFile, name: str, to: str) -> None:
    """A hard link to another file of the directory."""
    info = _entry(name, kind=tarfile.LNKTYPE, mode=0o600)
    info.linkname = to
    tar.addfile(info)


def _add_file(tar: tarfile.TarFile, sent_file: SentFile, key: str | None) -> None:
    name = f"{FILES}/{sent_file.name}"
    if sent_file.link is not None:
        info = _entry(name, kind=tarfile.SYMTYPE, mode=0o777, mtime_ns=sent_file.mtime_ns)
        info.linkname = sent_file.link
        tar.addfile(info)
        return
    if sent_file.size is None:
        tar.addfile(
            _entry(name, kind=tarfile.DIRTYPE, mode=sent_file.mode | 0o700, mtime_ns=sent_file.mtime_ns)
        )
        return
    # tarfile raises OSError if the file has become shorter than its header says.
    try:
        with sent_file.path.open("rb") as file:
            read = _Digested(file)
            tar.addfile(
                _entry(name, mode=sent_file.mode | 0o600, mtime_ns=sent_file.mtime_ns, size=sent_file.size),
                cast("BinaryIO", read),
            )
    except OSError as error:
        raise _unreadable(sent_file, error) from None
    if key is not None and read.digest.hexdigest() != digest_in(key):
        raise _unreadable(sent_file)


class _Digested:
    """A file whose content is added to a digest as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _unreadable(file: SentFile, error: OSError | None = None) -> OperationFailed:
    why = (error and error.strerror) or "it has changed"
    return OperationFailed(f"cannot send `{file.path}`: {why}")
