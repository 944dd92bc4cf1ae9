"""What a job finds when it starts, on a real Slurm: both kinds of environment modules, a venv, and conda."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, apptainer, module_systems, why_not
from tests.cluster.jobs import PYTHON, User, bash
from tests.programs import need

_WHY_NOT = why_not() or module_systems.why_not()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    "name": "test-environments",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
}
MODULES = {
    "compiler/13": "setenv COMPILER 13",
    "tool/2.0": "prereq compiler\nprepend-path PATH {place}/tool/bin\nsetenv TOOL two",
    "stale/1": "setenv STALE yes",
}
"""Modulefiles in Tcl, which both read, by name."""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(node_types=(NodeType(count=2),), module_systems=("environment-modules", "lmod"))
    with Cluster(spec, name=f"environments-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module", params=["environment-modules", "lmod"])
def modules(cluster, request):
    """A user and the shell lines with which this site's shells get `module` and the modulefiles."""
    alice = User(cluster, SITE)
    for name, body in MODULES.items():
        path = alice.directory / "modulefiles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#%Module1.0\n{body.format(place=alice.directory)}\n")
    program = alice.directory / "tool/bin/whose-tool"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho tool $TOOL with compiler $COMPILER\n")
    program.chmod(0o755)
    setup = [module_systems.START[request.param], f"module use {alice.directory}/modulefiles"]
    alice.write("site.yaml", {**SITE, "environment": {"setup": setup, "modules": ["compiler/13"]}})
    return alice, setup


def spec(command: list[str], nodes: int = 1, **environment):
    resources = {"nodes": nodes, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}
    return {"command": command, "resources": resources, "environment": environment}


def output(alice, job: str, rank: int = 0) -> str:
    (run,) = alice.ended(job)
    job_dir = alice.job_dir(job)
    assert run["state"] == "completed", (job_dir / "logs/job.log").read_text()
    return (job_dir / f"logs/rank-{rank}.log").read_text()


def test_modules_of_site_and_spec_reach_every_node(modules):
    """In that order: the spec's module wants the site's loaded before it."""
    alice, _ = modules
    job = alice.submit(spec(["whose-tool"], nodes=2, modules=["tool/2.0"]))
    assert [output(alice, job, rank) for rank in (0, 1)] == ["tool two with compiler 13\n"] * 2


def test_modules_of_the_submitting_shell(modules):
    """They go along, as the scheduler does it, unless the site wants a clean start."""
    alice, setup = modules
    spec_file = alice.write("stale.yaml", {"name": "x", **spec(bash("echo stale=${STALE-no}"))})
    seen = {}
    for hygiene in ("keep", "purge"):
        site = {**SITE, "environment": {"setup": setup, "hygiene": hygiene}}
        alice.write(f"{hygiene}.yaml", site)
        line = " && ".join(
            [
                *setup,
                "module load stale/1",
                f"{PYTHON}/dlrun submit --parsable --site {hygiene}.yaml {spec_file}",
            ]
        )
        job = alice.cluster.on(
            "login", line, cwd=str(alice.directory), check=True, timeout=180
        ).stdout.strip()
        seen[hygiene] = output(alice, job)
    assert seen == {"keep": "stale=yes\n", "purge": "stale=no\n"}


def test_missing_module_ends_the_job_before_any_rank(modules):
    alice, _ = modules
    job = alice.submit(spec(["true"], modules=["tool/9.9"]))
    (run,) = alice.ended(job)
    logs = alice.job_dir(job) / "logs"
    said = (logs / "job.log").read_text()
    assert run["state"] == "failed"
    assert "tool/9.9" in said
    assert not (logs / "rank-0.log").exists()


def test_venv(cluster):
    alice = User(cluster, SITE)
    place = alice.directory / "my venv"
    cluster.on("login", ["python3", "-m", "venv", "--without-pip", str(place)], check=True, timeout=180)
    job = alice.submit(spec(["python", "-c", "import sys; print(sys.prefix)"], nodes=2, venv=str(place)))
    assert [output(alice, job, rank) for rank in (0, 1)] == [f"{place}\n"] * 2


@pytest.mark.needs
def test_conda(cluster):
    """The `conda` of the prefix in DLRUN_TEST_CONDA, else the one on PATH."""
    program = Path(need("conda", path=f"{os.environ.get('DLRUN_TEST_CONDA', '')}/bin:{os.environ['PATH']}"))
    alice = User(cluster, {**SITE, "environment": {"setup": [f"PATH={program.parent}:$PATH"]}})
    place = alice.directory / "conda-env"
    subprocess.run([program, "create", "--quiet", "--yes", "--offline", "--prefix", place], check=True)
    (place / "bin").mkdir(exist_ok=True)
    (place / "bin/whose-env").write_text("#!/bin/sh\necho $CONDA_PREFIX\n")
    (place / "bin/whose-env").chmod(0o755)
    job = alice.submit(spec(["whose-env"], nodes=2, conda=str(place)))
    assert [output(alice, job, rank) for rank in (0, 1)] == [f"{place}\n"] * 2


@pytest.mark.needs("bwrap")  # stands in for Apptainer
@pytest.mark.parametrize("code", [0, 7])
def test_ranks_in_a_container_see_the_job_directory_and_their_variables(cluster, code):
    apptainer.try_it(User(cluster, apptainer.with_it(SITE)), code)


@pytest.mark.parametrize("code", [0, 7])
def test_a_rendered_directory_is_submitted_by_hand_and_known(cluster, code):
    """Between site lines that try to disturb it; a copy of the directory does not write to the first."""
    lines = [
        "cd /tmp",
        "export DLRUN_NODES=9",
        "IFS=:; shopt -s nullglob",
        "srun() { echo fooled; }",
        "set +e; false",
    ]
    alice = User(cluster, {**SITE, "environment": {"setup": lines}})
    line = f'echo "rank $RANK of $WORLD_SIZE in $PWD"; exit $((RANK ? {code} : 0))'
    path = alice.write("spec.yaml", {"name": "hand", "framework": "torch", **spec(bash(line), nodes=2)})
    alice.dlrun("render", str(path), "-o", "job")
    place = alice.directory / "job"
    assert "submitted by hand and has not started" in alice.dlrun("why", "job", code=2).stderr
    for name in ("copy", "job"):
        cluster.on(
            "login",
            f"cd {alice.directory} && cp -rn job copy; cd {name} && sbatch --wait job.sh",
            user="alice",
        )
    assert "is a copy: its DLRUN_JOB_DIR is" in (alice.directory / "copy/logs/job.log").read_text()
    (run,) = alice.ended(str(place))
    log = (place / "logs/job.log").read_text()
    assert (run["state"], run["exit_code"]) == ("failed" if code else "completed", code), log
    assert "has changed DLRUN_NODES" in log
    assert "`false` failed" not in log
    assert f"rank 1 of 2 in {alice.directory}\n" in alice.dlrun("logs", "job", "--rank", "1").stdout
    assert alice.why(str(place))["cause"] == ("unknown" if code else "none")
