"""The files of a job directory that record the code, all in `code/`: record, list of digests, distributions, diff."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from dlrun.jobs.code import environment, git, reach
from dlrun.jobs.code.names import RECORD, is_listed
from dlrun.jobs.code.reach import Digests
from dlrun.model.data import FileList
from dlrun.model.plan import Plan

DIRECTORY = "code"
LIST = f"{DIRECTORY}/files.sha256"
"""Digests of the files, in the format of sha256sum(1), which compares them when the job starts (templates/lib/code.sh)."""
DISTRIBUTIONS = f"{DIRECTORY}/distributions"
DIFF = f"{DIRECTORY}/diff"
_SECONDS = 2.0
"""The longest time for all of this: 2,000 files take 0.1 s on a file system that answers."""
_CHANGED = 50
"""Changed files that the record names."""


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What has been found so far: another thread fills it, which may hang in a file system."""

    snapshot: Mapping[str, Any] | None
    repository: git.Repository | None = None
    root: Path | None = None
    diff: str = ""
    digests: Digests = field(default_factory=Digests)
    environment: dict[str, Any] = field(default_factory=dict)
    installed: list[tuple[str, str, str]] = field(default_factory=list)
    done: bool = False


def files(
    plan: Plan,
    notice: Callable[[str], None],
    without: Sequence[str] = (),
    snapshot: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Name -> text of the record's files; empty with `code: off`.

    without: directories whose files are not code, besides those that the plan names; snapshot: what is known of the job's
    snapshot, whose files cannot change. Takes at most two seconds; what could not be read by then is missing, and `notice` is
    called with a warning.
    """
    if plan.code == "off":
        return {}
    found = _Findings(snapshot=snapshot)
    # A read of a hung file system cannot be interrupted; a daemon thread does not keep the program from ending.
    thread = threading.Thread(target=_find, args=(plan, found, [*outputs(plan), *without]), daemon=True)
    thread.start()
    thread.join(_SECONDS + 0.5)
    if not found.done and found.digests.behind is None:
        found.digests.behind = f"`{plan.directory}` did not answer within {_SECONDS:g} s"
    if found.digests.behind is not None:
        notice(f"warning: the code is recorded in part: {found.digests.behind}")
    return _texts(plan, found)


def _find(plan: Plan, found: _Findings, without: Sequence[str]) -> None:
    deadline = time.monotonic() + _SECONDS
    directory = Path(plan.directory)
    if found.snapshot is not None:
        root, repository = Path(found.snapshot["root"]), None
        inside: Iterable[str] = ()
    else:
        repository = git.repository(directory, _SECONDS)
        root = repository.root if repository is not None else directory
        inside = (
            reach.of_repository(repository, without) if repository is not None else reach.below(root, without)
        )
    found.repository, found.root = repository, root
    reach.read([*reach.beside(words(plan), directory, root), *inside], found.digests, deadline)
    if repository is not None:
        found.diff = git.difference(repository, max(0.1, deadline - time.monotonic()))
    found.environment = environment.described(plan, root)
    found.installed = [one for one in environment.installed(plan) if is_listed(one[2])]
    found.done = True


def words(plan: Plan) -> list[str]:
    """The words of a plan's commands, without those that are known only in the job."""
    return [word for role in plan.roles for text in role.argv if (word := text.literal)]


def outputs(plan: Plan) -> list[str]:
    """The directories of a plan's data, results and checkpoints."""
    named = [data.source for data in plan.data]
    named += [plan.results.to] if plan.results is not None else []
    if plan.checkpoint is not None and plan.checkpoint.path is not None:
        named.append(plan.checkpoint.path.literal or "")
    if plan.environment.venv is not None:
        named.append(plan.environment.venv)
    paths = {os.path.normpath(os.path.join(plan.directory, name)) for name in named if name}  # noqa: PTH118 - text alone
    return sorted(paths - {os.path.normpath(plan.directory), "/"})


def _texts(plan: Plan, found: _Findings) -> dict[str, str]:
    # A copy: the thread may still add to it.
    digests = dict(found.digests.files)
    repository, root = found.repository, str(found.root or plan.directory)
    relative = sorted((os.path.relpath(path, root), digest) for path, digest in digests.items())
    record = {
        "version": 1,
        "directory": plan.directory,
        "root": root,
        "digest": sha256(repr(relative).encode("utf-8", "surrogateescape")).hexdigest() if digests else None,
        "files": len(digests),
        "bytes": found.digests.size,
        "large": found.digests.large,
        "secret": found.digests.secret,
        "incomplete": found.digests.behind,
        "repository": described(repository),
        "environment": found.environment,
        **(found.snapshot or {}),
    }
    made = {RECORD: json.dumps(record, indent=1) + "\n"}
    if digests:
        made[LIST] = FileList(files=digests).text()
    if found.installed:
        made[DISTRIBUTIONS] = "".join(
            f"{name} {version}\t{path}\n" for name, version, path in found.installed
        )
    if found.diff:
        made[DIFF] = found.diff
    return made


def described(repository: git.Repository | None) -> dict[str, Any] | None:
    """A working tree, for the record; None without git."""
    if repository is None:
        return None
    return {
        "commit": repository.commit,
        "branch": repository.branch,
        "remote": repository.remote,
        "dirty": bool(repository.changed),
        "changed": repository.changed[:_CHANGED],
        "untracked": repository.new[:_CHANGED],
    }
