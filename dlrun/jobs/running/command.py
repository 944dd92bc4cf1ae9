"""The spec of a training command that was given on the command line, without a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dlrun.config.block_text import block
from dlrun.plan.command.command_line import literal
from dlrun.system.inputs.spec import Inputs, load_spec

FILE = "command-line.yaml"
"""Name of the spec in messages; relative paths start in the working directory."""
_PYTHON = re.compile(r"(?:pypy|python)[0-9.]*")


def command_inputs(words: Sequence[str], *, sets: Sequence[str], site: str | None) -> Inputs:
    """The inputs of a training command; launchers in it (`torchrun --nproc-per-node=4`) set ranks and framework.

    Raises InvalidFile with all problems of settings and site profile.
    """
    return load_spec(Path(FILE), sets=sets, site=site, text=spec_text(words))


def spec_text(words: Sequence[str]) -> str:
    """The YAML text of the spec of a command."""
    # What is typed in a shell, or stands in a script, has no expressions.
    values: dict[str, Any] = {"name": name_of(words), "command": [literal(word) for word in words]}
    if not _is_plain(words):
        from dlrun.importing import command_draft  # noqa: PLC0415 - a parser of bash, for launchers alone

        values = dict(command_draft(shlex.join(words), name_of(words)).values)
        if "command" in values:
            values["command"] = [literal(word) for word in values["command"]]
        if "run" in values:
            values["run"] = literal(values["run"])
        resources = {key: value for key, value in values.get("resources", {}).items() if key != "nodes"}
        values = {**values, "resources": resources} if resources else _without(values, "resources")
    return "\n".join(block(values, {})) + "\n"


def name_of(words: Sequence[str]) -> str:
    """The name of the job: that of the script, else of the program."""
    script = next((word for word in words if re.search(r"\.(?:py|sh|jl|R)$", word)), words[0])
    return re.sub(r"[\x00-\x1f\x7f]", "", PurePosixPath(script).stem)[:128] or "run"


def _is_plain(words: Sequence[str]) -> bool:
    """Whether the command is a program itself, not a launcher of one."""
    program = PurePosixPath(words[0]).name
    if _PYTHON.fullmatch(program):
        return "-m" not in words[1:3]
    return "/" in words[0] or program in ("bash", "sh")


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
