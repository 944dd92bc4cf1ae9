"""The record of the code that is sent to a login node, and what it would be today.

The files are in the job's own directory there. As on this machine they are compared at each start of the job
(templates/lib/code.sh), which finds what an earlier run has written to them, and what a power cut has damaged. Of a snapshot
they are links to the store of code there, and again in a directory of which each run gets a copy of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from dlrun.jobs.code import choose, git, record, snapshot, store
from dlrun.jobs.code.names import LARGEST, RECORD, SNAPSHOT, SNAPSHOT_LIST, is_listed, is_secret
from dlrun.jobs.code.reach import Digests
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json
from dlrun.jobs.remote import record as remote_record
from dlrun.jobs.remote.files import FILES, SentFile, digest_in
from dlrun.model.data import FileList, Snapshot
from dlrun.model.plan import Plan
from dlrun.system.paths import read_bytes

_TREES = "code/trees"
"""In the job directory on the login node: the files of its snapshot, by the digest of their list."""
_MOST = 64 << 20
_SECONDS = 60.0


def files(plan: Plan, sent: Sequence[SentFile], keys: Mapping[str, str], base: Path) -> dict[str, str]:
    """Name -> text of the record for the job directory; empty with `code: off`, or if nothing is sent.

    keys: of the sent files (`remote.files.keys`); base: their directory on this machine.
    """
    if plan.code == "off" or not keys:
        return {}
    if isinstance(plan.code, Snapshot):
        return snapshot.with_roles(plan, _snapshot(plan, sent, keys, base))
    digests = Digests(complete=True)
    for file in sent:
        if (key := keys.get(file.name)) is None or not is_listed(file.name):
            continue
        if is_secret(file.path.name):
            digests.secret += 1
        elif (file.size or 0) > LARGEST:
            digests.large += 1
        else:
            digests.size += file.size or 0
            digests.files[f"{plan.directory}/{file.name}"] = digest_in(key)
    return snapshot.with_roles(plan, record.of_sent(plan, base, digests))


class ChosenFiles(NamedTuple):
    """The files of a snapshot, and notes about others."""

    files: list[SentFile]
    notes: list[str]


def chosen(sent: Sequence[SentFile], wanted: Snapshot, named: Sequence[str]) -> ChosenFiles:
    """The files of a snapshot among those to send; named: exact names, which may be of secrets.

    Raises Invalid if they are larger than the limit.
    """
    left_out = [choose.excluded(pattern) for pattern in wanted.exclude]
    left = [file for file in sent if not any(pattern.fullmatch(file.name) for pattern in left_out)]
    allowed = {os.path.normpath(name) for name in (*named, *wanted.include)}
    secrets = [
        file.name
        for file in left
        if file.size is not None and is_secret(file.path.name) and file.name not in allowed
    ]
    taken = [file for file in left if file.name not in secrets]
    choose.check_size({file.name: file.size or 0 for file in taken}, wanted)
    return ChosenFiles(taken, [choose.left_out_secrets(secrets)] if secrets else [])


def _snapshot(plan: Plan, sent: Sequence[SentFile], keys: Mapping[str, str], base: Path) -> dict[str, str]:
    text = FileList(
        files={name: digest_in(key) for name, key in keys.items()},
        links={file.name: file.link for file in sent if file.link is not None},
        executable=frozenset(name for name, key in keys.items() if key.endswith("x")),
    ).text()
    digest = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    place = plan.directory.removesuffix(f"/{FILES}")
    digests = Digests(files={f"{plan.directory}/{name}": digest_in(key) for name, key in keys.items()})
    facts = {
        "digest": digest,
        "files": len(keys),
        "bytes": sum(file.size or 0 for file in sent if file.name in keys),
    }
    texts = record.of_sent(plan, base, digests, facts)
    return texts | {SNAPSHOT: f"{place}/{_TREES}/{digest}\n.\n", SNAPSHOT_LIST: text}


def tree(texts: Mapping[str, str], place: str) -> str:
    """The directory, in the job directory `place` of the login node, of the snapshot that these texts name, or empty."""
    path = texts.get(SNAPSHOT, "").partition("\n")[0]
    return path.removeprefix(f"{place}/") if path.startswith(f"{place}/") else ""


def is_stored(job: Job) -> bool:
    """Whether the files of a job were sent as a snapshot."""
    return (job.directory / SNAPSHOT).exists()


def kept(job: Job) -> dict[str, str]:
    """The record of a job, for one that runs in the same files again."""
    texts = {}
    for name in (RECORD, record.LIST, record.DIFF, SNAPSHOT, SNAPSHOT_LIST):
        with suppress(OSError):
            texts[name] = read_bytes(job.directory / name, _MOST).decode("utf-8", "surrogateescape")
    return texts


class RerunParts(NamedTuple):
    """The texts of a job directory, the files to send, and their keys."""

    texts: dict[str, str]
    sent: tuple[SentFile, ...]
    keys: dict[str, str]


def parts_of_rerun(job: Job, texts: Mapping[str, str], place: str) -> RerunParts:
    """What a job in the directory `place` has that runs the code of `job` again.

    A snapshot becomes the new job's own, from the store there: what that lacks is sent if it is here as it was.
    """
    code, plan = kept(job), job.plan()
    if not is_stored(job):
        return RerunParts({**texts, **snapshot.with_roles(plan, code)}, (), {})
    known, (old, *more) = FileList.parse(code[SNAPSHOT_LIST]), code[SNAPSHOT].splitlines()
    how = spec_arguments.read(job.directory)
    here = how.directory if how is not None else Path()
    sent = [
        SentFile(name=name, path=here / name, size=size, mtime_ns=mtime, mode=mode, link=link)
        for name, size, mtime, mode, link in remote_record.files(job.directory)
    ]
    keys = {
        name: f"{key[:2]}/{key[2:]}"
        for name, digest in known.files.items()
        for key in [store.key_of(digest, 0o500 if name in known.executable else 0o400)]
    }
    first = "".join(f"{line}\n" for line in (f"{place}/{_TREES}/{Path(old).name}", *more))
    return RerunParts({**texts, **snapshot.with_roles(plan, code | {SNAPSHOT: first})}, tuple(sent), keys)


class CodeNow(NamedTuple):
    """The code of a job as it is now: its directory, the working tree of Git there, and name -> digest of its files."""

    root: Path
    repository: git.Repository | None
    files: dict[str, str]


def today(job: Job) -> CodeNow:
    """The files that were sent for a job, as they are on this machine now."""
    how = spec_arguments.read(job.directory)
    place = how.directory if how is not None else Path()
    digests = {}
    for name in _recorded(job):
        with suppress(OSError):
            digests[name] = store.digest_of(place / name)
    return CodeNow(place, git.repository(place, _SECONDS), digests)


def _recorded(job: Job) -> Iterable[str]:
    """The names of the files with digests in a job's record."""
    top = job.plan().directory
    for name in (SNAPSHOT_LIST, record.LIST):
        with suppress(OSError):
            text = read_bytes(job.directory / name, _MOST).decode("utf-8", "surrogateescape")
            names = FileList.parse(text).files
            yield from (os.path.relpath(path, top) if path.startswith("/") else path for path in names)


def files_of(job: Job) -> str | None:
    """The directory on the login node with the files that were sent, for this job or one before it; None for other jobs."""
    if job.remote is None:
        return None
    recorded = (read_json(job.directory / RECORD) or {}).get("directory")
    place = job.plan().directory
    return place if place in (f"{job.remote.directory}/{FILES}", recorded) else None
