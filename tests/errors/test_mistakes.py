"""A catalogue of mistakes, `mistakes/*.txt`: each gives the problems that stand beside it, and no others.

A case is the lines of a spec after its name, then its problems, each as `> error LINE message` and `>   help`; what a case
leaves out comes from `BASE`. `DLRUN_UPDATE_REPORTS=1 pytest tests/errors/test_mistakes.py` writes the problems anew; read the
difference before keeping it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dlrun.jobs.submission.prepare import prepare
from dlrun.model.problem import InvalidFile, Problem

FILES = sorted((Path(__file__).parent / "mistakes").glob("*.txt"))
UPDATE = bool(os.environ.get("DLRUN_UPDATE_REPORTS"))  # now: no test sees the user's own variables
LEAST = 120
"""Fewest mistakes that the catalogue has."""
BASE = {
    "name": "name: digits",
    "site": "site: ./site.yaml",
    "framework": "framework: torch",
    "command": "command: [python, train.py]",
    "resources": "resources: {nodes: 2, ranks_per_node: 4, gpus_per_node: 4, walltime: 1h}",
}
SITE = """\
name: centre
scheduler: {type: slurm}
launcher: {name: srun}
partitions:
  gpu: {node_type: gpu, max_walltime: 24h, default: true}
node_types:
  gpu:
    memory: 480GiB
    topology: {packages: 2, cores: 16, gpus: {count: 4, numa: [0, 0, 1, 1]}}
"""


class Mistake(NamedTuple):
    """A case of a file: its name, the lines of the spec, and the problems as text."""

    file: Path
    name: str
    spec: str
    problems: str


def cases(file: Path) -> Iterator[Mistake]:
    for block in re.split(r"^=== ", file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        lines = rest.rstrip("\n").split("\n")
        problems = [line for line in lines if line.startswith("> ")]
        yield Mistake(
            file, name, "\n".join(line for line in lines if not line.startswith("> ")), "\n".join(problems)
        )


ALL = [case for file in FILES for case in cases(file)]


def whole(spec: str) -> str:
    keys = set(re.findall(r"^(\w+)\b", spec, re.MULTILINE))
    keys |= {"command"} & {"command" if "run" in keys else ""}
    return "\n".join([spec, *(line for key, line in BASE.items() if key not in keys)]) + "\n"


def told(problem: Problem) -> str:
    kind = "warning" if problem.warning else "error"
    line = problem.origin.line if problem.origin else 0
    return f"> {kind} {line}: {problem.message}" + (f"\n>   {problem.help}" if problem.help else "")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a script, an environment, data, an image and a site's profile."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    for name in ("train.py", "env/bin/activate", "imagenet.tar", "torch.sif"):
        (tmp_path / name).touch()
    (tmp_path / "site.yaml").write_text(SITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


def problems_of(spec: str, place: Path) -> str:
    (place / "spec.yaml").write_text(whole(spec), "utf-8")
    try:
        found = "\n".join(f"> warning: {one}" for one in prepare(Path("spec.yaml")).plan.warnings)
    except InvalidFile as error:
        found = "\n".join(map(told, error.problems))
    return found.replace(str(place), "HERE")


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.file.stem}-{case.name}")
def test_a_mistake_has_its_message(case, place):
    found = problems_of(case.spec, place)
    if UPDATE:
        text = case.file.read_text("utf-8")
        old = f"=== {case.name}\n{case.spec}\n" + (f"{case.problems}\n" if case.problems else "")
        assert text.count(old) == 1
        case.file.write_text(text.replace(old, f"=== {case.name}\n{case.spec}\n{found}\n"), "utf-8")
        return
    assert found, "the mistake is accepted in silence"
    assert found == case.problems


def test_a_correction_does_not_repeat_the_mistake():
    """What a help line says to write is not what the report complains of."""
    problems = "\n".join(case.problems for case in ALL)
    for problem in re.findall(r"^> (?:error|warning).*\n>   .*", problems, re.MULTILINE):
        message, _, help_ = problem.partition("\n>   ")
        wrong = re.findall(r"(?:not|unknown key|unknown name|the \w+|program|script) `([^`]*)`", message)
        proposed = re.findall(r"(?:write|the nearest(?: key| there)? is) `([^`]+)`", help_)
        assert not set(wrong) & set(proposed), problem


def test_the_catalogue_is_large_and_its_names_differ():
    assert len({(case.file, case.name) for case in ALL}) == len(ALL) >= LEAST


def test_the_right_spec_has_no_problem(place):
    assert problems_of("batch_per_rank: 32", place) == ""
