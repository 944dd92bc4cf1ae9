"""The snapshot of a job: its version of the code in the store, and the files of its directory that name it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid
from dlrun.jobs.code import environment, git, store
from dlrun.jobs.code.choose import choose, listed
from dlrun.jobs.code.names import RECORD, SNAPSHOT, SNAPSHOT_LIST
from dlrun.jobs.code.record import DIFF, described, outputs
from dlrun.jobs.records.validation import MOST, read_json
from dlrun.model.data import Snapshot
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan
from dlrun.model.units import Bytes, many
from dlrun.system.paths import read_bytes

_DIFF_SECONDS = 30.0
_FACTS = ("root", "digest", "files", "bytes", "repository")
"""What the record of a job says about a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """files: name -> text for the job directory; linked: name -> file of the store to link there; facts: for the record."""

    files: Mapping[str, str] = field(default_factory=dict)
    linked: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] | None = None


@contextmanager
def taken(
    plan: Plan,
    base: Path,
    target: Path,
    without: Sequence[str],
    earlier: Path | None,
    notice: Callable[[str], None],
) -> Iterator[Taken]:
    """The snapshot for a job directory that is made within the block, in which nothing is removed from the store.

    base: of new job directories; without: directories whose new files are not code; earlier: directory of a job whose snapshot
    is used again. Raises the errors of `choose` and `store`.
    """
    if not isinstance(plan.code, Snapshot):
        yield Taken()
    elif earlier is not None and (earlier / SNAPSHOT).exists():
        yield from _of_earlier(earlier)
    else:
        yield from _new(plan, plan.code, store.place_for(base, target), without, notice)


def _new(
    plan: Plan, wanted: Snapshot, place: Path, without: Sequence[str], notice: Callable[[str], None]
) -> Iterator[Taken]:
    chosen = choose(plan, wanted, [*outputs(plan), *without])
    with store.locked(place):
        version = store.add(place, chosen)
        notes = list(chosen.notes)
        if version.pointers:
            notes.append(
                f"pointers of Git LFS without their content (`git lfs pull`): {listed(version.pointers)}"
            )
        for note in notes:
            notice(f"code: {note}")
        notice(
            f"code: {many(len(chosen.files), 'file')} ({Bytes(version.size)}) as version {version.tree.name[:12]}, "
            f"{Bytes(version.added)} new in the store"
        )
        repository = chosen.repository
        below = os.path.relpath(plan.directory, chosen.root)
        imported = environment.editable(plan, chosen.root)
        yield Taken(
            files={
                SNAPSHOT: "".join(f"{line}\n" for line in (version.tree, below, *imported)),
                SNAPSHOT_LIST: version.text,
            }
            | (
                {DIFF: text}
                if repository is not None and (text := git.difference(repository, _DIFF_SECONDS))
                else {}
            ),
            linked={SNAPSHOT_LIST: version.list},
            facts={
                "root": str(chosen.root),
                "digest": version.tree.name,
                "files": len(chosen.files),
                "bytes": version.size,
                "repository": described(repository),
            },
        )


def _of_earlier(job: Path) -> Iterator[Taken]:
    tree = tree_of(job)
    with store.locked(tree.parents[1]):
        if not tree.is_dir():
            raise gone(job, tree)
        names = [name for name in (SNAPSHOT, SNAPSHOT_LIST, DIFF) if (job / name).exists()]
        yield Taken(
            files={name: read_bytes(job / name, MOST).decode("utf-8", "surrogateescape") for name in names},
            linked={SNAPSHOT_LIST: job / SNAPSHOT_LIST},
            facts={key: (read_json(job / RECORD) or {}).get(key) for key in _FACTS},
        )


def with_roles(plan: Plan, made: Mapping[str, str], root: str | None = None) -> dict[str, str]:
    """The files of the record and of the snapshot, and those in the directory of each role, a job of its own that reads them.

    root: of the snapshot, on this machine. Raises Invalid for a role that works outside of it.
    """
    files = dict(made)
    for role_plan in (role.plan for role in plan.each_role):
        of_role = {name: text for name, text in made.items() if name != DIFF}
        if SNAPSHOT in of_role and root is not None:
            tree, _, *imported = of_role[SNAPSHOT].splitlines()
            below = os.path.relpath(role_plan.directory, root)
            if below.split("/")[0] == "..":
                raise Invalid(
                    f"role `{role_plan.role}` works in `{role_plan.directory}`, and the snapshot is one of `{root}`",
                    help="use a `directory` inside it, or `code: record`",
                )
            of_role[SNAPSHOT] = "".join(f"{line}\n" for line in (tree, below, *imported))
        files |= {f"{role_directory(role_plan.role or '')}/{name}": text for name, text in of_role.items()}
    return files


def tree_of(job: Path) -> Path:
    """The tree of a job's version in the store; raises Invalid if the job has none."""
    try:
        # The second line is the working directory, relative to the tree.
        tree, _, *_ = read_bytes(job / SNAPSHOT, 1 << 16).decode("utf-8", "surrogateescape").splitlines()
        return Path(tree)
    except (OSError, ValueError):
        raise Invalid(
            f"job `{job.name}` has no snapshot of its code",
            help="`code: snapshot`, or `dlrun submit --snapshot`, takes one",
        ) from None


def gone(job: Path, tree: Path) -> Invalid:
    """The error for a version that was removed from the store."""
    return Invalid(
        f"the code of `{job.name}` is not in the store any more: there is no `{tree}`",
        help="`dlrun resubmit --code now` takes today's",
    )
