"""Check on the submitting host that script, environment and data exist.

A path is checked only if its file system is visible: if even its first directory is missing, it may exist on the nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from dlrun.effects.paths import expanded, fault
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.spec import Spec
from dlrun.plan.data.sets import is_fetched

_VALUED = {
    "python": ("-W", "-X", "--check-hash-based-pycs"),
    "bash": ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"),
    "sh": ("-o", "+o"),
}
"""Interpreters with their options whose value is the next argument (python(1), bash(1))."""
_GLOBAL = re.compile(r"\bDistributedSampler(?=\()(?!\([^)]*LOCAL_)|\bsplit_by_node\b")
"""A division among all ranks: `DistributedSampler` without `LOCAL_RANK` among its arguments, or WebDataset's."""
_INSERTED = {
    re.compile(r"^\s*(?:import|from)\s+(?:pytorch_)?lightning\b", re.MULTILINE): re.compile(
        r"\bTrainer(?=\()(?!\([^)]*use_distributed_sampler\s*=\s*False)"
    ),
    re.compile(r"^\s*(?:import|from)\s+accelerate\b", re.MULTILINE): re.compile(
        r"\baccelerator\.prepare(?=\()"
    ),
}
"""An import -> the call that gives the data a global sampler, unless it is an `IterableDataset`."""
_SCRIPT_SIZE = 1 << 20
"""Characters of a script that are searched."""
_NO_SCRIPT = re.compile(r"-[A-Za-z]*[cms].*")
"""Options without a script after them: `-c`, `-m` and `-s`, also combined as in `-lc`."""


def check(spec: Spec, directory: Path, origins: Mapping[str, Origin]) -> list[Problem]:
    """The problems of files named in the spec; relative paths start at the job's directory."""
    base = directory / expanded(spec.directory or "")
    found = [*_script(spec, base, origins)]
    if spec.environment.venv is not None:
        path = base / expanded(spec.environment.venv)
        why = fault(path / "bin" / "activate", directory=False)
        if _visible(path) and why is not None:
            message = f"no virtual environment at `{spec.environment.venv}`{_more(why)}"
            found.append(_problem("DLR033", message, "environment.venv", origins,
                                  "give the directory that holds bin/activate"))  # fmt: skip
    for name, data in spec.data.items():
        path = base / expanded(data.source)
        why = None if any(c in data.source for c in "*?[") else fault(path)
        if _visible(path) and why is not None and not is_fetched(data.source):
            found.append(_problem("DLR034", f"data set `{name}`: `{data.source}` {why}", f"data.{name}.source", origins,
                                  "check the path; it is read from every node"))  # fmt: skip
    for name, secret in spec.secrets.items():
        if secret.file is not None and _visible(path := base / expanded(secret.file)):
            found += _secret_file(name, path, origins)
    return found


def _script(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check the script of `python SCRIPT …`: the first argument that is not an option or its value."""
    program = Path(spec.command[0]).name.rstrip("0123456789.")
    if spec.run is not None or spec.environment.container is not None:
        return
    if program not in _VALUED:
        yield from _own_program(spec.command[0], base, origins)
        return
    before = ""
    for index, argument in enumerate(spec.command[1:], start=1):
        if _NO_SCRIPT.fullmatch(argument) or "{{" in argument:
            return
        value = before in _VALUED[program]
        before = argument
        if value or argument.startswith(("-", "+")):
            continue
        path = base / expanded(argument)
        why = fault(path, directory=False)
        if why is None:
            yield from _global_sampler(spec, path, origins)
        elif _visible(path):
            yield _problem(
                "DLR032",
                f"script `{argument}` {why}",
                f"command.{index}",
                origins,
                _where(path, argument, base, origins),
            )
        return


def _where(path: Path, argument: str, base: Path, origins: Mapping[str, Origin]) -> str:
    """A help line with the probable place of a missing script."""
    place = origins.get("command") or origins.get("name")
    folder = Path(place.name).parent if place is not None and place.layer is Layer.SPEC else Path()
    if folder != Path() and fault(folder / argument, directory=False) is None:
        return f"it is beside the spec, but a job starts where it is submitted: `cd {folder}`, or write `directory: {folder}`"
    if (why := fault(base, directory=True)) is not None:
        return f"relative paths start at `{base}`, which {why}"
    near = _beside(path)
    return f"in that directory: {', '.join(near)}" if near else f"relative paths start at `{base}`"


def _own_program(name: str, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check a program given by path, if it exists: it must be executable, without CRLF in its `#!` line."""
    path = base / expanded(name)
    if "/" not in name or "{{" in name or not _visible(path):
        return
    if fault(path, directory=False) is not None:
        return  # the lines of `setup` may create it
    if not os.access(path, os.X_OK):
        hint = f"`chmod +x {name}`, or name what runs it: `command: [bash, {name}]`"
        yield _problem("DLR032", f"program `{name}` may not be executed", "command.0", origins, hint)
    elif _first_line(path).endswith(b"\r"):
        hint = f"`sed -i 's/\\r$//' {name}` converts them"
        yield _problem(
            "DLR032",
            f"`{name}` has Windows line ends (CRLF), so its first line names a program `bash\\r`",
            "command.0",
            origins,
            hint,
        )


def _first_line(path: Path) -> bytes:
    """The `#!` line of a script; empty for anything else."""
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return b""
    return line.rstrip(b"\n") if line.startswith(b"#!") else b""


def _global_sampler(spec: Spec, script: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """A warning if nodes get different files (strategy shard) and the script divides them among all ranks."""
    parts = [name for name, data in spec.data.items() if data.strategy == "shard"]
    if not parts or spec.resources.nodes < 2:
        return
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            found = _divides(file.read(_SCRIPT_SIZE))
    except OSError:
        return
    if found is not None:
        key = f"data.{parts[0]}.strategy"
        message = f"data set `{parts[0]}` is sharded, but `{found[0]}` in `{script.name}` divides what it sees among all ranks"
        yield replace(
            _problem("DLR108", message, key, origins, "divide each node's part among its own ranks (`rank=LOCAL_RANK`), or use "
                     "`strategy: copy`"),
            warning=True,
        )  # fmt: skip


def _divides(text: str) -> re.Match[str] | None:
    """The place in a script that divides its data among all ranks of the job."""
    found = _GLOBAL.search(text)
    if found is not None or "IterableDataset" in text:
        return found
    calls = (call.search(text) for imported, call in _INSERTED.items() if imported.search(text))
    return next((call for call in calls if call is not None), None)


def _beside(path: Path) -> list[str]:
    """Up to three files with the suffix of a missing one, in its directory."""
    try:
        return sorted(p.name for p in path.parent.glob(f"*{path.suffix}"))[:3]
    except (OSError, ValueError):
        return []


def _more(why: str) -> str:
    """The reason for a message, unless it is only that the path does not exist."""
    return "" if why == "does not exist" else f": `bin/activate` {why}"


def _secret_file(name: str, path: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    key = f"secrets.{name}"
    if (why := fault(path, directory=False)) is not None:
        yield _problem("DLR035", f"the file of secret `{name}` {why}", key, origins, f"looked for `{path}`")
    elif path.stat().st_mode & 0o077:
        yield _problem(
            "DLR035",
            f"the file of secret `{name}` can be read by others",
            key,
            origins,
            f"`chmod 600 {path}`",
        )


def _problem(code: str, message: str, key: str, origins: Mapping[str, Origin], help: str) -> Problem:
    origin = origins.get(key) or origins.get(key.rpartition(".")[0])
    return Problem(code=code, message=message, origin=origin, help=help)


def _visible(path: Path) -> bool:
    """Whether this host sees the file system of a path: its first directory exists."""
    parts = path.parts
    return not path.is_absolute() or len(parts) < 3 or fault(Path(*parts[:2])) is None
