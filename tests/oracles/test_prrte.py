"""Open MPI 5, whose `mpirun` is PRRTE, starts the ranks of a real job on this machine."""

from __future__ import annotations

import ast
import os
import re

import pytest

from tests.cli.conftest import dlrun, preloaded  # noqa: F401 - fixtures

RANK = """\
import os
print({name: os.environ.get(name) for name in ("PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "RANK", "WORLD_SIZE", "OF_THE_SPEC")})
"""
ROOT = (
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
)


@pytest.mark.slow
def test_ranks_are_started_by_prterun(dlrun, openmpi5):  # noqa: F811
    (dlrun.place / "rank.py").write_text(RANK)
    (dlrun.place / "prrte.yaml").write_text(
        f"name: prrte\nextends: workstation\nlauncher: {{name: openmpi, program: {openmpi5}}}\n"
        + (
            f"environment: {{variables: {{{', '.join(f'{name}: 1' for name in ROOT)}}}}}\n"
            if os.geteuid() == 0
            else ""
        )
    )
    spec = dlrun.spec(
        "name: prrte\nframework: torch\ncommand: [python3, rank.py]\n"
        "resources: {ranks_per_node: 2, walltime: 10m}\nenvironment: {variables: {OF_THE_SPEC: a b}}\n"
    )
    dlrun("submit", spec, "--site", "./prrte.yaml", "--wait")
    logs = [dlrun("logs", "latest", "--rank", str(rank)).stdout for rank in range(2)]
    ranks = [ast.literal_eval(re.search(r"\{.*\}", log)[0]) for log in logs]
    for rank, found in enumerate(ranks):
        assert found.pop("PMIX_NAMESPACE").startswith("prterun-")
        assert found == {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "OF_THE_SPEC": "a b",
        }
