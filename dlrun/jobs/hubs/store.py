"""The store of what was fetched from hubs: beside the job directories, for this user alone, by repository and commit.

`REPOSITORY/KEY` is the directory of a version, made under hidden names and renamed when it is complete; `KEY.json` beside it,
written last, marks it as complete. A job directory has a hard link to that file, as with the snapshots of code: a version whose
file has one link belongs to no job any more, and `dlrun clean` may remove it. The key is the commit, with a digest of `include`
and `exclude` if only a part of the files was fetched.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.code.store import place_for as place_of_code
from dlrun.jobs.records.lock import NAME, exclusive
from dlrun.jobs.records.validation import read_json
from dlrun.model.data import HubSource
from dlrun.model.observed import HubCopy
from dlrun.model.units import Bytes
from dlrun.system.private import make_base

_MARK = ".json"
_SECONDS = 30.0
"""For a submission or `clean` before this one, where nothing is fetched."""


def beside(base: Path) -> Path:
    """The store in a directory of jobs."""
    return base / f".dlrun-hub-{os.geteuid()}"


def place_for(base: Path, target: Path) -> Path:
    """The store for a job directory: in the base of jobs, or beside it if that is on another file system; it may be missing."""
    return beside(place_of_code(base, target).parent)


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


def find(directory: Path) -> HubCopy | None:
    """A complete version of this user's; None if there is none."""
    facts = read_json(mark_of(directory))
    try:
        own = all(_is_own(one) for one in (directory.parents[1], directory.parent, directory))
        if facts is None or not own:
            return None
        return HubCopy(
            commit=directory.name[:40],
            directory=str(directory),
            size=Bytes(facts["bytes"]),
            files=int(facts["files"]),
        )
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _is_own(directory: Path) -> bool:
    seen = directory.lstat()
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077


def make(directory: Path) -> None:
    """Make the directory of a repository and those above it; raises OperationFailed if they are not this user's alone."""
    place = directory.parent
    try:
        make_base(place.parent)
        for one in (place, directory):
            with suppress(FileExistsError):
                one.mkdir(mode=0o700)
            if not _is_own(one):
                raise OperationFailed(
                    f"`{one}` is not a directory that only you can change", help="remove it"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version in a store; used: time of its last use, in seconds since 1970; unused: no job directory names it.

    complete: False for what a fetch has left that did not end.
    """

    directory: Path
    size: Bytes
    used: float
    unused: bool
    complete: bool = True

    @property
    def name(self) -> str:
        """Repository and commit, for a line of text."""
        _, *parts = self.directory.parent.name.split("--")
        return f"{'/'.join(parts)}@{self.directory.name.removeprefix('.')[:12]}"


def versions(place: Path) -> list[Version]:
    """What is in a store, the last used first."""
    found = []
    for repository in place.glob("*--*") if place.is_dir() and _is_own(place) else ():
        for one in repository.iterdir():
            with suppress(OSError):
                if one.name.endswith((".new", ".parts")):
                    seen = one.lstat()
                    found.append(
                        Version(
                            directory=one, size=_size(one), used=seen.st_mtime, unused=True, complete=False
                        )
                    )
                elif (copy := find(one)) is not None:
                    seen = mark_of(one).lstat()
                    found.append(
                        Version(directory=one, size=copy.size, used=seen.st_mtime, unused=seen.st_nlink == 1)
                    )
                elif one.is_dir() and not one.is_symlink():
                    found.append(
                        Version(directory=one, size=_size(one), used=0.0, unused=True, complete=False)
                    )
    return sorted(found, key=lambda version: (-version.used, str(version.directory)))


def _size(directory: Path) -> Bytes:
    paths = [Path(parent) / name for parent, _, names in os.walk(directory) for name in names]
    return Bytes(sum(path.lstat().st_blocks * 512 for path in paths))


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
            shutil.rmtree(directory)
            if set(os.listdir(directory.parent)) <= {NAME}:  # noqa: PTH208 - names alone
                shutil.rmtree(directory.parent)
    except OperationFailed:
        return False
    except OSError as error:
        raise OperationFailed(f"cannot remove `{directory}`: {error.strerror}") from None
    return True
