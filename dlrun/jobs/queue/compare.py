"""Compare two runs, or a run and today: plan, settings, code, environment."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.errors import DlrunError
from dlrun.jobs.code import choose, environment, git, reach, record, store
from dlrun.jobs.code.history import History
from dlrun.jobs.code.names import SNAPSHOT, SNAPSHOT_LIST
from dlrun.jobs.code.snapshot import tree_of
from dlrun.jobs.queue import replan
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import MOST
from dlrun.jobs.remote import code as remote_code
from dlrun.model.data import FileList, Snapshot
from dlrun.model.json_codec import to_plain
from dlrun.model.plan import Plan
from dlrun.system.paths import read_bytes

_DERIVED = ("decisions", "warnings", "cost", "version")
"""Keys of a plan that follow from others, or explain them."""
_EXPLAINS = re.compile(r"\.(origin\.|(origin|because|rule|source|name)$)")
_SECONDS = 60.0
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two things to compare. texts: name -> lines of settings; files: path -> digest; place: directory that has these
    files now, if any has them as they were; facts: of the code; software: of the environment;
    fault: why its plan cannot be made, if so.
    """

    name: str
    plan: Mapping[str, str]
    texts: Mapping[str, str]
    files: Mapping[str, str]
    place: Path | None
    facts: Mapping[str, str]
    software: Mapping[str, str]
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference; section: plan, settings, code or environment; before, after: None if it is not there."""

    section: str
    name: str
    before: str | None
    after: str | None


def of_job(job: Job) -> Side:
    """A job as it was submitted."""
    known = History(job).record
    root = str(known.get("root") or "/")
    listed = file_list(job)
    place = None
    if (job.directory / SNAPSHOT).exists():
        place = tree_of(job.directory)
    return Side(
        name=job.directory.name,
        plan=_flat(job.plan()),
        texts=_settings(job),
        files={
            os.path.relpath(name, root) if name.startswith("/") else name: digest
            for name, digest in listed.files.items()
        },
        place=place,
        facts=_facts(known.get("repository") or {}),
        software=_software(known.get("environment") or {}),
    )


def of_now(job: Job) -> Side:
    """What a submission of a job's spec would give today."""
    plan, fault = job.plan(), None
    try:
        if job.remote is None:  # elsewhere it is planned for the facts of that host
            plan = replan.planned(job, ()).plan
    except DlrunError as error:
        fault = error.message
    code = remote_code.today(job) if remote_code.files_of(job) else _files_now(plan)
    here = job.remote is None
    software = environment.described(plan, code.root) if here else environment.named(plan, code.files)
    return Side(
        name="now",
        plan=_flat(plan),
        texts=_settings(job),
        files=code.files,
        place=code.root,
        facts=_facts(record.described(code.repository) or {}),
        software=_software(software),
        fault=fault,
    )


def _files_now(plan: Plan) -> remote_code.CodeNow:
    """Today's code: that of a snapshot, or that of a record."""
    directory, apart, hashes = Path(plan.directory), record.outputs(plan), reach.Digests()
    if isinstance(plan.code, Snapshot):
        chosen = choose.choose(plan, plan.code, apart)
        digests = {name: store.digest_of(chosen.root / name) for name in chosen.files}
        return remote_code.CodeNow(chosen.root, chosen.repository, digests)
    repository = git.repository(directory, _SECONDS)
    root = repository.root if repository is not None else directory
    inside = reach.of_repository(repository, apart) if repository is not None else reach.below(root, apart)
    reach.read(
        [*reach.beside(record.words(plan), directory, root), *inside], hashes, time.monotonic() + _SECONDS
    )
    digests = {os.path.relpath(path, root): digest for path, digest in hashes.files.items()}
    return remote_code.CodeNow(root, repository, digests)


def file_list(job: Job) -> FileList:
    """The files of a job's snapshot, else those that were recorded, by their absolute paths; raises Invalid without either."""
    for name in (SNAPSHOT_LIST, record.LIST):
        with suppress(OSError):
            return FileList.parse(read_bytes(job.directory / name, MOST).decode("utf-8", "surrogateescape"))
    return FileList()


def differences(first: Side, other: Side) -> Iterator[Difference]:
    """All differences, in the order of the sections."""
    sections = (
        ("plan", first.plan, other.plan),
        ("settings", first.texts, other.texts),
        ("code", {**first.facts, **first.files}, {**other.facts, **other.files}),
        ("environment", first.software, other.software),
    )
    for section, before, after in sections:
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield Difference(section=section, name=name, before=before.get(name), after=after.get(name))


def text(first: Side, other: Side, difference: Difference) -> str:
    """A difference of a text as `diff -u` shows it; empty if the content of one of them is not known any more."""
    if difference.section == "settings":
        before, after = difference.before, difference.after
    else:
        before, after = (
            _content(side, difference.name, digest)
            for side, digest in ((first, difference.before), (other, difference.after))
        )
    if before is None and after is None:
        return ""
    if difference.section == "code" and (
        (before is None) != (difference.before is None) or (after is None) != (difference.after is None)
    ):
        return ""
    old, new = ((content or "").splitlines(keepends=True) for content in (before, after))
    return "".join(
        difflib.unified_diff(old, new, f"{first.name}/{difference.name}", f"{other.name}/{difference.name}")
    )


def _content(side: Side, name: str, digest: str | None) -> str | None:
    if digest is None or side.place is None:
        return None
    with suppress(OSError, UnicodeDecodeError):
        if store.digest_of(side.place / name) == digest:
            return read_bytes(side.place / name, _LARGEST).decode("utf-8")
    return None


def _settings(job: Job) -> dict[str, str]:
    texts = {}
    for name in ("spec.yaml", "site.yaml"):
        with suppress(OSError):
            texts[name] = read_bytes(job.directory / name, MOST).decode("utf-8", "replace")
    how = spec_arguments.read(job.directory)
    return texts | (
        {"--set": "".join(f"{setting}\n" for setting in how.sets)} if how is not None and how.sets else {}
    )


def _flat(plan: Plan) -> dict[str, str]:
    """Dotted key -> value of a plan's decisions."""

    def below(data: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(data, Mapping) and data:
            for key, value in data.items():
                yield from below(value, f"{path}.{key}" if path else str(key))
        elif isinstance(data, list | tuple) and any(isinstance(entry, Mapping) for entry in data):
            for number, value in enumerate(data):
                name = value.get("name") if isinstance(value, Mapping) else None
                yield from below(value, f"{path}.{name or number}")
        elif data not in (None, (), [], {}):
            yield path, str(data)

    plain = {key: value for key, value in to_plain(plan).items() if key not in _DERIVED}
    return {name: value for name, value in below(plain, "") if not _EXPLAINS.search(name)}


def _facts(repository: Mapping[str, Any]) -> dict[str, str]:
    return {f"({key})": str(repository[key]) for key in ("commit", "branch", "remote") if repository.get(key)}


def _software(software: Mapping[str, Any]) -> dict[str, str]:
    flat = {key: str(software[key]) for key in ("prefix", "python") if software.get(key)}
    for key in ("distributions", "lock", "image"):
        flat |= {f"{key}: {name}": str(value) for name, value in (software.get(key) or {}).items()}
    return flat | ({"modules": " ".join(software["modules"])} if software.get("modules") else {})
