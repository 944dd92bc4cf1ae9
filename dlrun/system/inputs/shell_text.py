"""Check on the submitting host of the shell text `run:`, and of the variables that the spec takes from the node."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dlrun.model.nearest import nearest, one_slip
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.command.shell_lines import statements
from dlrun.system.inputs.places import misspelt_program, near, problem, visible
from dlrun.system.paths import expanded, fault

ASSIGNED = lazy_pattern(r"[A-Za-z_]\w*=.*", re.DOTALL)
_EXPRESSION = lazy_pattern(r"\{\{.*?\}\}", re.DOTALL)
_OF_NODE = lazy_pattern(r"\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}")
_PYTHON = lazy_pattern(r"python[0-9.]*")
_PLAIN = lazy_pattern(r"[\w./~-]+\.py")
_MOVES = frozenset({"cd", "pushd", "git", "cp", "mv", "wget", "curl", "tar", "unzip", "cat"})
"""Programs after which a file may exist that does not exist now."""


def check(spec: Spec, base: Path, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """The problems of the shell text, and of variables in `{{ env.NAME }}`; `base`: the job's directory."""
    yield from _of_node(spec, origins)
    if spec.run is None or spec.run.startswith("-"):
        return
    if (why := _unreadable(spec.run)) is not None:
        yield problem(
            "DLR123",
            f"bash cannot read this: {why}",
            "run",
            origins,
            "check quotes, brackets and the ends of `if` and `for`",
        )
        return
    if spec.environment.container is not None:
        return
    for statement in statements(spec.run):
        program = statement.words[0] if statement.words else ""
        if program in _MOVES:
            return
        yield from misspelt_program(program, "run", origins)
        script = next(
            (word for word in statement.words[1:2] if _PYTHON.fullmatch(program) and _PLAIN.fullmatch(word)),
            None,
        )
        path = base / expanded(script or ".")
        if script is not None and visible(path) and (why := fault(path, directory=False)) is not None:
            yield problem(
                "DLR032",
                f"script `{script}` {why}",
                "run",
                origins,
                near(path, f"relative paths start at `{base}`"),
                warning=True,
            )


def _unreadable(text: str) -> str | None:
    """What bash finds wrong in a shell text, without running it; None where there is no bash, since it runs on another host."""
    from dlrun.system.process import NotInstalled, run  # noqa: PLC0415 - for `run:` alone

    try:
        done = run(["bash", "-n", "-c", "--", _EXPRESSION.sub("X", text)], timeout=10)
    except NotInstalled:
        return None
    if done.returncode == 0:
        return None
    first = next((line for line in done.stderr.splitlines() if line.strip()), "a syntax error")
    return re.sub(r"^.*?: (?:-c: )?(line \d+: )?", r"\1", first, count=1)


def _of_node(spec: Spec, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    """Warn of a variable that this shell does not have, if it has one with almost the same name."""
    places = {f"command.{index}": word for index, word in enumerate(spec.command)}
    places |= {f"environment.variables.{name}": value for name, value in spec.environment.variables.items()}
    for key, text in places.items():
        for name in _OF_NODE.findall(text):
            if name in os.environ:
                continue
            close = next((variable for variable in os.environ if one_slip(name, variable)), None) or nearest(
                name, os.environ, cutoff=0.9
            )
            if close is not None:
                yield problem(
                    "DLR120",
                    f"variable `{name}` is not set here",
                    key,
                    origins,
                    f"the nearest is `{close}`",
                    warning=True,
                )
