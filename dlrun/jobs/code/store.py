"""The store of code beside the job directories: each content of a file once, and a tree of hard links for each version.

    .dlrun-code-UID/objects/ab/…   a file by its digest; with `x` at the end if it can be executed
    .dlrun-code-UID/trees/DIGEST   a version: directories of its own, whose files are links to objects
    .dlrun-code-UID/trees/DIGEST.sha256   its list; each job that uses the version has a link to this file

A version without a job is known by the number of links of its list, whatever has become of the jobs' directories. Files
cannot be written (mode 0400) and have one date, so that one that was written nevertheless is known without reading it. Names
are given to what is complete. Nothing is flushed, which takes minutes where others write to the same disk: what a power cut
damages is found when a job starts, which compares all digests and takes the name from such a version (templates/lib/snapshot.sh),
and when a version is made, for which all objects are read.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.code.choose import Chosen
from dlrun.jobs.records.lock import exclusive
from dlrun.model.data import DATE, FileList
from dlrun.model.units import Bytes
from dlrun.system.paths import open_regular, read_bytes
from dlrun.system.private import make_base
from dlrun.system.writing import replace

_SECONDS = 120.0
"""For the submissions before this one."""
_TRIES = 3
_SIZE = "size"
"""File of the store with the bytes of its objects."""
_PIECE = 1 << 20
_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version in the store: tree and list on disk, the list's text; size: bytes of its files; added: those new in the store."""

    tree: Path
    list: Path
    text: str
    size: int
    added: int
    pointers: tuple[str, ...]
    """Files that are only the pointers of Git LFS."""


def place_for(base: Path, target: Path) -> Path:
    """The store for a job directory: in the base of jobs, or beside it if that is on another file system; it may be missing."""

    def device(path: Path) -> int:
        return next(ancestor for ancestor in (path, *path.parents) if ancestor.exists()).stat().st_dev

    return beside(base if device(base) == device(target.parent) else target.parent)


def beside(base: Path) -> Path:
    """The store in a directory of jobs."""
    return base / f".dlrun-code-{os.geteuid()}"


_PART = re.compile(r"\.[0-9]+\.new|\.dlrun-[0-9a-f]{12}\.new")
"""The names of files without a name yet: of `_Adding`, and of the one writer."""


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Make the store if it is missing, and keep other submissions and `clean` out of it; raises OperationFailed."""
    try:
        make(place)
        with exclusive(place, f"`{place}` is in use", "another submission or `dlrun clean` runs", _SECONDS):
            yield
    except OSError as error:
        raise OperationFailed(
            f"the code cannot be stored in `{place}`: {error.strerror}",
            help="nothing was submitted; free space there, or `code: record` runs what is there when the job starts",
        ) from None


def make(place: Path) -> None:
    """Make the store if it is missing; raises OSError, and OperationFailed if it is not this user's alone."""
    make_base(place.parent)
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    seen = place.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
        raise OperationFailed(f"`{place}` is not a directory that only you can change", help="remove it")
    for name in ("objects", "trees"):
        (place / name).mkdir(mode=0o700, exist_ok=True)


def add(place: Path, chosen: Chosen) -> Version:
    """Store the chosen files as a version; the store must be locked. Raises OSError, OperationFailed if files keep changing."""
    _remove_parts(place)
    adding = _Adding(place, chosen.root)
    changed = dict(chosen.files)
    try:
        for _ in range(_TRIES):
            changed = adding.read(changed)
            chosen.files |= changed
        if changed:
            raise OperationFailed(
                f"`{chosen.root / next(iter(changed))}` changes while it is read",
                help="nothing was submitted; submit again when it is complete",
            )
        added = adding.finish()
    finally:
        _remove_parts(place)
    text = FileList(
        files={name: key[:64] for name, key in adding.found.items()},
        links=chosen.links,
        executable=frozenset(name for name, key in adding.found.items() if len(key) > 64),
    ).text()
    digest = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    version = Version(
        tree=place / "trees" / digest,
        list=place / "trees" / f"{digest}.sha256",
        text=text,
        size=sum(seen.st_size for seen in chosen.files.values()),
        added=added,
        pointers=tuple(sorted(adding.pointers & adding.found.keys())),
    )
    if added:
        _note_size(place, (known_size(place) or 0) + added)
    if not _is_whole(version, place, adding.found):
        if damaged := adding.damaged():
            for path in damaged:
                path.unlink()
            return add(place, chosen)
        _build(version, place, adding.found, chosen.links)
    return version


class _Adding:
    """Files on their way into the store; found: name -> key of its object, which is complete after `finish`."""

    def __init__(self, place: Path, root: Path) -> None:
        self._place, self._root = place, root
        self._new: dict[Path, Path] = {}
        self.found: dict[str, str] = {}
        self.pointers: set[str] = set()

    def read(self, files: Mapping[str, os.stat_result]) -> dict[str, os.stat_result]:
        """Read files; returns those that have changed since their status was taken, with the new one."""
        for name in files:
            self._read(name)
        now = {name: os.lstat(self._root / name) for name in files}
        return {name: seen for name, seen in now.items() if _mark(seen) != _mark(files[name])}

    def _read(self, name: str) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._root / name, flags)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            seen = os.fstat(descriptor)
            mode = 0o500 if seen.st_mode & 0o100 else 0o400
            first = file.read(_PIECE) or b""
            if first.startswith(_POINTER):
                self.pointers.add(name)
            if len(first) < _PIECE:
                key, new = key_of(sha256(first).hexdigest(), mode), None
            else:
                new = self._place / f".{len(self._new)}.new"
                key = key_of(_write(new, chain([first], iter(lambda: file.read(_PIECE), b"")), mode), mode)
        self.found[name] = key
        path = _object(self._place, key)
        if path in self._new or is_intact(path, seen.st_size, mode):
            if new is not None:
                new.unlink()
            return
        if new is None:
            new = self._place / f".{len(self._new)}.new"
            _write(new, [first], mode)
        self._new[path] = new

    def damaged(self) -> list[Path]:
        """Objects of earlier submissions whose content is not what their name says."""
        old = {_object(self._place, key): key[:64] for key in self.found.values()}
        return [path for path, digest in old.items() if path not in self._new and digest_of(path) != digest]

    def finish(self) -> int:
        """Give the new objects their names, once they are on the disk; returns their bytes."""
        size = sum(new.stat().st_size for new in self._new.values())
        for path, new in self._new.items():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            new.rename(path)
        return size


def digest_of(path: Path) -> str:
    """The digest of a regular file; raises OSError."""
    with open_regular(path) as file:
        digest = sha256()
        while piece := file.read(_PIECE):
            digest.update(piece)
        return digest.hexdigest()


def write_out(tree: Path, listed: FileList, to: Path) -> None:
    """Write the files of a version to a new directory, with the user's own modes; raises OperationFailed."""
    try:
        to.mkdir(parents=True)
        for name in listed.files:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            if digest_of(tree / name) != listed.files[name]:
                raise OperationFailed(f"`{tree / name}` is not what was stored: it was written since")
            shutil.copyfile(tree / name, to / name)
            if name in listed.executable:
                (to / name).chmod((to / name).stat().st_mode | 0o111)
        for name, target in listed.links.items():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).symlink_to(target)
    except OSError as error:
        raise OperationFailed(f"cannot write the code to `{to}`: {error.strerror}") from None


def _write(path: Path, pieces: Iterable[bytes], mode: int) -> str:
    """Write a file of the store; returns the digest of its content."""
    digest = sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for piece in pieces:
            digest.update(piece)
            rest = memoryview(piece)
            while rest:
                rest = rest[file.write(rest) :]
        os.fchmod(descriptor, mode)
    os.utime(path, (DATE, DATE))
    return digest.hexdigest()


def key_of(digest: str, mode: int) -> str:
    """The name of a file in the store: its digest, and `x` if its owner can execute it."""
    return digest + ("x" if mode & 0o100 else "")


def _object(place: Path, key: str) -> Path:
    return place / "objects" / key[:2] / key[2:]


def is_intact(path: Path, size: int, mode: int) -> bool:
    """Whether a file of the store, or a link to one, has not been written since."""
    try:
        seen = path.lstat()
    except OSError:
        return False
    return (seen.st_size, stat.S_IMODE(seen.st_mode), int(seen.st_mtime)) == (size, mode, DATE)


def _mark(seen: os.stat_result) -> tuple[int, ...]:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode


def _is_whole(version: Version, place: Path, keys: Mapping[str, str]) -> bool:
    """Whether the version is in the store, with this list and every file as it was made."""
    try:
        return _has_text(version) and all(
            (version.tree / name).lstat().st_ino == _object(place, key).lstat().st_ino
            for name, key in keys.items()
        )
    except OSError:
        return False


def _has_text(version: Version) -> bool:
    with suppress(OSError):
        return version.list.read_text("utf-8", "surrogateescape") == version.text
    return False


def _build(version: Version, place: Path, keys: Mapping[str, str], links: Mapping[str, str]) -> None:
    new = version.tree.with_name(f".{version.tree.name}.new")
    for old in (new, version.tree):
        if old.exists() and not _remove_tree(place, old):
            old.rename(old.with_name(f"{version.tree.name}.kept-{os.urandom(4).hex()}"))
    new.mkdir(mode=0o700)
    made = {"."}
    try:
        for name, key in (*keys.items(), *((name, None) for name in links)):
            parent = os.path.dirname(name) or "."  # noqa: PTH120 - text alone
            if parent not in made:
                (new / parent).mkdir(mode=0o700, parents=True, exist_ok=True)
                made.add(parent)
            if key is None:
                (new / name).symlink_to(links[name])
            else:
                os.link(_object(place, key), new / name)
        if not _has_text(version):  # else jobs have links to it
            replace(version.list, version.text, mode=0o600, flush=False)
        new.rename(version.tree)
    except BaseException:
        with suppress(OSError):
            _remove_tree(place, new)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a store has: versions, bytes of its files, and those of files that no job uses."""

    versions: int
    size: Bytes
    unused: Bytes


def known_size(place: Path) -> int | None:
    """The bytes of the store's files, as last counted; None without a store. Not exact, and at no cost."""
    try:
        return int(read_bytes(place / _SIZE, 64))
    except (OSError, ValueError):
        return None


def _note_size(place: Path, size: int) -> None:
    replace(place / _SIZE, f"{size}\n", mode=0o600, flush=False)


def use(place: Path, *, prune: bool = False) -> Use:
    """What is in a store; prune: remove the versions that no job uses. Raises OperationFailed."""
    if not place.is_dir():
        return Use(versions=0, size=Bytes(0), unused=Bytes(0))
    with locked(place):
        lists = list((place / "trees").glob("[!.]*.sha256"))
        idle = [path for path in lists if path.stat().st_nlink == 1]
        if prune:
            _remove(
                place,
                idle,
                {path.name.removesuffix(".sha256") for path in lists} - {path.stem for path in idle},
            )
        left = [] if prune else [path.with_suffix("") for path in idle]
        # Links of an object in trees that no job uses; one more is its own name.
        loose = Counter(path.lstat().st_ino for tree in left for path in tree.rglob("*") if not path.is_dir())
        size = unused = 0
        for path in (place / "objects").glob("*/*"):
            seen = path.lstat()
            if seen.st_nlink - loose[seen.st_ino] <= 1:
                if prune:
                    path.unlink()
                    continue
                unused += seen.st_blocks * 512
            size += seen.st_blocks * 512
        _note_size(place, size)
        return Use(versions=len(lists) - (len(idle) if prune else 0), size=Bytes(size), unused=Bytes(unused))


def _remove(place: Path, idle: Iterable[Path], used: set[str]) -> None:
    """Remove versions without a job, and what was left half-made."""
    for path in idle:
        path.unlink()
    for tree in (place / "trees").iterdir():
        if tree.is_dir() and not tree.is_symlink() and tree.name not in used:
            _remove_tree(place, tree)
    _remove_parts(place)


def _remove_tree(place: Path, tree: Path) -> bool:
    """Remove what the store has in a tree: links to its objects, symbolic links and directories; False if a file is left.

    A program may have written beside its code; that is the user's.
    """
    own = {path.lstat().st_ino for path in (place / "objects").glob("*/*")}
    for directory, _, names in os.walk(tree, topdown=False):
        below = Path(directory)
        for path in (below / name for name in (*names, *os.listdir(below))):  # noqa: PTH208 - with links to directories
            with suppress(FileNotFoundError):
                seen = path.lstat()
                if stat.S_ISLNK(seen.st_mode) or (stat.S_ISREG(seen.st_mode) and seen.st_ino in own):
                    path.unlink()
        with suppress(OSError):
            below.rmdir()
    return not tree.exists()


def _remove_parts(place: Path) -> None:
    """Remove files and trees without a name yet, which a submission that was ended has left."""
    for path in (*place.glob(".*.new"), *(place / "trees").glob(".*.new")):
        if _PART.fullmatch(path.name) and not path.is_dir():
            path.unlink()
        elif path.parent != place:
            _remove_tree(place, path)
