"""A job on this machine whose ranks run in a container, which sees the job directory, the library in it and the variables."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cluster import apptainer

pytestmark = pytest.mark.needs("bwrap")  # stands in for Apptainer


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 7])
def test_ranks_in_a_container(dlrun, code):
    image = apptainer.install(dlrun.place, dlrun.place)
    spec = {
        "framework": "torch",
        "command": ["bash", "-c", apptainer.LINE.format(dlrun.place, code)],
        "resources": {"ranks_per_node": 2},
        "environment": {
            "setup": [f"PATH={dlrun.place}/bin:$PATH"],
            "container": {"image": str(image), "runtime": "apptainer"},
            "variables": {"MINE": "a b"},
        },
    }
    dlrun("submit", dlrun.spec(yaml.safe_dump(spec)), "--wait", code=code)
    (job,) = json.loads(dlrun("list", "--json").stdout)["jobs"]
    for rank in (0, 1):
        lines = dlrun("logs", job["name"], "--rank", str(rank)).stdout
        assert lines.startswith(f"[rank {rank}] rank {rank} of 2 at 127.0.0.1 with a b\n")
