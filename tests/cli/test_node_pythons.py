"""Whole jobs on a node whose Python is old or new: early starts, parts, a kill in between, and results."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests import programs
from tests.cli.conftest import wait_for

SITE = """\
name: here
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
python: {python}
storage: {{node_local: {{path: '{place}', size: 1TB}}}}
"""
SPEC = """\
name: run
site: ./site.yaml
run: |
  touch begun
  until [[ -e go ]]; do sleep 0.1; done
  cat "$DLRUN_DATA_SET"/part-* | wc -c >"$DLRUN_RESULTS/size"
resources: {ranks_per_node: 1, walltime: 30m}
data: {set: {source: source, %s}}
results: {to: results, before_end: 1m}
"""


@pytest.mark.needs
@pytest.mark.slow
@pytest.mark.parametrize("data", ["start: 1 file", "strategy: part"])
@pytest.mark.parametrize("minor", [6, 8, 13, 14])
def test_a_job_that_is_killed_and_the_next_one(dlrun, minor, data):
    place = dlrun.place
    (place / "source").mkdir()
    for number in range(4):
        (place / "source" / f"part-{number}").write_bytes(os.urandom(3 << 20))
    (place / "local").mkdir()
    (place / "site.yaml").write_text(SITE.format(python=programs.python(minor), place=place / "local"))
    (place / "spec.yaml").write_text(SPEC % data)

    def submitted() -> Path:
        ran = dlrun("submit", "spec.yaml")
        return Path(ran.stdout.split("job directory: ")[1].splitlines()[0])

    killed = submitted()
    wait_for((place / "begun").exists)
    for line in dlrun.alive():
        if "sleep" not in line:
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
    wait_for(lambda: not [line for line in dlrun.alive() if "job.sh" in line])
    (place / "begun").unlink()
    (place / "go").touch()
    job = submitted()
    wait_for(
        lambda: (
            '"state": "ended"' in (job / "state.json").read_text() if (job / "state.json").exists() else False
        )
    )
    logs = "".join(path.read_text() for path in sorted(job.glob("logs/*.log")))
    assert '"exit_code": 0' in (job / "state.json").read_text(), logs
    assert "Traceback" not in logs + (killed / "logs" / "stage-0.log").read_text()
    assert (place / "results" / "size").read_text().strip() == str(12 << 20)
    left = [path.name for path in (place / "local").glob("dlrun-*/.*") if path.name != ".dlrun"]
    assert [name for name in left if name.endswith(job.name)] == []
