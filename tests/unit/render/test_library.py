"""Rules of the bash library that no test of one function shows."""

from __future__ import annotations

import re
import subprocess

import pytest

from dlrun.launchers import srun
from tests.library import LIBRARY, PARTS
from tests.programs import need, with_venv

FILES = list(PARTS.values())


@pytest.mark.slow
@pytest.mark.needs
def test_shellcheck_finds_nothing():
    shellcheck = need("shellcheck", path=with_venv())
    command = [shellcheck, "-x", f"--source-path={LIBRARY}", *FILES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("part", FILES, ids=lambda part: part.stem)
def test_every_name_is_prefixed(part):
    text = part.read_text()
    functions = re.findall(r"^\s*([A-Za-z_]\w*)\(\)", text, re.MULTILINE)
    assert all(name.startswith(("dlrun_", "_dlrun_")) for name in functions)
    globals_ = re.findall(r"^([A-Za-z_]\w*)\+?=", text, re.MULTILINE)
    assert all(name.startswith(("_dlrun_", "DLRUN_")) for name in globals_)


@pytest.mark.parametrize("part", FILES, ids=lambda part: part.stem)
def test_no_function_returns_what_a_trap_found(part):
    """A bare `return` or `exit` in a trap gives the status from before the trap (bash(1), `return`)."""
    code = "\n".join(line.partition(" # ")[0] for line in part.read_text().splitlines() if "awk" not in line)
    assert re.findall(r"(?:^|[;|&{]|then|do)\s*return\s*(?:;|$)", code, re.MULTILINE) == []


@pytest.mark.parametrize("part", FILES, ids=lambda part: part.stem)
def test_a_part_is_one_idea(part):
    lines = part.read_text().splitlines()
    assert len(lines) <= 300
    assert lines[0].startswith("# shellcheck shell=bash")
    assert lines[1].startswith("# ")


def test_no_global_array_has_values_where_it_is_declared():
    """Bash 4.2, which Enterprise Linux 7 has, makes it a local one then, and the global one stays unset."""
    declared = re.compile(r"^\s*declare -g[aA]+ .*=\(", re.MULTILINE)
    assert {path.name for path in FILES if declared.search(path.read_text())} == set()
    assert declared.search("  declare -gA _dlrun_parent=()\n")


def test_the_watcher_of_the_first_node_unsets_what_srun_would_read():
    """The page unsets these only for the launcher srun, and its list has the reason."""
    (unset,) = re.findall(r"^  unset -v (.*)$", (LIBRARY / "first-node.sh").read_text(), re.MULTILINE)
    assert unset.split() == [*srun.UNSET]
