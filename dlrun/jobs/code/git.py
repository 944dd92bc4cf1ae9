"""What git knows of a directory: commit, branch, remote, changed files, and the files of the working tree."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    remote: URL without user, password and parameters; changed: tracked files that differ from the commit, None if git did not
    say; tracked: also those of submodules; untracked: those that are not ignored, a repository in this one with `/`. Paths are
    relative to `root`.
    """

    root: Path
    commit: str | None
    branch: str | None
    remote: str | None
    changed: tuple[str, ...] | None = None
    tracked: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def new(self) -> list[str]:
        """The untracked files that are code."""
        return [name for name in self.untracked if is_code(os.path.basename(name))]  # noqa: PTH119 - text alone


def root_of(directory: Path) -> Path | None:
    """The top of the working tree that a directory is in, as git finds it; None without one."""
    return next((place for place in (directory, *directory.parents) if os.path.lexists(place / ".git")), None)


def repository(directory: Path, timeout: float) -> Repository | None:
    """The working tree of a directory; None if there is none, or git is not installed or does not list it in time (seconds)."""
    tree = head(directory, timeout)
    listed = None if tree is None else with_files(tree, timeout)
    return None if listed is None or listed.changed is None else listed


def head(directory: Path, timeout: float) -> Repository | None:
    """The working tree without its files, which takes a handful of reads, however many there are; None as for `repository`."""
    top = root_of(directory)
    if top is None:
        return None
    try:
        commit = _git(top, "rev-parse", "--quiet", "--verify", "HEAD", timeout=timeout, none=True).strip()
        branch = _git(top, "symbolic-ref", "--quiet", "--short", "HEAD", timeout=timeout, none=True).strip()
        keys = r"^(remote\..*\.url|branch\..*\.remote)$"
        named = _git(top, "config", "--get-regexp", keys, timeout=timeout, none=True)
    except (DlrunError, ValueError):
        return None
    return Repository(root=top, commit=commit or None, branch=branch or None, remote=_remote(named, branch))


def with_files(tree: Repository, timeout: float) -> Repository:
    """A working tree with its files, as far as git lists them within so many seconds."""
    end = time.monotonic() + timeout

    def ask(*words: str, at: Path = tree.root) -> list[str]:
        return [name for name in _git(at, *words, timeout=end - time.monotonic()).split("\0") if name]

    try:
        tracked = ask("ls-files", "-z", "--cached", "--recurse-submodules")
        # With submodules a file may be named twice.
        tree = replace(tree, tracked=tuple(dict.fromkeys(tracked)))
        # It looks at each file, and is slow where that is.
        status = ask("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames")
        changed, untracked, submodules = _parsed(status)
        for name in submodules:  # `git status` counts their new files and does not name them
            others = ask("ls-files", "-z", "--others", "--exclude-standard", at=tree.root / name)
            untracked += [f"{name}/{other}" for other in others]
    except (DlrunError, ValueError):
        return tree
    return replace(tree, changed=tuple(changed), untracked=tuple(untracked))


def fault(directory: Path, timeout: float) -> str:
    """Why git does not list the files of a working tree, in its own words; empty if it does."""
    try:
        _git(directory, "status", "--porcelain=v2", "--untracked-files=no", timeout=timeout)
    except DlrunError as error:
        return error.message
    except ValueError as error:
        return str(error).strip().partition("\n")[0]
    return ""


def difference(tree: Repository, timeout: float) -> str:
    """The changes of tracked files since the commit, of at most 1 MiB, without large files and secrets; empty without any."""
    names = [name for name in tree.changed or () if _shown(tree.root / name)][:_MOST_NAMED]
    if not names or tree.commit is None:
        return ""
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
    try:
        text = _git(tree.root, "--literal-pathspecs", "diff", *options, "HEAD", "--", *names, timeout=timeout)
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


def _git(directory: Path, *words: str, timeout: float, none: bool = False) -> str:
    """The output of git; none: there may be no answer. Raises the errors of `run`, ValueError if git fails."""
    # No locks and no programs of the repository's own configuration; nothing of a git that runs this command as its hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *words]
    done = run(argv, environment=environment, directory=directory, timeout=max(0.1, timeout))
    if done.returncode > none or done.returncode < 0:
        raise ValueError(done.stderr)
    return done.stdout


def _parsed(status: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """(changed tracked files, untracked files, submodules with such) of `git status --porcelain=v2 -z`."""
    changed, untracked, submodules = [], [], []
    # Fields before the path: of an ordinary change, and of an unmerged file.
    before = {"1": 8, "u": 10}
    for line in status:
        kind, _, rest = line.partition(" ")
        if kind in before:
            path = line.split(" ", before[kind])[-1]
            changed.append(path)
            if line.split(" ", 3)[2].endswith("U"):  # S<commit><changed><untracked>
                submodules.append(path)
        elif kind == "?":
            untracked.append(rest)
    return changed, untracked, submodules


def _remote(configured: str, branch: str) -> str | None:
    """The URL of the branch's remote, else of `origin`, else of the first."""
    named = dict(line.split(" ", 1) for line in configured.splitlines() if " " in line)
    urls = {name: url for name, url in named.items() if name.endswith(".url")}
    of_branch = f"remote.{named.get(f'branch.{branch}.remote')}.url"
    url = urls.get(of_branch) or urls.get("remote.origin.url") or next(iter(urls.values()), None)
    return None if url is None else without_secrets(re.split(r"[?#]", _USER.sub(r"\1", url))[0])
