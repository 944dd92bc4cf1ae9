"""The store of what submissions fetched: beside the job directories, for this user alone, by repository and commit or digest.

`REPOSITORY/KEY` is the directory of a version, made under hidden names and renamed when it is complete; `KEY.json` beside it,
written last, marks it as complete. A job directory has a hard link to that file, as with the snapshots of code: a version whose
file has one link belongs to no job any more, and `dlrun clean` may remove it. The key is the commit, with a digest of `include`
and `exclude` if only a part of the files was fetched.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dlrun.errors import OperationFailed
from dlrun.jobs.code.store import place_for as place_of_code
from dlrun.jobs.records.lock import NAME, exclusive
from dlrun.jobs.records.validation import MOST, read_json
from dlrun.model.data import HubSource
from dlrun.model.job import role_directory
from dlrun.model.observed import HubCopy
from dlrun.model.plan import Plan
from dlrun.model.program import IMAGES
from dlrun.model.units import Bytes
from dlrun.system.paths import read_bytes
from dlrun.system.private import make_base
from dlrun.system.writing import append_to

_COMPILED = "caches--"
"""The same for what compilers have compiled: jobs write it (dlrun/node/commands/compiled_store.py), no directory keeps it."""
_UNUSED_AFTER = 30 * 86_400.0
"""Seconds after its last use for which that is kept."""
_MARK = ".json"
_NAMED = "store"
"""The file of a job directory, or of a role's, that names the store (templates/lib/compiled.sh)."""
_OF_IMAGES = "image-store"
"""The same for the images that a job pulls (templates/lib/pull.sh)."""
_NOTED = ".dlrun-stores"
"""The file of the user's directory of jobs with the directories that specs named for what is compiled, one a line in JSON."""
_SECONDS = 30.0
"""For a submission or `clean` before this one, where nothing is fetched."""


def beside(base: Path) -> Path:
    """The store in a directory of jobs."""
    return base / f".dlrun-hub-{os.geteuid()}"


def place_for(base: Path, target: Path) -> Path:
    """The store for a job directory: in the base of jobs, or beside it if that is on another file system; it may be missing."""
    return beside(place_of_code(base, target).parent)


def named_in(plan: Plan, base: Path, target: Path) -> dict[str, str]:
    """The files of a job directory that name its store, for what the job or its roles add: compiled code, and images."""
    parts = {"": plan} | {f"{role_directory(role.name)}/": role.plan for role in plan.each_role}
    keep = [prefix for prefix, part in parts.items() if part.caches is not None and part.caches.keep]
    usual = place_for(base, target)
    containers = {
        prefix: part.environment.container for prefix, part in parts.items() if part.role_jobs is None
    }
    images = [
        prefix for prefix, container in containers.items() if container is not None and container.in_job
    ]
    own = {prefix: parts[prefix].caches for prefix in keep}
    places = {
        prefix: beside(Path(caches.place)) if caches and caches.place else usual
        for prefix, caches in own.items()
    }
    named = {f"{prefix}{_NAMED}": f"{place}\n" for prefix, place in places.items()}
    return named | {f"{prefix}{_OF_IMAGES}": f"{usual}\n" for prefix in images}


def bases_named(directory: Path) -> list[Path]:
    """The directories of the stores that the files of `named_in` name in a job directory."""
    bases = []
    files = [pattern for name in (_NAMED, _OF_IMAGES) for pattern in (name, f"{role_directory('*')}/{name}")]
    for file in (path for name in files for path in directory.glob(name)):
        with suppress(OSError):
            bases.append(Path(os.fsdecode(read_bytes(file, MOST)).rstrip("\n")).parent)
    return bases


def enter(home: Path, plan: Plan) -> None:
    """Note the directories that a plan names for what is compiled (`caches: DIRECTORY`): the jobs that tell of them may go.

    home: the user's directory of jobs. A directory without room for the note keeps it from no job.
    """
    plans = [plan, *(role.plan for role in plan.each_role)]
    named = {part.caches.place for part in plans if part.caches is not None and part.caches.keep} - {None}
    known = set(map(str, bases_noted(home)))
    if new := sorted(str(place) for place in named if str(place) not in known):
        with suppress(OSError):
            make_base(home)
            with append_to(home / _NOTED) as file:
                file.write("".join(f"{json.dumps(place)}\n" for place in new).encode())


def bases_noted(home: Path) -> list[Path]:
    """The directories that `enter` has noted; nothing that another user has written."""
    file, bases = home / _NOTED, []
    with suppress(OSError):
        seen = file.lstat()
        if stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid():
            for line in read_bytes(file, MOST).splitlines():
                with suppress(ValueError):
                    if isinstance(place := json.loads(line), str) and os.path.isabs(place):  # noqa: PTH117 - text alone
                        bases.append(Path(place))
    return list(dict.fromkeys(bases))


def of_repository(place: Path, source: HubSource) -> Path:
    """The directory of a repository's versions."""
    return place / "--".join((f"{source.kind}s", *source.repository.split("/")))


def key(commit: str, include: Sequence[str], exclude: Sequence[str]) -> str:
    """The name of a version with these files."""
    if not (include or exclude):
        return commit
    return f"{commit}-{sha256(repr((tuple(include), tuple(exclude))).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def mark_of(directory: Path) -> Path:
    """The file that marks a version as complete."""
    return directory.with_name(directory.name + _MARK)


def facts_of(directory: Path) -> dict[str, Any] | None:
    """What the mark of a complete version of this user's says; None if there is none."""
    facts = read_json(mark_of(directory))
    try:
        own = all(_is_own(path) for path in (directory.parents[1], directory.parent, directory))
    except OSError:
        return None
    return facts if own else None


def find(directory: Path) -> HubCopy | None:
    """A complete version of a hub's repository; None if there is none."""
    try:
        facts = facts_of(directory)
        if facts is None:
            return None
        return HubCopy(
            commit=directory.name[:40],
            directory=str(directory),
            size=Bytes(facts["bytes"]),
            files=int(facts["files"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _is_own(directory: Path) -> bool:
    seen = directory.lstat()
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077


def make(directory: Path) -> None:
    """Make the directory of a repository and those above it; raises OperationFailed if they are not this user's alone."""
    place = directory.parent
    try:
        make_base(place.parent)
        for path in (place, directory):
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            if not _is_own(path):
                raise OperationFailed(
                    f"`{path}` is not a directory that only you can change", help="remove it"
                )
    except OSError as error:
        raise OperationFailed(
            f"nothing can be fetched to `{place}`: {error.strerror}",
            help="free space there, or name another place for jobs with `DLRUN_JOBS`",
        ) from None


@contextmanager
def locked(directory: Path, seconds: float = _SECONDS) -> Iterator[None]:
    """Keep other submissions and `clean` out of a repository's versions; raises OperationFailed."""
    with exclusive(
        directory, f"`{directory}` is in use", "another submission or `dlrun clean` works there", seconds
    ):
        yield


@contextmanager
def held(marks: Mapping[str, Path]) -> Iterator[tuple[Mapping[str, str], Mapping[str, Path]]]:
    """(name -> text, name -> file) of the marks with which a new job directory keeps versions, by their names in it.

    Within the block none of them is removed. Raises OperationFailed if one was removed since it was fetched.
    """
    with ExitStack() as locks:
        for repository in sorted({mark.parent for mark in marks.values()}):
            locks.enter_context(locked(repository))
        texts = {}
        for name, mark in marks.items():
            try:
                texts[name] = read_bytes(mark, MOST).decode()
                mark.touch()  # the time of its last use
            except OSError as error:
                raise OperationFailed(
                    f"`{mark}` was removed meanwhile: {error.strerror}", help="submit again"
                ) from None
        yield texts, marks


def report_if_busy(directory: Path, what: object, notice: Callable[[str], None]) -> None:
    """Report that another submission fetches from the same repository, if one does."""
    try:
        with locked(directory, 0.2):
            pass
    except OperationFailed:
        notice(f"{what}: another submission fetches from this repository; waiting for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version in a store; used: time of its last use, in seconds since 1970; unused: no job directory names it.

    complete: False for what a fetch has left that did not end; about: for which machine it was compiled.
    """

    directory: Path
    size: Bytes
    used: float
    unused: bool
    complete: bool = True
    about: str = ""

    @property
    def name(self) -> str:
        """Repository and commit or digest, for a line of text."""
        repository, _, version = self.key.partition("@")
        return f"{repository}@{version[:12] if self.kind != 'compiled' else version}"

    @property
    def key(self) -> str:
        """What it is kept by."""
        _, *parts = self.directory.parent.name.split("--")
        return f"{'/'.join(parts)}@{self.directory.name.removeprefix('.')}"

    @property
    def kind(self) -> str:
        """What it is, for a line of text."""
        kinds = {IMAGES: "image", _COMPILED: "compiled"}
        return next(
            (kind for start, kind in kinds.items() if self.directory.parent.name.startswith(start)), "hub"
        )


def _entries(place: Path) -> Iterator[Path]:
    """What is in the repositories of a store, of which another dlrun may remove any at the same time, and the store."""
    with suppress(OSError):
        for repository in place.glob("*--*") if _is_own(place) else ():
            with suppress(OSError):
                yield from list(repository.iterdir())


def versions(place: Path) -> list[Version]:
    """What is in a store, the last used first."""
    listed = []
    for directory in _entries(place):
        repository = directory.parent
        with suppress(OSError, TypeError, ValueError):
            if directory.name.endswith((".new", ".parts")):
                seen = directory.lstat()
                listed.append(
                    Version(
                        directory=directory,
                        size=size_of(directory),
                        used=seen.st_mtime,
                        unused=True,
                        complete=False,
                    )
                )
            elif (facts := facts_of(directory)) is not None:
                seen, size = mark_of(directory).lstat(), Bytes(int(facts.get("bytes", 0)))
                unused = seen.st_nlink == 1
                if repository.name.startswith(_COMPILED):
                    unused = time.time() - seen.st_mtime > _UNUSED_AFTER
                listed.append(
                    Version(
                        directory=directory,
                        size=size,
                        used=seen.st_mtime,
                        unused=unused,
                        about=str(facts.get("about") or ""),
                    )
                )
            elif directory.is_dir() and not directory.is_symlink():
                listed.append(
                    Version(
                        directory=directory, size=size_of(directory), used=0.0, unused=True, complete=False
                    )
                )
    return sorted(listed, key=lambda version: (-version.used, str(version.directory)))


def size_of(directory: Path) -> Bytes:
    """Bytes on disk below a directory, of what is there while others write to it."""
    paths = [Path(parent) / name for parent, _, names in os.walk(directory) for name in names]
    size = 0
    for path in paths:
        with suppress(OSError):
            size += path.lstat().st_blocks * 512
    return Bytes(size)


def wipe(directory: Path) -> None:
    """Remove a tree, whatever modes its directories have: those of an unpacked image may not be writable. Raises OSError."""
    for parent, names, _ in os.walk(directory):
        for path in (Path(parent) / name for name in names):
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(directory)


def remove(version: Version) -> bool:
    """Remove a version that no job uses; False if one uses it now, or it is being fetched. Raises OperationFailed."""
    directory = version.directory
    try:
        with locked(directory.parent, 0.0):
            mark = mark_of(directory)
            with suppress(FileNotFoundError):
                if mark.lstat().st_nlink > 1:
                    return False
                mark.unlink()
            wipe(directory)
    except OperationFailed:
        return False
    except OSError as error:
        raise OperationFailed(f"cannot remove `{directory}`: {error.strerror}") from None
    return True


def remove_empty(place: Path) -> None:
    """Remove the directories of a store that have no version, and the store itself once it is empty."""
    for repository in place.glob("*--*"):
        with suppress(OperationFailed, OSError), locked(repository, 0.0):
            if set(os.listdir(repository)) <= {NAME, ".mark"}:  # noqa: PTH208 - names alone
                shutil.rmtree(repository)
    with suppress(OSError):
        place.rmdir()
