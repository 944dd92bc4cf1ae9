"""Arguments that a profile gives its launcher, beside those that dlrun writes itself."""

from __future__ import annotations

import pytest

from dlrun.render.shell import join
from tests.making import plan_of

SPEC = "framework: torch\nresources: {nodes: 2, ranks_per_node: 2}\n"


def site(*arguments, more=""):
    return f"name: here\nscheduler: {{type: slurm}}\nlauncher: {{name: srun, {more}arguments: [{', '.join(arguments)}]}}\n"


def line(plan):
    return join(plan.roles[0].launch)


def test_what_dlrun_writes_itself_is_not_written_twice(tmp_path):
    plan = plan_of(tmp_path, SPEC, site("--mpi=pmix", "--kill-on-bad-exit=1", "--label", more="mpi: pmix, "))
    assert line(plan).count("--mpi=") == line(plan).count("--kill-on-bad-exit") == 1
    assert line(plan).endswith(" --label")
    assert [w for w in plan.warnings if "DLR028" in w] == []


def test_values_behind_an_option_belong_to_it(tmp_path):
    """`2` and `1` are among dlrun's own words, but not behind `--wait`."""
    plan = plan_of(tmp_path, SPEC, site("--wait", "2", "-W", "1"))
    assert line(plan).endswith(" --wait 2 -W 1")


def test_a_contradiction_is_named(tmp_path):
    plan = plan_of(tmp_path, SPEC, site("--cpu-bind=cores"))
    (warning,) = [w for w in plan.warnings if "DLR028" in w]
    assert "`--cpu-bind=cores` of `launcher.arguments` contradicts `--cpu-bind=none`" in warning
    assert "remove `--cpu-bind=cores` from the profile of site `here`" in warning


@pytest.mark.parametrize(("launcher", "kept"), [("openmpi", False), ("srun", True)])
def test_another_launcher_does_not_get_this_ones_arguments(launcher, kept, tmp_path):
    """mpirun ends with an error at an option of srun."""
    plan = plan_of(tmp_path, f"{SPEC}launcher: {launcher}\n", site("--gpu-bind=none"))
    assert ("--gpu-bind=none" in line(plan)) is kept
