"""What git knows of a directory: commit, branch, remote, changed files, and the files of the working tree."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrun.config.secret_names import without_secrets
from dlrun.errors import DlrunError
from dlrun.jobs.code.names import LARGEST, is_code, is_secret
from dlrun.system.process import run

_LARGEST_DIFF = 1 << 20
"""Bytes of the differences that are kept."""
_MOST_NAMED = 1000
"""Changed files whose differences are asked for: the arguments of one command."""
_USER = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A working tree. root: its top directory; commit: None before the first one; branch: None if HEAD is detached;
    remote: URL without user, password and parameters; changed: tracked files that differ from the commit; tracked: also those
    of submodules; untracked: those that are not ignored, a repository in this one with `/`. Paths are relative to `root`.
    """

    root: Path
    commit: str | None
    branch: str | None
    remote: str | None
    changed: tuple[str, ...]
    tracked: tuple[str, ...]
    untracked: tuple[str, ...]

    @property
    def new(self) -> list[str]:
        """The untracked files that are code."""
        return [name for name in self.untracked if is_code(os.path.basename(name))]  # noqa: PTH119 - text alone


def root_of(directory: Path) -> Path | None:
    """The top of the working tree that a directory is in, as git finds it; None without one."""
    return next((place for place in (directory, *directory.parents) if os.path.lexists(place / ".git")), None)


def repository(directory: Path, timeout: float) -> Repository | None:
    """The working tree of a directory; None if there is none, or git is not installed or does not answer in time (seconds)."""
    top = root_of(directory)
    if top is None:
        return None
    try:
        options = ("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames")
        status = _git(top, timeout, "status", *options)
        tracked = _git(top, timeout, "ls-files", "-z", "--cached", "--recurse-submodules").split("\0")
        remotes = _git(top, timeout, "config", "--get-regexp", r"^remote\..*\.url$", none=True)
        headers, changed, untracked, submodules = _parsed(status)
        for name in submodules:  # `git status` counts their new files and does not name them
            others = _git(top / name, timeout, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
            untracked += [f"{name}/{other}" for other in others if other]
    except (DlrunError, ValueError):
        return None
    commit, branch = headers.get("branch.oid"), headers.get("branch.head")
    return Repository(
        root=top,
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        remote=_remote(remotes, headers.get("branch.upstream", "")),
        changed=tuple(changed),
        tracked=tuple(dict.fromkeys(name for name in tracked if name)),
        untracked=tuple(untracked),
    )


def fault(directory: Path, timeout: float) -> str:
    """Why git does not list the files of a working tree, in its own words; empty if it does."""
    try:
        _git(directory, timeout, "status", "--porcelain=v2", "--untracked-files=no")
    except DlrunError as error:
        return error.message
    except ValueError as error:
        return str(error).strip().partition("\n")[0]
    return ""


def difference(found: Repository, timeout: float) -> str:
    """The changes of tracked files since the commit, of at most 1 MiB, without large files and secrets; empty without any."""
    names = [name for name in found.changed if _shown(found.root / name)][:_MOST_NAMED]
    if not names or found.commit is None:
        return ""
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
    try:
        text = _git(found.root, timeout, "--literal-pathspecs", "diff", *options, "HEAD", "--", *names)
    except DlrunError:
        return ""
    if len(text) > _LARGEST_DIFF:
        text = text[:_LARGEST_DIFF].rpartition("\n")[0] + "\n[more differences were left out]\n"
    return without_secrets(text)


def _shown(path: Path) -> bool:
    if is_secret(path.name):
        return False
    try:
        return path.lstat().st_size <= LARGEST
    except OSError:  # deleted
        return True


def _git(directory: Path, timeout: float, *words: str, none: bool = False) -> str:
    """The output of git; none: a failure is an empty answer. Raises the errors of `run`, ValueError if git fails."""
    # No locks and no programs of the repository's own configuration; nothing of a git that runs this command as its hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *words]
    done = run(argv, environment=environment, directory=directory, timeout=timeout)
    if done.returncode and not none:
        raise ValueError(done.stderr)
    return done.stdout


def _parsed(status: str) -> tuple[dict[str, str], list[str], list[str], list[str]]:
    """(headers, changed tracked files, untracked files, submodules with such) of `git status --porcelain=v2 -z`."""
    headers: dict[str, str] = {}
    changed, untracked, submodules = [], [], []
    # Fields before the path: of an ordinary change, and of an unmerged file.
    before = {"1": 8, "u": 10}
    for line in status.split("\0"):
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in before:
            path = line.split(" ", before[kind])[-1]
            changed.append(path)
            if line.split(" ", 3)[2].endswith("U"):  # S<commit><changed><untracked>
                submodules.append(path)
        elif kind == "?":
            untracked.append(rest)
    return headers, changed, untracked, submodules


def _remote(urls: str, upstream: str) -> str | None:
    """The URL of the branch's remote, else of `origin`, else of the first."""
    found = {
        name.removeprefix("remote.").removesuffix(".url"): url
        for name, _, url in (line.partition(" ") for line in urls.splitlines())
    }
    name = next((name for name in _of_upstream(upstream) if name in found), None)
    url = found.get(name or "origin") or next(iter(found.values()), None)
    if url is None:
        return None
    return without_secrets(re.split(r"[?#]", _USER.sub(r"\1", url))[0])


def _of_upstream(upstream: str) -> Sequence[str]:
    """The beginnings of `origin/feature/a` that may be the remote's name."""
    parts = upstream.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
