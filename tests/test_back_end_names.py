"""No code compares the name of a scheduler, launcher or framework, or looks something up by it: back ends say what differs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlrun import backends
from tests import house

NAMES = {*backends.SCHEDULERS, *backends.LAUNCHERS, *backends.FRAMEWORKS, "pbs"}
OWN_OPTIONS = {"backend", "controller"}
"""Options of Keras and Horovod whose values are names of other frameworks: their own modules compare those."""
FOREIGN = "dlrun/importing/"
"""Reads scripts of other tools, word by word."""
OF_OTHERS = {
    "dlrun/site/imports/reframe.py": "ReFrame's names of schedulers and launchers",
    "dlrun/site/imports/nextflow.py": "Nextflow's names of schedulers",
    "dlrun/site/profile/detect.py": "the key `mpi` of a profile's launcher",
    "dlrun/system/transport/__init__.py": "the transport `local`",
    "dlrun/node/checks/library_check.py": "Python modules to try",
    "dlrun/plan/runtime_checks.py": "communication libraries",
    "dlrun/fabrics/process_managers.py": "MPIs",
}
"""Tables with such names that are not those of back ends."""
OWN = ("dlrun/schedulers/", "dlrun/launchers/", "dlrun/frameworks/", "dlrun/backends.py", FOREIGN)


QUOTED = "|".join(sorted(NAMES))
A_NAME = re.compile(rf"['\"](?:{QUOTED})['\"]")


def walked(text: str) -> Iterator[ast.AST]:
    """The nodes of Python in which a name stands: most modules have none."""
    return ast.walk(ast.parse(text)) if A_NAME.search(text) else iter(())


def compared(text: str) -> Iterator[int]:
    """The lines of Python in which something is compared with the name of a back end."""
    for node in walked(text):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            own = any(getattr(side, "attr", getattr(side, "id", "")) in OWN_OPTIONS for side in sides)
            if not own and any(NAMES & literals(side) for side in sides):
                yield node.lineno
        elif isinstance(node, ast.MatchValue) and NAMES & literals(node.value):
            yield node.value.lineno


def keyed(text: str) -> Iterator[int]:
    """The lines of Python in which a table has the name of a back end for a key."""
    for node in walked(text):
        if isinstance(node, ast.Dict) and any(
            NAMES & literals(name) for name in node.keys if name is not None
        ):
            yield node.lineno


def literals(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return {text for element in node.elts for text in literals(element)}
    return set()


NAMED = {
    "flux": (r"flux", 21),
    "slurm": (r"slurm", 106),
    "pbs": (r"pbs|openpbs", 47),
    "gridengine": (r"grid ?engine|sge", 13),
}
"""Folder of a scheduler -> its names, and the number of files outside of the folder that have one of them."""


@pytest.mark.parametrize("folder", NAMED)
def test_few_files_name_a_scheduler(folder):
    names, most = NAMED[folder]
    word = re.compile(rf"\b(?:{names})\b", re.IGNORECASE)
    own = house.ROOT / "dlrun/schedulers" / folder
    files = (
        path for place in ("dlrun", "templates") for path in (house.ROOT / place).rglob("*") if path.is_file()
    )
    found = [
        path
        for path in files
        if path.suffix != ".pyc" and own not in path.parents and word.search(path.read_text("utf-8"))
    ]
    assert len(found) == most, sorted(map(str, found))


IN_TEMPLATE = re.compile(rf"\{{[%{{][^}}]*(?:[=!]=|\bin\b)\s*[(\[]?\s*['\"](?:{QUOTED})['\"]")


def test_python_compares_no_names():
    found = [
        f"{module.name}:{line}"
        for module in house.modules()
        if not module.name.startswith(FOREIGN)
        for line in compared(module.text)
    ]
    assert found == []


def test_no_table_elsewhere_knows_back_ends_by_name():
    found = {
        module.name
        for module in house.modules()
        if not module.name.startswith(OWN) and any(True for _ in keyed(module.text))
    }
    assert found == set(OF_OTHERS)


def test_templates_compare_no_names():
    found = [
        f"{path.relative_to(house.ROOT)}:{number}"
        for path in sorted((house.ROOT / "templates").rglob("*.j2"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if IN_TEMPLATE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        'if site.scheduler.type == "slurm": pass',
        'x = 1 if plan.launch.name != "ssh" else 2',
        'own = name in ("srun", "openmpi")',
        'match name:\n    case "torch": pass',
        'match name, n:\n    case ("local", 1): pass',
    ],
)
def test_a_comparison_is_found(text):
    assert list(compared(text))


def test_a_table_is_found():
    assert list(keyed('FINDERS = {"slurm": "find_slurm", "others": "find_none"}'))
    assert not list(keyed('FINDERS = {"find": "slurm"}'))


@pytest.mark.parametrize(
    "text",
    ["{% if plan.launch.name == 'openmpi' %}", "{{ 1 if plan.launch.name in ('hydra', 'ssh') else 2 }}"],
)
def test_a_comparison_in_a_template_is_found(text):
    assert IN_TEMPLATE.search(text)


def test_what_is_no_comparison_is_left_alone():
    assert not list(compared('arguments = ["srun", "--mpi=none"]; table = {"slurm": "srun"}'))
    assert not IN_TEMPLATE.search("{{ role.launch }} # as srun == slurm would")
    assert Path(house.ROOT, FOREIGN).is_dir()
