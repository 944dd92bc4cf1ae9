"""The files of a job directory that record the code, all in `code/`: record, list of digests, distributions, diff."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
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
_OF_GIT = 0.6
"""The part of the time that is left which git may take to list the files: the rest is for reading them."""
_CHANGED = 50
"""Changed files that the record names."""


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What has been found so far: another thread fills it, which may hang in a file system."""

    snapshot: Mapping[str, Any] | None
    root: Path
    repository: git.Repository | None = None
    diff: str = ""
    digests: Digests = field(default_factory=Digests)
    environment: dict[str, Any] = field(default_factory=dict)
    installed: list[tuple[str, str, str]] = field(default_factory=list)
    done: bool = False

    @property
    def missing(self) -> str | None:
        """What could not be looked at; None if all was."""
        parts = []
        if self.repository is not None and self.repository.changed is None:
            parts.append("git did not say which files are new, or differ from the commit")
        if self.digests.behind is not None:
            parts.append(self.digests.behind)
        if not self.done:
            read = self.digests.complete or self.digests.behind is not None
            parts.append(
                f"{'the environment' if read else f'`{self.root}`'} did not answer within {_SECONDS:g} s"
            )
        return "; ".join(parts) or None


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
    findings = _Findings(snapshot=snapshot, root=Path(plan.directory))
    # A read of a hung file system cannot be interrupted; a daemon thread does not keep the program from ending.
    thread = threading.Thread(target=_find, args=(plan, findings, [*outputs(plan), *without]), daemon=True)
    thread.start()
    thread.join(_SECONDS + 0.5)
    if (missing := findings.missing) is not None:
        only = "; `code: strict` compares only what was recorded" if plan.code == "strict" else ""
        notice(f"warning: the code is recorded in part: {missing}{only}")
    return _texts(plan, findings)


def of_sent(
    plan: Plan, directory: Path, digests: Digests, snapshot: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The record of a job on a login node, in whose directory its files are; directory: where they come from, on this machine;
    digests: of the files there, by their absolute paths; snapshot: what is known of their snapshot, which cannot change.
    """
    repository = git.head(directory, _SECONDS)
    if repository is not None:
        repository = git.with_files(repository, _SECONDS)
    there = {os.path.relpath(path, plan.directory): digest for path, digest in digests.files.items()}
    findings = _Findings(
        snapshot=snapshot,
        repository=repository,
        root=Path(plan.directory),
        diff=git.difference(repository, _SECONDS) if repository is not None else "",
        digests=digests if snapshot is None else Digests(complete=True),
        environment=environment.named(plan, there),
        done=True,
    )
    return _texts(plan, findings)


def _find(plan: Plan, findings: _Findings, without: Sequence[str]) -> None:
    deadline = time.monotonic() + _SECONDS
    directory = Path(plan.directory)
    root, inside = directory, reach.below(directory, without)
    if findings.snapshot is not None:
        root, inside = Path(findings.snapshot["root"]), iter([])
    elif (head := git.head(directory, _SECONDS)) is not None:
        # Known from here on, however long git takes for the files: it looks at each of them.
        findings.repository, root = head, head.root
        findings.repository = whole = git.with_files(head, (deadline - time.monotonic()) * _OF_GIT)
        findings.diff = git.difference(whole, (deadline - time.monotonic()) * _OF_GIT)
        listed = whole.tracked or whole.changed is not None
        inside = reach.of_repository(whole, without) if listed else reach.below(root, without)
    findings.root = root
    reach.read([*reach.beside(words(plan), directory, root), *inside], findings.digests, deadline)
    findings.environment = environment.described(plan, root)
    findings.installed = [
        distribution for distribution in environment.installed(plan) if is_listed(distribution.metadata)
    ]
    findings.done = True


def words(plan: Plan) -> list[str]:
    """The words of a plan's commands, without those that are known only in the job."""
    argvs = (role.argv for program in plan.programs for role in program.roles)
    return [word for argv in argvs for text in argv if (word := text.literal)]


def outputs(plan: Plan) -> list[str]:
    """The directories of a plan's data, results and checkpoints."""
    named = [data.source for program in plan.programs for data in program.data]
    named += [plan.results.to] if plan.results is not None else []
    if plan.checkpoint is not None and plan.checkpoint.path is not None:
        named.append(plan.checkpoint.path.literal or "")
    if plan.environment.venv is not None:
        named.append(plan.environment.venv)
    paths = {os.path.normpath(os.path.join(plan.directory, name)) for name in named if name}  # noqa: PTH118 - text alone
    return sorted(paths - {os.path.normpath(plan.directory), "/"})


def _texts(plan: Plan, findings: _Findings) -> dict[str, str]:
    # A copy: the thread may still add to it.
    digests = dict(findings.digests.files)
    repository, root = findings.repository, str(findings.root)
    relative = sorted((os.path.relpath(path, root), digest) for path, digest in digests.items())
    record = {
        "version": 1,
        "directory": plan.directory,
        "root": root,
        "digest": sha256(repr(relative).encode("utf-8", "surrogateescape")).hexdigest() if digests else None,
        "files": len(digests),
        "bytes": findings.digests.size,
        "large": findings.digests.large,
        "secret": findings.digests.secret,
        "incomplete": findings.missing,
        "repository": described(repository),
        "environment": findings.environment,
        **(findings.snapshot or {}),
    }
    made = {RECORD: json.dumps(record, indent=1) + "\n"}
    if digests:
        made[LIST] = FileList(files=digests).text()
    if findings.installed:
        made[DISTRIBUTIONS] = "".join(
            f"{name} {version}\t{path}\n" for name, version, path in findings.installed
        )
    if findings.diff:
        made[DIFF] = findings.diff
    return made


def described(repository: git.Repository | None) -> dict[str, Any] | None:
    """A working tree, for the record; None without git."""
    if repository is None:
        return None
    return {
        "commit": repository.commit,
        "branch": repository.branch,
        "remote": repository.remote,
        "dirty": None if repository.changed is None else bool(repository.changed),
        "changed": (repository.changed or ())[:_CHANGED],
        "untracked": repository.new[:_CHANGED],
    }
