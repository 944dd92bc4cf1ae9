"""Every shipped profile with every framework: a job is rendered, or refused only because the launcher cannot start it."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.problem import InvalidFile
from tests.examples import cases
from tests.golden.sites.test_sites import CASES
from tests.making import plan_in, scripts_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", cases(CASES, quick=0), ids=lambda case: case.name)
def test_a_job_of_every_framework(case, tmp_path):
    spec = (case / "spec.yaml").read_text("utf-8").replace("intelcaffe:", "ignored:")
    (tmp_path / "spec.yaml").write_text(
        "\n".join(line for line in spec.splitlines() if "ignored:" not in line)
    )
    rendered = 0
    for name in backends.FRAMEWORKS:
        # a rank of one GPU on a crowded node may have no cores for a library's own threads
        few = ["resources.ranks_per_node=1"] if backends.framework(name).PRESETS[""].comm_cores else []
        try:
            plan = plan_in(tmp_path, sets=[f"framework={name}", *few])
        except InvalidFile as failure:
            found = [problem for problem in failure.problems if not problem.warning]
            assert {problem.code for problem in found} == {"DLR028"}, found
            assert all("cannot be started by launcher" in problem.message for problem in found)
        else:
            assert scripts_of(plan).keys() >= {"job.sh", "rank.sh"}
            rendered += 1
    assert rendered >= len(backends.FRAMEWORKS) // 2
