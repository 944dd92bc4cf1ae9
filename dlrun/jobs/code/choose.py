"""The files of a snapshot: those that git knows, or the code below the working directory, and what the command names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.code import git, reach
from dlrun.jobs.code.names import is_code, is_secret
from dlrun.model.data import Snapshot
from dlrun.model.plan import Plan
from dlrun.model.units import Bytes

_GIT_SECONDS = 120.0
_MOST_FILES = 200_000
_SHOWN = 5
_WORD = re.compile(r"[\w./@%+~-]+")
"""What may be a path in the shell text of `run`."""


@dataclass(slots=True, kw_only=True)
class Chosen:
    """root: top of the working tree; files: path relative to it -> status; links: path -> target of a symbolic link;
    notes: what the user should know about the choice.
    """

    root: Path
    repository: git.Repository | None
    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def choose(plan: Plan, wanted: Snapshot, without: Sequence[str]) -> Chosen:
    """The files of a plan's snapshot; without: directories whose new files are outputs or data.

    Raises OperationFailed if git does not answer or there are too many files, Invalid if they are larger than the limit.
    """
    directory = Path(plan.directory)
    root = git.root_of(directory)
    repository = git.repository(directory, _GIT_SECONDS) if root is not None else None
    if root is not None and repository is None:
        why = git.fault(root, _GIT_SECONDS) or "a submodule is not in order"
        raise OperationFailed(
            f"git does not list the files of `{root}`, so no snapshot can be taken: {why}",
            help="correct that; or `code: record` runs what is there when the job starts",
        )
    chosen = Chosen(root=root or directory, repository=repository)
    named = _named(plan, chosen.root)
    for name in sorted(_candidates(chosen, wanted, named, without)):
        _add(chosen, name)
    _link_what_is_named(chosen, named)
    _check(chosen, wanted)
    return chosen


def _candidates(
    chosen: Chosen, wanted: Snapshot, named: Iterable[str], without: Sequence[str]
) -> Iterator[str]:
    """Names of the files, without those that are excluded and those of secrets, which are noted."""
    top, repository = chosen.root, chosen.repository
    if repository is not None:
        own = [*repository.tracked, *_new_files(chosen, repository, without)]
    else:
        own = [os.path.relpath(path, top) for path in reach.below(top, without)]
    # The program itself, although git ignores it: it is small, and it is what is to run.
    own += [name for name in named if is_code(os.path.basename(name)) and (top / name).is_file()]  # noqa: PTH119 - text alone
    included = [name for pattern in wanted.include for name in _matching(top, pattern)]
    left_out = [excluded(pattern) for pattern in wanted.exclude]
    secrets = []
    for name in dict.fromkeys([*own, *included]):
        if any(pattern.fullmatch(name) for pattern in left_out):
            continue
        if is_secret(os.path.basename(name)) and name not in wanted.include:  # noqa: PTH119 - text alone
            secrets.append(name)
            continue
        yield name
    if secrets:
        chosen.notes.append(left_out_secrets(secrets))


def _new_files(chosen: Chosen, repository: git.Repository, without: Sequence[str]) -> Iterator[str]:
    nested, of_jobs = [], reach.JobDirectories(str(chosen.root))
    for name in repository.untracked:
        if name.endswith("/"):
            nested.append(name)
        elif (
            not reach.is_below(f"{chosen.root}/{name}", without)
            and os.path.dirname(f"{chosen.root}/{name}") not in of_jobs  # noqa: PTH120 - text alone
        ):
            yield name
    if nested:
        chosen.notes.append(f"left out, since they are repositories of their own: {listed(nested)}")


def _matching(top: Path, pattern: str) -> Iterator[str]:
    """The files of a pattern below the top, with all that is in a directory that matches."""
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise Invalid(f"`code: include` takes paths below `{top}`, not `{pattern}`")
    matched = False
    for path in top.glob(pattern):
        matched = True
        below = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
        yield from (str(entry.relative_to(top)) for entry in below if entry.is_symlink() or entry.is_file())
    if not matched:
        raise Invalid(f"`code: include` names `{pattern}`, and nothing in `{top}` matches it")


def excluded(pattern: str) -> re.Pattern[str]:
    """A pattern of `exclude`: `*` and `?` within a name, `**` over directories; what is in a directory that matches, matches."""
    text = pattern.strip("/")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    forms = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    anywhere = "" if "/" in text else "(?:.*/)?"
    return re.compile(
        anywhere + "".join(forms.get(part) or re.escape(part) for part in parts) + "(?:/.*)?", re.DOTALL
    )


def _add(chosen: Chosen, name: str) -> None:
    path = chosen.root / name
    try:
        seen = path.lstat()
    except OSError:  # tracked and deleted
        return
    if stat.S_ISREG(seen.st_mode):
        chosen.files[name] = seen
    elif stat.S_ISLNK(seen.st_mode):
        chosen.links[name] = _target(chosen.root, path)
    elif stat.S_ISDIR(seen.st_mode):
        chosen.notes.append(
            f"`{name}` is an empty directory in the snapshot: the submodule is not checked out"
        )


def _target(root: Path, link: Path) -> str:
    """Where a link of the snapshot leads: as it is if that is in the snapshot's tree, else the place itself."""
    target = os.readlink(link)  # noqa: PTH115 - text alone
    place = os.path.normpath(link.parent / target)
    return target if not target.startswith("/") and reach.is_below(place, [str(root)]) else place


def _named(plan: Plan, root: Path) -> list[str]:
    """Paths that the command names relative to the working directory and that exist, relative to the root."""
    paths = []
    for program, role in ((each, role) for each in plan.programs for role in each.roles):
        for text in (word.literal for word in role.argv):
            for word in _WORD.findall(text or ""):
                path = os.path.normpath(os.path.join(program.directory, word))  # noqa: PTH118 - text alone
                if word[0] in "/-~" or path == str(root) or not reach.is_below(path, [str(root)]):
                    continue
                if os.path.lexists(path):
                    paths.append(os.path.relpath(path, root))
    return list(dict.fromkeys(paths))


def _link_what_is_named(chosen: Chosen, named: Iterable[str]) -> None:
    """What the command names and the snapshot lacks, such as data and a venv that git ignores, stays reachable by a link."""
    have = {*chosen.files, *chosen.links}
    have |= {name[:at] for name in have for at, char in enumerate(name) if char == "/"}
    linked = []
    for name in named:
        parts = name.split("/")
        place = next((p for n in range(1, len(parts) + 1) if (p := "/".join(parts[:n])) not in have), None)
        if place is None or any(reach.is_below(name, [link]) for link in chosen.links):
            continue
        chosen.links[place] = str(chosen.root / place)
        linked.append(place)
    out = [name for name, target in chosen.links.items() if target.startswith("/") and name not in linked]
    if linked:
        chosen.notes.append(f"not in the snapshot, but linked, as the command names them: {listed(linked)}")
    if out:
        chosen.notes.append(f"links that lead out of the snapshot, to what may change: {listed(out)}")


def left_out_secrets(names: Sequence[str]) -> str:
    """The note about files that may hold secrets."""
    return f"left out, since files of such names hold secrets: {listed(names)}; `code: {{include: [NAME]}}` takes them"


def _check(chosen: Chosen, wanted: Snapshot) -> None:
    if len(chosen.files) > _MOST_FILES:
        raise OperationFailed(
            f"the snapshot would have {len(chosen.files)} files, and the most is {_MOST_FILES}",
            help="leave some out: `code: {exclude: [PATTERN]}`, or a `.gitignore`",
        )
    check_size({name: seen.st_size for name, seen in chosen.files.items()}, wanted)


def check_size(sizes: Mapping[str, int], wanted: Snapshot) -> None:
    """Raise Invalid for files (name -> bytes) that are larger together than a snapshot may be."""
    size = sum(sizes.values())
    if size > wanted.limit:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:_SHOWN]
        raise Invalid(
            f"the snapshot would have {Bytes(size)}, and its limit is {wanted.limit}; the largest files: "
            + ", ".join(f"{name} ({Bytes(sizes[name])})" for name in largest),
            help="leave some out: `code: {exclude: [PATTERN]}` or a `.gitignore`; or allow more: `code: {limit: SIZE}`",
        )


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
