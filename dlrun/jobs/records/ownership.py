"""What dlrun has written in a directory that it made: a token, and a list of every path with what proves it.

A directory is dlrun's only with this list, and only what is on the list is ever removed. The list is a file of JSON lines:
first the token, with the place where the directory was made; then the files made with it (size and digest), the names that
the job may write (`dlrun.render.written_names`), and, as they are written, records such as the outcome.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dlrun.model.record import record
from dlrun.system.paths import open_regular

if TYPE_CHECKING:
    from dlrun.render.written_names import Name, WrittenNames

LIST = ".dlrun-written"
_VERSION = 1
_FIRST_LINE = 8192
"""Maximum bytes of the first line: a path has at most 4096."""
_MOST = 64 << 20
"""Maximum bytes of a list: that of a job of 100,000 ranks with one log a node has 2 MB."""

Kind: TypeAlias = Literal["job", "scaling study", "tuning"]
"""What a directory that dlrun made is of."""


@record(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a file of dlrun's looks like: size in bytes and digest of its content, time (ns), or target of a link (empty: any).

    Without any of them the file is a record, whose content changes.
    """

    size: int | None = None
    digest: str | None = None
    mtime_ns: int | None = None
    link: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Written:
    """The list of a directory; `kind` is empty where there is none.

    place, inode: path and inode of the directory when it was made; files: path -> proof; job, runs: names that the job may
    write; removing: a removal was interrupted.
    """

    kind: Kind | Literal[""]
    token: str
    place: str
    inode: int | None
    files: Mapping[str, Proof]
    job: tuple[Name, ...] = ()
    runs: tuple[Name, ...] = ()
    points: int | None = None
    removing: bool = False


NONE = Written(kind="", token="", place="", inode=None, files={})
"""The list of a directory without one: nothing in it is dlrun's."""


def new_token() -> str:
    """A random token."""
    return secrets.token_hex(16)


def text(
    kind: Kind,
    place: Path | str,
    token: str,
    *,
    inode: int | None = None,
    files: Mapping[str, str] | None = None,
    records: Iterable[str] = (),
    names: WrittenNames | None = None,
    sent: Iterable[Sequence[Any]] = (),
    by: Mapping[str, object] | None = None,
) -> str:
    """The content of a new list.

    files: path -> text of the files that do not change; records: files whose content changes; sent: name, size, time (ns),
    mode and link of files that are sent to a login node; by: the process that makes the directory (`process_mark`).
    """
    lines: list[dict[str, Any]] = [
        {"dlrun": kind, "version": _VERSION, "token": token, "place": str(place), "inode": inode}
    ]
    if by is not None:
        lines[0]["by"] = by
    for path, content in (files or {}).items():
        data = content.encode("utf-8", errors="surrogateescape")
        lines.append({"path": path, "size": len(data), "digest": _digest(data)})
    lines += [{"path": path} for path in records]
    for name, size, mtime_ns, _, link in sent:
        proof = {"link": link} if link is not None else {"size": size, "mtime_ns": mtime_ns}
        lines.append({"path": f"{name}/"} if size is None else {"path": name, **proof})
    if names is not None:
        lines.append(_named(names))
    return "".join(json.dumps(line) + "\n" for line in lines)


def _digest(data: bytes) -> str:
    from hashlib import blake2b  # noqa: PLC0415 - OpenSSL, which few commands need

    return blake2b(data, digest_size=16).hexdigest()


_TEMPORARY = re.compile(r"\.dlrun-([0-9a-f]{12})-([0-9a-f]{16})\.new")


def temporary_name(directory: Path, token: str | None = None) -> str | None:
    """A name for an incomplete file in a directory that dlrun made, by which `is_temporary` knows it; None for others.

    token: of a list that is not written yet.
    """
    header = _first_line(directory, None)
    token = header["token"] if header is not None else token
    return temporary(token) if token is not None else None


def temporary(token: str) -> str:
    """A name for an incomplete file in the directory with this token."""
    number = os.urandom(6).hex()
    return f".dlrun-{number}-{_keyed(token, number)}.new"


def is_temporary(name: str, token: str) -> bool:
    """Whether a file is one that a killed dlrun left: its name proves the token of the directory."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and token != "" and match[2] == _keyed(token, match[1])


def is_unfinished_list(path: Path) -> bool:
    """Whether a file is a list that a killed dlrun had not renamed yet: it has the token of its name, or no byte at all."""
    if _TEMPORARY.fullmatch(path.name) is None:
        return False
    try:
        with open_regular(path) as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return False
    header = _header(_object(line), None)
    return not line or (header is not None and is_temporary(path.name, header["token"]))


def _keyed(token: str, number: str) -> str:
    return _digest(f"{token} {number}".encode())[:16]


def is_own(directory: Path, kind: Kind = "job") -> bool:
    """Whether dlrun made the directory: it has this user's list, with a token, of this kind."""
    return _first_line(directory, kind) is not None


def made_by(directory: Path) -> Mapping[str, object] | None:
    """The process that made the directory, as its list names it; None without a list, empty if the list does not."""
    header = _first_line(directory, None)
    by = header.get("by") if header is not None else None
    return None if header is None else by if isinstance(by, dict) else {}


def _first_line(directory: Path, kind: Kind | None) -> dict[str, Any] | None:
    return _header(_object(_content(directory, _FIRST_LINE).partition(b"\n")[0]), kind)


def _content(directory: Path, most: int) -> bytes:
    """The first `most` bytes of this user's list; empty without one."""
    try:
        # A link, or another user's list, proves nothing.
        descriptor = os.open(directory / LIST, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return b""
        try:
            return file.read(most)
        except OSError:
            return b""


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _header(line: dict[str, Any], kind: Kind | None) -> dict[str, Any] | None:
    known = line.get("version") == _VERSION and isinstance(line.get("dlrun"), str)
    token, place = line.get("token"), line.get("place")
    if not known or not (isinstance(token, str) and token and isinstance(place, str)):
        return None
    return line if kind in (None, line["dlrun"]) else None


def read(directory: Path) -> Written | None:
    """The list of a directory that dlrun made; None for others. Lines that dlrun does not write are skipped."""
    content = _content(directory, _MOST + 1)
    first, *lines = content.splitlines() or [b""]
    header = _header(_object(first), None)
    if header is None or len(content) > _MOST:
        return None
    files: dict[str, Proof] = {}
    names: dict[str, Any] = {}
    removing = False
    for line in map(_object, lines):
        removing = removing or line.get("removing") is True
        if isinstance(path := line.get("path"), str) and _is_below(path):
            files[path] = _proof(line)
        elif "runs" in line:
            names = line
    inode = header.get("inode")
    points = names.get("points")
    return Written(
        kind=header["dlrun"],
        token=header["token"],
        place=header["place"],
        inode=inode if isinstance(inode, int) else None,
        files=files,
        job=_names(names.get("job")),
        runs=_names(names.get("runs")),
        points=points if isinstance(points, int) else None,
        removing=removing,
    )


def _is_below(path: str) -> bool:
    return not path.startswith("/") and not {"", ".", ".."} & set(path.removesuffix("/").split("/"))


def _proof(line: dict[str, Any]) -> Proof:
    def of(key: str, kind: type) -> Any:
        return value if isinstance(value := line.get(key), kind) else None

    return Proof(
        size=of("size", int), digest=of("digest", str), mtime_ns=of("mtime_ns", int), link=of("link", str)
    )


def _names(value: object) -> tuple[Name, ...]:
    names: list[Name] = []
    for name in value if isinstance(value, list) else ():
        match name:
            case str() if _is_below(name):
                names.append(name)
            case [str() as prefix, int() as first, int() as last, str() as suffix] if (
                0 <= first <= last < 10**7
            ):
                names.append((prefix, first, last, suffix))
    return tuple(names)


def is_in_place(directory: Path, written: Written) -> bool:
    """Whether this is the directory that dlrun made, and not a copy of it: by its place or its inode."""
    try:
        status = directory.stat()
        if written.inode is not None and status.st_ino == written.inode:
            return True
        return os.path.samestat(status, Path(written.place).stat())
    except (OSError, ValueError):
        return False


def is_obstructed(path: Path) -> bool:
    """Whether a record's name is taken by a file that dlrun has not written; always false where dlrun keeps no list."""
    if not os.path.lexists(path):
        return False
    written = read(path.parent)
    return written is not None and path.name not in written.files and path.name not in written.job


def add_file(directory: Path, name: str, data: bytes) -> None:
    """Put a file with this content on a directory's list; raises OSError."""
    _append(directory, _of_file(name, data))


def _of_file(name: str, data: bytes) -> dict[str, Any]:
    return {"path": name, "size": len(data), "digest": _digest(data)}


def add(directory: Path, name: str) -> None:
    """Put a record on a directory's list before it is written, if the directory has one; raises OSError."""
    written = read(directory)
    if written is None or name in written.files or name in written.job:
        return
    _append(directory, {"path": name})


def add_changing(directory: Path, name: str) -> None:
    """Note on a directory's list that a file is dlrun's with any content, until `add_file`; raises OSError."""
    _append(directory, {"path": name})


def add_names(directory: Path, names: WrittenNames) -> None:
    """Replace the names on a directory's list that its job may write; raises OSError."""
    _append(directory, _named(names))


def _named(names: WrittenNames) -> dict[str, Any]:
    return {"job": names.job, "runs": names.runs, "points": names.points}


def lines_of(files: Iterable[str] | Mapping[str, bytes], names: WrittenNames | None = None) -> str:
    """What a directory's list elsewhere gets for files with these contents, without them with any, and for such names."""
    lines: list[dict[str, Any]] = [{"path": name} for name in files]
    if isinstance(files, Mapping):
        lines = [_of_file(name, data) for name, data in files.items()]
    lines += [_named(names)] if names is not None else []
    return "".join(f"\n{json.dumps(line)}\n" for line in lines)


def proves(line: bytes, data: bytes) -> bool:
    """Whether a line of a directory's list proves that dlrun wrote a file with this content."""
    entry = _object(line)
    proof = _proof(entry)
    return isinstance(entry.get("path"), str) and proof.digest in (None, _digest(data)) and proof.link is None


def mark_removing(directory: Path) -> None:
    """Note on the list that the removal has begun; raises OSError."""
    _append(directory, {"removing": True})


def _append(directory: Path, line: dict[str, Any]) -> None:
    # One write: other processes may append at the same time. The first newline ends a line that a full disk truncated.
    descriptor = os.open(directory / LIST, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"\n" + json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def matches(path: str, proof: Proof) -> bool:
    """Whether a file still is as dlrun wrote it; raises OSError."""
    status = os.lstat(path)
    if proof.link is not None:
        return stat.S_ISLNK(status.st_mode) and proof.link in ("", str(Path(path).readlink()))
    if not stat.S_ISREG(status.st_mode):
        return False
    if proof.size is not None and status.st_size != proof.size:
        return False
    if proof.mtime_ns is not None and status.st_mtime_ns != proof.mtime_ns:
        return False
    return proof.digest is None or _digest(Path(path).read_bytes()) == proof.digest
