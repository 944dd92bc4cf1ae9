"""Check on the submitting host that script, environment and data exist.

A path is checked only if its file system is visible: if even its first directory is missing, it may exist on the nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from shutil import which

from dlrun.config.nodes import short
from dlrun.config.wording import flow_words, yaml_text
from dlrun.model.nearest import nearest, one_slip
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.data.sets import is_fetched
from dlrun.system.inputs import shell_text
from dlrun.system.inputs.places import misspelt_program, near, problem, visible
from dlrun.system.paths import expanded, fault

_VALUED = {
    "python": ("-W", "-X", "--check-hash-based-pycs"),
    "bash": ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"),
    "sh": ("-o", "+o"),
}
"""Interpreters with their options whose value is the next argument (python(1), bash(1))."""
_GLOBAL = lazy_pattern(r"\bDistributedSampler(?=\()(?!\([^)]*LOCAL_)|\bsplit_by_node\b")
"""A division among all ranks: `DistributedSampler` without `LOCAL_RANK` among its arguments, or WebDataset's."""
_INSERTED = {
    lazy_pattern(r"^\s*(?:import|from)\s+(?:pytorch_)?lightning\b", re.MULTILINE): lazy_pattern(
        r"\bTrainer(?=\()(?!\([^)]*use_distributed_sampler\s*=\s*False)"
    ),
    lazy_pattern(r"^\s*(?:import|from)\s+accelerate\b", re.MULTILINE): lazy_pattern(
        r"\baccelerator\.prepare(?=\()"
    ),
}
"""An import -> the call that gives the data a global sampler, unless it is an `IterableDataset`."""
_VARIABLE = lazy_pattern(r"\$\{?([A-Za-z_]\w*)\}?")
_IMAGE_FILE = lazy_pattern(r"(?!\w+://)(?:[~./].*|.*\.(?:sif|sqsh|squashfs|simg|img))")
"""An image given by path: Apptainer's `.sif` and sandboxes, enroot's squashfs files; others are names in a registry."""
_SCRIPT_SIZE = 1 << 20
"""Characters of a script that are searched."""
_NO_SCRIPT = lazy_pattern(r"-[A-Za-z]*[cms].*")
"""Options without a script after them: `-c`, `-m` and `-s`, also combined as in `-lc`."""


def check(spec: Spec, directory: Path, origins: Mapping[str, Origin]) -> list[Problem]:
    """The problems of files named in the spec; relative paths start at the job's directory."""
    base = directory / expanded(spec.directory or "")
    if (unexpanded := _VARIABLE.search(spec.directory or "")) is not None:
        # All relative paths would be missing, too: one problem, at its cause.
        return [_unexpanded(spec.directory or "", unexpanded, "directory", origins)]
    if spec.directory is not None and visible(base) and (why := fault(base, directory=True)) is not None:
        return [_directory(spec.directory, base, why, origins)]
    problems = [*_one_word(spec, base, origins)] or [*_script(spec, base, origins)]
    problems += shell_text.check(spec, base, origins)
    problems += _environment(spec, base, origins)
    problems += _mounts(spec, base, origins)
    for name, data in spec.data.items():
        path = base / expanded(data.source)
        if is_fetched(data.source) or "://" in data.source or any(c in data.source for c in "*?["):
            continue
        key = f"data.{name}.source"
        if "{{" in data.source:
            problems.append(problem("DLR034", f"`{{{{ }}}}` in the source of data set `{name}` is not filled in", key, origins,
                                 "write the path out; only `~` and `$HOME` at the beginning are replaced"))  # fmt: skip
        elif (unexpanded := _VARIABLE.search(data.source)) is not None:
            problems.append(_unexpanded(data.source, unexpanded, key, origins))
        elif not visible(path):
            problems.append(_unseen(path, f"data set `{name}`", key, origins))
        elif (why := fault(path)) is not None:
            problems.append(problem("DLR034", f"data set `{name}`: `{data.source}` {why}", key, origins,
                                  near(path, "check the path; it is read from every node")))  # fmt: skip
    for name, secret in spec.secrets.items():
        if secret.file is not None and visible(path := base / expanded(secret.file)):
            problems += _secret_file(name, path, origins)
    return problems


def _directory(text: str, base: Path, why: str, origins: Mapping[str, Origin]) -> Problem:
    """The problem of a working directory that is none."""
    other = near(base, "check the path; relative ones start where the job is submitted")
    if "{{" in text:
        other = "write the path out: `{{ }}` is for the command and the variables"
    elif text.startswith("~") and "/" in text and not text.startswith("~/"):
        other = "write the path out; only `~` and `$HOME` at the beginning are replaced"
    return problem("DLR032", f"the working directory `{text}` {why}", "directory", origins, other)


_SOURCE = lazy_pattern(r"^(?:source|\.)\s+")
"""How a shell activates an environment."""


def _environment(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check the virtual environment and the container image."""
    venv, container = spec.environment.venv, spec.environment.container
    if venv is not None:
        key, path = "environment.venv", base / expanded(venv)
        why = fault(path / "bin" / "activate", directory=False)
        if path.name in ("activate", "python", "python3") and path.parent.name == "bin":
            yield problem("DLR033", f"`{venv}` is a file of a virtual environment, not its directory", key, origins,
                           f"write `venv: {_SOURCE.sub('', venv).rpartition('/bin/')[0]}`")  # fmt: skip
        elif (unexpanded := _VARIABLE.search(venv)) is not None:
            yield _unexpanded(venv, unexpanded, key, origins)
        elif not visible(path):
            yield _unseen(path, "the virtual environment", key, origins)
        elif why is not None:
            yield problem("DLR033", f"no virtual environment at `{venv}`{_more(why)}", key, origins,
                           near(path, "give the directory that holds bin/activate"))  # fmt: skip
    if container is not None and _IMAGE_FILE.fullmatch(container.image):
        key, path = "environment.container.image", base / expanded(container.image)
        if (unexpanded := _VARIABLE.search(container.image)) is not None:
            yield _unexpanded(container.image, unexpanded, key, origins)
        elif not visible(path):
            yield _unseen(path, "the container image", key, origins)
        elif (why := fault(path)) is not None:
            yield problem("DLR034", f"container image `{container.image}` {why}", key, origins,
                           near(path, "check the path; every node reads it"))  # fmt: skip


def _mounts(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check the paths of this host that a container mounts."""
    container = spec.environment.container
    for index, bind in enumerate(container.binds if container else ()):
        text = bind.partition(":")[0]
        path = base / expanded(text)
        if "$" in text or "{{" in text:
            continue
        if not visible(path):
            yield _unseen(
                path,
                f"`{text}`, which the container mounts,",
                f"environment.container.binds.{index}",
                origins,
            )
            continue
        if (why := fault(path)) is None:
            continue
        yield problem(
            "DLR034",
            f"`{text}`, which the container mounts, {why}",
            f"environment.container.binds.{index}",
            origins,
            near(path, "check the path; every node mounts it"),
            warning=True,
        )  # it may be there on the nodes alone


def _one_word(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """The problem of a whole command line in one item: no program has such a name."""
    first = spec.command[0]
    words = first.split()
    if spec.run is not None or len(words) < 2 or "{{" in words[0] or fault(base / expanded(first)) is None:
        return
    parts = flow_words(first)
    own = list(takewhile(shell_text.ASSIGNED.fullmatch, parts))
    items = ", ".join(map(yaml_text, (*parts[len(own) :], *spec.command[1:])))
    way_out = f"write each argument as an item, `command: [{items}]`, or the line under `run:`"
    if own:
        names = ", ".join(f"{assignment.partition('=')[0]}: …" for assignment in own)
        way_out = f"write `environment: {{variables: {{{names}}}}}` and `command: [{items}]`, or the line under `run:`"
    elif len(spec.command) > 1 and all(len(flow_words(argument)) > 1 for argument in spec.command):
        way_out = "for several lines write shell text, `run: |` with the lines below it"
    yield problem(
        "DLR124",
        f"`{short(first)}` is one word, so it is the name of the program",
        "command.0",
        origins,
        way_out,
    )


def _unexpanded(text: str, match: re.Match[str], key: str, origins: Mapping[str, Origin]) -> Problem:
    """The problem of a variable in a path, with its value in this shell as the way out."""
    value, name = os.environ.get(match[1]), key.rpartition(".")[2]
    written = f"`{name}: {text.replace(match[0], value)}`" if value else "the path that it stands for"
    return problem("DLR100", f"`${match[1]}` in `{name}` is not expanded: no shell reads it", key, origins,
                    f"write {written}; only `~` and `$HOME` at the beginning are replaced")  # fmt: skip


def _unseen(path: Path, what: str, key: str, origins: Mapping[str, Origin]) -> Problem:
    """A warning for a path whose file system this host does not have."""
    return problem(
        "DLR129",
        f"{what} cannot be checked: `{Path(*path.parts[:2])}` is not on this machine",
        key,
        origins,
        "check the path, if the nodes do not have it either",
        warning=True,
    )


def _script(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check the script of `python SCRIPT …`: the first argument that is not an option or its value."""
    program = Path(spec.command[0]).name.rstrip("0123456789.")
    if spec.run is not None or spec.environment.container is not None:
        return
    if program not in _VALUED:
        yield from _own_program(spec.command[0], base, origins)
        yield from misspelt_program(spec.command[0], "command.0", origins)
        yield from _not_on_path(spec.command, base, origins)
        return
    before = ""
    for index, argument in enumerate(spec.command[1:], start=1):
        if argument == "-m" and index + 1 < len(spec.command) and program == "python":
            yield from _module(spec.command[index + 1], f"command.{index + 1}", base, origins)
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
        elif not visible(path):
            yield _unseen(path, f"script `{argument}`", f"command.{index}", origins)
        else:
            words = argument.split()
            split = len(words) > 1 and fault(base / expanded(words[0]), directory=False) is None
            hint = f"write each argument as an item: `{', '.join(map(yaml_text, words))}`" if split else ""
            yield problem("DLR032", f"script `{argument}` {why}", f"command.{index}", origins,
                           hint or _where(path, argument, base, origins))  # fmt: skip
        return


def _module(name: str, key: str, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Warn of a module with almost the name of a file or package in the job's directory."""
    if not name.isidentifier() or fault(base / f"{name}.py") is None or fault(base / name) is None:
        return
    here = [path.removesuffix(".py") for path in _beside(base / "any.py")]
    if (close := next((module for module in here if one_slip(name, module)), None)) is not None:
        yield problem(
            "DLR032",
            f"module `{name}` is not in the job's directory",
            key,
            origins,
            f"the nearest is `{close}`",
            warning=True,
        )


def _where(path: Path, argument: str, base: Path, origins: Mapping[str, Origin]) -> str:
    """A help line with the probable place of a missing script."""
    place = origins.get("command") or origins.get("name")
    folder = Path(place.name).parent if place is not None and place.layer is Layer.SPEC else Path()
    if folder != Path() and fault(folder / argument, directory=False) is None:
        return f"it is beside the spec, but a job starts where it is submitted: `cd {folder}`, or write `directory: {folder}`"
    if (why := fault(base, directory=True)) is not None:
        return f"relative paths start at `{base}`, which {why}"
    others = _beside(path)
    close = nearest(path.name, others)
    if close is not None:
        return f"the nearest there is `{argument.removesuffix(path.name)}{close}`"
    return f"in that directory: {', '.join(others[:3])}" if others else f"relative paths start at `{base}`"


def _not_on_path(command: tuple[str, ...], base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """A script by its name alone, which is looked for on `PATH`, not in the job's directory."""
    name = command[0]
    if (
        "/" in name
        or "." not in name
        or which(name) is not None
        or fault(base / name, directory=False) is not None
    ):
        return
    runs = {".py": "python", ".sh": "bash"}.get(Path(name).suffix)
    instead = (
        f"command: [{runs}, {', '.join(map(yaml_text, command))}]" if runs else f"command: [./{name}, …]"
    )
    yield problem("DLR032", f"program `{name}` is looked for on `PATH`, not in the job's directory", "command.0", origins,
                  f"write `{instead}`")  # fmt: skip


def _own_program(name: str, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Check a program given by path, if it exists: it must be executable, without CRLF in its `#!` line."""
    path = base / expanded(name)
    if "/" not in name or "{{" in name or not visible(path):
        return
    if fault(path, directory=False) is not None:
        return  # the lines of `setup` may create it
    if not os.access(path, os.X_OK):
        hint = f"`chmod +x {name}`, or name what runs it: `command: [bash, {name}]`"
        yield problem("DLR032", f"program `{name}` may not be executed", "command.0", origins, hint)
    elif _first_line(path).endswith(b"\r"):
        hint = f"`sed -i 's/\\r$//' {name}` converts them"
        yield problem(
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
            match = _divides(file.read(_SCRIPT_SIZE))
    except OSError:
        return
    if match is not None:
        key = f"data.{parts[0]}.strategy"
        message = f"data set `{parts[0]}` is sharded, but `{match[0]}` in `{script.name}` divides what it sees among all ranks"
        yield replace(
            problem("DLR108", message, key, origins, "divide each node's part among its own ranks (`rank=LOCAL_RANK`), or use "
                     "`strategy: copy`"),
            warning=True,
        )  # fmt: skip


def _divides(text: str) -> re.Match[str] | None:
    """The place in a script that divides its data among all ranks of the job."""
    match = _GLOBAL.search(text)
    if match is not None or "IterableDataset" in text:
        return match
    calls = (call.search(text) for imported, call in _INSERTED.items() if imported.search(text))
    return next((call for call in calls if call is not None), None)


def _beside(path: Path) -> list[str]:
    """Up to a hundred files with the suffix of a missing one, in its directory."""
    try:
        return sorted(p.name for p in islice(path.parent.glob(f"*{path.suffix}"), 100))
    except (OSError, ValueError):
        return []


def _more(why: str) -> str:
    """The reason for a message, unless it is only that the path does not exist."""
    return "" if why == "does not exist" else f": `bin/activate` {why}"


def _secret_file(name: str, path: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    key = f"secrets.{name}"
    if (why := fault(path, directory=False)) is not None:
        yield problem("DLR035", f"the file of secret `{name}` {why}", key, origins, f"looked for `{path}`")
    elif path.stat().st_mode & 0o077:
        yield problem(
            "DLR035",
            f"the file of secret `{name}` can be read by others",
            key,
            origins,
            f"`chmod 600 {path}`",
        )
