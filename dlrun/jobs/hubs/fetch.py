"""Fetch a revision into the store: file by file, each from where an earlier attempt ended, complete or not there at all."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

from dlrun.errors import OperationFailed
from dlrun.jobs.hubs import store
from dlrun.jobs.hubs.client import Client, Damaged, File, full
from dlrun.model.data import HubSource
from dlrun.model.observed import HubCopy
from dlrun.model.units import Bytes, Duration, many
from dlrun.node.source.selection import PathFilter, Source
from dlrun.system.writing import replace

_AT_ONCE = 4
_EVERY = 10.0
"""Seconds between two lines about the progress."""
_DAY = 86_400.0


def fetched(
    source: HubSource,
    place: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    token: Callable[[], str | None],
    notice: Callable[[str], None],
) -> HubCopy:
    """The revision in a store, fetched if it is not there; include, exclude: patterns as in staging.

    token: returns the hub's token, or None. A commit that is there needs no network. Raises Invalid without the library,
    OperationFailed otherwise.
    """
    repository = store.of_repository(place, source)
    if source.commit is not None:
        there = store.find(repository / store.key(source.commit, include, exclude))
        if there is not None:
            return there
    client = Client(source, token(), notice)
    try:
        revision = client.revision()
    except OperationFailed as error:
        raise _with_known(error, source, repository) from None
    directory = repository / store.key(revision.commit, include, exclude)
    wanted = [file for file in revision.files if _wants(file, include, exclude)]
    store.make(repository)
    store.report_if_busy(repository, source, notice)
    with store.locked(repository, _DAY):
        there = store.find(directory)
        if there is None:
            try:
                _fetch(
                    client, source, commit=revision.commit, files=wanted, directory=directory, notice=notice
                )
            except client.faults as error:
                raise client.fault(error) from None
            except Damaged as error:
                raise OperationFailed(
                    f"`{error}` of `{source}` is not what the hub lists: its digest differs",
                    help="submit again: the other files are kept",
                ) from None
            there = store.find(directory)
    if there is None:
        raise OperationFailed(f"`{directory}` was removed while it was fetched", help="submit again")
    return there


def _with_known(error: OperationFailed, source: HubSource, repository: Path) -> OperationFailed:
    """The error with the commits that are in the store, which need no network."""
    names = sorted(path.stem for path in repository.glob("*.json")) if source.commit is None else []
    if not names:
        return error
    known = ", ".join(f"`@{name[:40]}`" for name in names[:3])
    return OperationFailed(error.message, help=f"{error.help}; in the store: {known}")


def _wants(file: File, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether staging would take a file, in a directory that it would enter."""
    chosen = PathFilter(Source(b"", (), tuple(map(os.fsencode, include)), tuple(map(os.fsencode, exclude))))
    path = os.fsencode(file.name)
    parts = path.split(b"/")
    above = (b"/".join(parts[:depth]) for depth in range(1, len(parts)))
    return chosen.includes_file(path) and all(map(chosen.includes_directory, above))


def _fetch(
    client: Client,
    source: HubSource,
    commit: str,
    files: Sequence[File],
    directory: Path,
    notice: Callable[[str], None],
) -> None:
    new, parts = (directory.with_name(f".{directory.name}{end}") for end in (".new", ".parts"))
    for place in (new, parts):
        place.mkdir(mode=0o700, exist_ok=True)
    missing = [file for file in files if not _is_there(new / file.name, file)]
    part_of = {
        file.name: parts / sha256(file.name.encode("utf-8", "surrogateescape")).hexdigest() for file in files
    }
    size = sum(file.size for file in files)

    def here() -> int:
        """Bytes that have come."""
        done = sum(file.size for file in files if _is_there(new / file.name, file))
        return done + store.size_of(parts)  # parts get their names meanwhile

    begun = here()
    if shutil.disk_usage(parts).free < size - begun:
        raise full(source)
    earlier = f", {Bytes(begun)} of it there already" if begun else ""
    notice(f"{source}: fetching {many(len(files), 'file')} ({Bytes(size)}{earlier}) of commit {commit}")

    def download(file: File) -> None:
        part = part_of[file.name]
        try:
            client.download(file, commit, part)
        except Damaged:
            client.download(file, commit, part)
        path = new / file.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.chmod(0o400)  # ranks may read it in place, and must not change what other jobs read
        part.rename(path)

    _all(
        missing,
        download,
        (*client.faults, Damaged),
        lambda start: _progress(source, here, begun=begun, size=size, start=start, notice=notice),
    )
    shutil.rmtree(parts)
    if directory.exists():  # incomplete, since its mark is missing
        shutil.rmtree(directory)
    new.rename(directory)
    facts = {
        "version": 1, "repository": source.repository, "kind": source.kind, "revision": source.revision,
        "commit": commit, "files": len(files), "bytes": size, "fetched": time.time(),
    }  # fmt: skip
    replace(store.mark_of(directory), json.dumps(facts, indent=1) + "\n", mode=0o600, flush=True)


def _is_there(path: Path, file: File) -> bool:
    """Whether a file was completed, which is when it got its name."""
    try:
        return path.lstat().st_size == file.size
    except OSError:
        return False


def _all(
    files: Sequence[File],
    download: Callable[[File], None],
    faults: tuple[type[Exception], ...],
    progress: Callable[[float], None],
) -> None:
    """Download all files, some at once; raises the first fault. A signal ends it at once: no thread is waited for."""
    waiting, errors, ended = list(reversed(files)), list[Exception](), Event()
    left = [min(_AT_ONCE, len(files))]

    def work() -> None:
        try:
            while waiting and not errors:
                download(waiting.pop())
        except IndexError:  # another thread took the last one
            pass
        except faults as error:
            errors.append(error)
        finally:
            left[0] -= 1
            if not left[0] or errors:
                ended.set()

    start = time.monotonic()
    for _ in range(left[0]):
        Thread(target=work, daemon=True).start()
    while files and not ended.wait(_EVERY):
        progress(start)
    if errors:
        raise errors[0]


def _progress(
    source: HubSource,
    here: Callable[[], int],
    begun: int,
    size: int,
    start: float,
    notice: Callable[[str], None],
) -> None:
    """One line: share, amount, rate and the time that is left."""
    try:
        now = here()
    except OSError:  # a file has just got its name
        return
    rate = (now - begun) / max(0.1, time.monotonic() - start)
    left = f", {Duration(max(1, int((size - now) / rate)))} left" if rate > 1 else ""
    share = 100 * now // size if size else 100
    notice(f"{source}: {share} %, {Bytes(now)} of {Bytes(size)}, {Bytes(int(rate))}/s{left}")
