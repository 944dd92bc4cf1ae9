"""The Python interface, with real jobs of this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlrun import api
from dlrun.errors import DlrunError
from dlrun.jobs.running.start import NoAllocation
from dlrun.model.problem import InvalidFile

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "first.ipynb"
SPEC = {
    "name": "of-python",
    "command": ["bash", "-c", "echo loss: 0.{{ x }}; ((RANK == 0))"],
    "resources": {"ranks_per_node": 1},
    "sweep": {"grid": {"x": [5, 25]}},
    "metrics": {"loss": {"pattern": "loss: ([0-9.]+)"}},
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLRUN_SITE", "workstation")


def test_a_job_from_its_plan_to_its_results(capfd):
    planned = api.plan(SPEC, placement__threads=1)
    assert planned.plan.request.threads == 1
    assert "placement.threads" in planned.reasons
    assert "dlrun_run bash -c" in planned.scripts()["rank.sh"]
    assert "<td>placement.threads</td>" in planned._repr_html_()
    job = api.submit(planned)
    assert job.wait(timeout=100) == "completed"
    assert [(one["x"], one["state"], one["loss"]) for one in job.results()] == [
        ("5", "completed", 0.5),
        ("25", "completed", 0.25),
    ]
    assert (job.state, job.exit_code, job.why()) == ("completed", 0, [])
    assert job.logs(0).splitlines() == ["loss: 0.5", "loss: 0.25"]
    assert list(job.tail(0)) == ["loss: 0.5\n", "loss: 0.25\n"]
    assert [run.point for run in job.usage().runs] == [0, 1]
    assert "<caption>of-python on workstation</caption>" in job._repr_html_()
    assert "busy cores" in job.usage()._repr_html_()
    assert [one.id for one in api.jobs()] == [job.id]
    assert api.jobs(limit=0) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_run_that_fails_and_one_that_is_cancelled(capfd):
    job = api.run(["bash", "-c", "exit 3"], resources__ranks_per_node=1)
    assert (job.state, job.exit_code) == ("failed", 3)
    assert "exit code 3" in job.why()[0].means
    running = api.submit({"name": "long", "command": ["sleep", "600"], "resources": {"ranks_per_node": 1}})
    with pytest.raises(TimeoutError):
        running.wait(timeout=0.2)
    running.cancel()
    assert running.wait(timeout=100) == "cancelled"
    assert capfd.readouterr() == ("", "")


def test_a_run_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(api.run(["true"], resources__ranks_per_node=1)))
    thread.start()
    thread.join(timeout=100)
    assert [job.exit_code for job in found] == [0]


@dataclass
class Own:
    """A user's own description of a training."""

    name: str = "own"
    command: list[str] = field(default_factory=lambda: ["./train"])
    resources: dict[str, int] = field(default_factory=lambda: {"ranks_per_node": 2})
    checkpoint: dict[str, str] | None = None


def test_kinds_of_specs():
    Path("spec.yaml").write_text("name: file\ncommand: [./train]\n")
    names = [
        api.plan(spec).plan.name for spec in ("spec.yaml", Path("spec.yaml"), Own(), ("python3", "-c", "0"))
    ]
    assert names == ["file", "file", "own", "python3"]
    assert api.plan(Own()).plan.request.ranks == 2


def test_errors_are_those_of_the_command_line(tmp_path):
    with pytest.raises(InvalidFile) as error:
        api.plan({"name": "x", "command": ["true"], "resources": {"node": 2}})
    assert "unknown key `node`" in str(error.value)
    with pytest.raises(InvalidFile, match="requests 2 nodes"):
        api.plan(["./train"], resources__nodes=2)
    with pytest.raises(DlrunError, match="not int"):
        api.plan(3)
    (tmp_path / "slurm.yaml").write_text("name: x\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    with pytest.raises(NoAllocation, match="not in an allocation of slurm"):
        api.run(["true"], site="./slurm.yaml")


def test_importing_dlrun_imports_nothing_else():
    program = "import sys; before = set(sys.modules); import dlrun; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['dlrun']\n"


@pytest.mark.slow
def test_the_notebook_runs():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    plan, job, results, logs, usage = (cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert "<svg" in plan[0].data["text/html"]
    assert "completed" in job[0].data["text/html"]
    assert "'loss': 0.667" in results[0].data["text/plain"]
    assert "step 2 loss 0.667" in logs[0].text
    assert "busy cores" in usage[0].data["text/html"]
