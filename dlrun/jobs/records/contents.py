"""The contents of a job directory: what dlrun wrote, and everything else, which is the user's."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.records import fetched, ownership
from dlrun.jobs.records.ownership import LIST, Proof, Written
from dlrun.model.data import DATE, FileList
from dlrun.model.record import record
from dlrun.model.units import Bytes
from dlrun.render.written_names import expand
from dlrun.system.paths import open_regular, text_of

_MOST = 64 << 20
_OF_NODE = re.compile(r"(usage/)([^/]+)\.jsonl|(placement/)([^/]+)")
"""A file of a node, which has its name: of the sampler (node/usage/sampler.py), or of its division (templates/lib/divide.sh)."""
_NOTE = re.compile(r"(?:failures|ended)/([^/]+)")
"""A note of a process, which begins with a time, its role and its number, as its name does (templates/lib/rank.sh)."""
_PROCESS = re.compile(rb"[0-9]+ ([!-~]+) ([0-9]+) ")
"""The begin of its first line."""
_MARK = re.compile(r"idle/.*|kept/none|kept/notice-.*|\.cancel|\.again|.*/\.dlrun")
"""An empty file."""
_NEW_STATE = re.compile(r"\.state\.[0-9]{1,10}")
_STATE = b'{"version": 1, "state": "'
"""The begin of a state, written as `.state.PID` and renamed (templates/lib/records.sh)."""
_STARTED = ("state.json", "failures/.dlrun")
"""A job that has begun has one of these; before that the names that it would write are not its own."""
_BEFORE = ("logs/", "logs/job.log", ".cancel")
"""The names that exist before it begins."""
_ROLE = re.compile(r"roles/[^/]+/(?=\.?work)")
_WORK = re.compile(r"(?:work|\.work\.new(?:-[^/]+)?)/")
"""The copy of a snapshot in which a run works, and one, of a job or a role, that is not complete (templates/lib/snapshot.sh)."""
_LAST = ("outcome.json", "state.json", "plan.json", "study.json", "tune.json", "submission.json", LIST)
"""The evidence that a job has ended, removed last: after a kill the same command continues."""


@record(frozen=True, slots=True, kw_only=True)
class Other:
    """A path in a job directory that dlrun did not write, or that was changed since, with its bytes on disk.

    fetched: it is a copy of a file of the job on its login node, unchanged.
    """

    path: str
    size: Bytes
    fetched: bool = False


@record(frozen=True, slots=True, kw_only=True)
class Contents:
    """The paths in a directory: own files and directories (with `/`), and others.

    size: bytes on disk of all; changed: time of the last change in seconds since 1970.
    """

    own: tuple[str, ...]
    others: tuple[Other, ...]
    size: Bytes
    changed: float


def survey(directory: Path, written: Written, *, without: Iterable[Path] = ()) -> Contents:
    """Compare a directory with the list of what dlrun wrote in it; without: directories in it that have lists of their own."""
    inside = tuple(f"{path.relative_to(directory)}/" for path in without)
    statuses = {path: status for path, status in _walk(directory, "") if not path.startswith(inside)}
    listed = _Listed(directory, written, statuses)
    own, others = [], []
    for path, status in statuses.items():
        if listed.has(path):
            own.append(path)
        elif not path.endswith("/") or _is_empty(path, statuses):
            # Allocated blocks, not lengths: files may be sparse or compressed.
            size = Bytes(status.st_blocks * 512 if status else 0)
            others.append(Other(path=path, size=size, fetched=listed.is_fetched(path, status)))
    known = [status for path, status in statuses.items() if status is not None and not path.endswith("/")]
    return Contents(
        own=tuple(own),
        others=tuple(others),
        # A file of a snapshot is shared by links: the store has its size.
        size=Bytes(sum(status.st_blocks * 512 // status.st_nlink for status in known)),
        changed=max((status.st_mtime for status in known), default=0.0),
    )


def _is_empty(directory: str, statuses: Mapping[str, os.stat_result | None]) -> bool:
    """Whether a directory is empty, or could not be read."""
    return not any(path.startswith(directory) and path != directory for path in statuses)


def _walk(place: Path, prefix: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Each path below a directory, with `/` after directories; links are not followed."""
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            yield path, None
            continue
        if stat.S_ISDIR(status.st_mode):
            yield f"{path}/", status
            yield from _walk(Path(entry.path), f"{path}/")
        else:
            yield path, status


class _Listed:
    """Which paths are dlrun's: those on the list, if unchanged, in runs that have begun."""

    def __init__(
        self, directory: Path, written: Written, statuses: Mapping[str, os.stat_result | None]
    ) -> None:
        self._directory = directory
        self._files = written.files
        self._sweep = written.points is not None
        self._job = {LIST, *expand(written.job)}
        self._run = set(expand(written.runs))
        self._checks_nodes = any("{host}" in name for name in written.runs if isinstance(name, str))
        self._directories = {f"{path.rpartition('/')[0]}/" for path in written.files}
        self._directories |= {f"{'/'.join(parts[:n])}/" for path in written.files
                              for parts in [path.split("/")] for n in range(1, len(parts))}  # fmt: skip
        prefixes = [f"points/{i}/" for i in range(written.points)] if written.points is not None else [""]
        # Of an interrupted removal the evidence may be gone.
        self._begun = {
            prefix
            for prefix in prefixes
            if written.removing or any(f"{prefix}{name}" in statuses for name in _STARTED)
        }
        self._runs = set(prefixes)
        self._hosts: dict[str, set[str]] = {}
        self._code = _Code(directory)
        self._fetched = fetched.in_record(directory)
        self._written = written

    def has(self, path: str) -> bool:
        """Whether dlrun wrote the file, or made the directory, of this path."""
        if path.endswith("/"):
            return path in self._directories or path in self._job or self._of_run(path)
        proof = self._files.get(path)
        if proof is None and self._is_copied(path):  # links, too
            return True
        of_job = path in self._job or self._of_role(path)
        if proof is None and not (of_job or self._of_run(path) or self._is_unfinished(path)):
            return False
        with suppress(OSError):
            return ownership.matches(os.path.join(self._directory, path), proof or Proof())  # noqa: PTH118 - many files
        return False

    def is_fetched(self, path: str, status: os.stat_result | None) -> bool:
        """Whether a file or link is as a fetch wrote it."""
        known = self._fetched.files.get(path, ())
        if status is None or stat.S_ISLNK(status.st_mode):
            return status is not None and None in known
        return (status.st_size, status.st_mtime_ns) in known

    def _of_role(self, path: str) -> bool:
        """Whether the file has the name of a node, in the directory of a role."""
        parts = path.split("/")
        return parts[0] == "roles" and self._is_of_node(path, "/".join(parts[2:]))

    def _is_unfinished(self, path: str) -> bool:
        """Whether the file is a record, or a copy of a fetch, that a killed process had not renamed yet."""
        return path in self._fetched.parts or ownership.is_temporary(
            path.rpartition("/")[2], self._written.token
        )

    def _split(self, path: str) -> tuple[str, str]:
        """(directory of the run, name in it)."""
        run = "/".join((*path.split("/")[:2], "")) if self._sweep else ""
        return run, path.removeprefix(run)

    def _is_copied(self, path: str) -> bool:
        """Whether the path is in the copy of a snapshot that a run, or a role, has, as it was laid out."""
        run, name = self._split(path)
        if (of_role := _ROLE.match(name)) is not None:
            name = name[of_role.end() :]
        match = _WORK.match(name)
        if run not in self._begun or "work/" not in self._run or match is None:
            return False
        return match[0] == name or self._code.has(path, name[match.end() :])

    def _of_run(self, path: str) -> bool:
        run, name = self._split(path)
        if run not in self._runs or path == run:
            return path == run != ""
        if name not in _BEFORE and run not in self._begun:
            return False
        if name in self._run:
            return self._is_as_written(path, name)
        if self._is_copied(path):
            return True
        return self._is_of_node(path, name) or name in self._of_nodes(run) or self._is_new_state(path, name)

    def _is_as_written(self, path: str, name: str) -> bool:
        """Whether notes, marks and the state are such as the job writes them; its other files have no form of their own."""
        match = _NOTE.fullmatch(name)
        if name.endswith("/") or (match is None and _MARK.fullmatch(name) is None and name != "state.json"):
            return True
        with suppress(OSError):
            with (self._directory / path).open("rb") as file:
                line = file.readline(1 << 16)
            if name == "state.json":
                return b'"state"' in line
            process = _PROCESS.match(line)
            named = match[1] if match is not None and process is not None else None
            return not line or (
                process is not None and named in ("fabric", f"{process[1].decode()}-{process[2].decode()}")
            )
        return False

    def _is_new_state(self, path: str, name: str) -> bool:
        """Whether the file is a state that a killed job had not renamed yet."""
        if _NEW_STATE.fullmatch(name) is None:
            return False
        with suppress(OSError):
            with open_regular(self._directory / path) as file:
                begin = file.read(len(_STATE))
            return _STATE.startswith(begin) or begin.startswith(_STATE)
        return False

    def _is_of_node(self, path: str, name: str) -> bool:
        match = _OF_NODE.fullmatch(name)
        if match is None:
            return False
        place = match[1] or match[3]
        if place not in self._run and f"{path.removesuffix(name)}{place}" not in self._job:
            return False
        try:
            with (self._directory / path).open("rb") as file:
                start = json.loads(file.readline(1 << 20))
        except (OSError, ValueError, RecursionError):
            return False
        if not isinstance(start, dict):
            return False
        if match[1]:
            return start.get("kind") == "start" and start.get("node") == match[2]
        return start.get("version") == 1 and start.get("host") == match[4] and "granted" in start

    def _of_nodes(self, run: str) -> set[str]:
        """The paths of the nodes that a run has checked."""
        if not self._checks_nodes:
            return set()
        if run not in self._hosts:
            hosts: list[str] = []
            with suppress(OSError, UnicodeDecodeError):
                hosts = (self._directory / run / "nodes/hosts").read_text(encoding="ascii").split()
            names = [name for name in self._written.runs if isinstance(name, str) and "{host}" in name]
            self._hosts[run] = set(expand(names, hosts))
        return self._hosts[run]


class _Code:
    """The files of the copies of a job's snapshot, and the byte code that Python keeps of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._list: FileList | None = None
        self._directories: set[str] = set()

    def has(self, path: str, name: str) -> bool:
        """Whether the file `name` of a copy is there as it was laid out; path: in the job directory."""
        if self._list is None:
            self._read()
        assert self._list is not None  # noqa: S101 - just read
        place, slash, last = name.rstrip("/").rpartition("/")
        if name.endswith("/"):
            return name in self._directories or (last == "__pycache__" and place + slash in self._directories)
        if last.endswith(".pyc") and place.endswith("__pycache__"):
            source = f"{last.split('.')[0]}.py"
            return place.removesuffix("__pycache__") + source in self._list.files
        with suppress(OSError):
            status = (self._directory / path).lstat()
            if name in self._list.files:
                return stat.S_ISREG(status.st_mode) and int(status.st_mtime) == DATE
            return name in self._list.links and stat.S_ISLNK(status.st_mode)
        return False

    def _read(self) -> None:
        text = text_of(self._directory / "code" / "snapshot.sha256", _MOST, "surrogateescape")
        self._list = FileList.parse(text)
        for name in (*self._list.files, *self._list.links):
            parts = name.split("/")
            self._directories |= {"".join(f"{part}/" for part in parts[:n]) for n in range(len(parts))}


def remove_own(directory: Path) -> None:
    """Remove what dlrun wrote in a directory that it has just made, as far as possible; does nothing in others."""
    written = ownership.read(directory)
    if written is not None:
        with suppress(OperationFailed):
            remove(directory, survey(directory, written))


def remove(directory: Path, contents: Contents, *, others: bool = False) -> bool:
    """Remove what dlrun wrote, with `others` also the other paths of `contents`; True if nothing is left.

    What else is there, such as a file that has appeared since, stays, and the job's record with it. Raises OperationFailed if
    a path cannot be removed; after an interruption the same call continues.
    """
    going = [*contents.own, *((other.path for other in contents.others) if others else ())]
    folders = {f"{'/'.join(parts[:n])}/" for path in going if others for parts in [path.rstrip("/").split("/")]
               for n in range(1, len(parts))}  # fmt: skip
    with suppress(OSError):  # a full disk: then a kill leaves a damaged record
        ownership.mark_removing(directory)
    try:
        for path in going:
            if not path.endswith("/") and path not in _LAST:
                (directory / path).unlink(missing_ok=True)
        for path in sorted({path for path in going if path.endswith("/")} | folders, reverse=True):
            with suppress(FileNotFoundError):
                _remove_empty(directory / path)
        left = {path for path, _ in _walk(directory, "")}
        last = [name for name in _LAST if name in going or name == LIST]
        if left - set(last):
            return False
        for name in last:
            (directory / name).unlink(missing_ok=True)
        return _remove_empty(directory)
    except OSError as error:
        raise OperationFailed(f"cannot remove `{error.filename}`: {error.strerror}") from None


def _remove_empty(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        if directory.is_dir() and not directory.is_symlink() and any(directory.iterdir()):
            return False
        raise
    return True
