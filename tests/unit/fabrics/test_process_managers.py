"""Ranks that MPI does not tell of one another: what a plan says before, and what a job looks at (`templates/lib/world.sh`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dlrun.fabrics import process_managers
from dlrun.resources import directory
from tests.making import plan_of, scripts_of

SITE = "name: there\nscheduler: {type: slurm}\nlauncher: {name: %s}\n"
RANKS = "resources: {nodes: 2, ranks_per_node: 2}\n"


def warned(place, spec, launcher):
    plan = plan_of(place, spec + RANKS, SITE % launcher)
    return [text for text in plan.warnings if "DLR139" in text]


@pytest.mark.parametrize(
    ("spec", "launcher", "says"),
    [
        ("framework: intelcaffe\n", "srun", "`launcher: intelmpi`"),
        ("framework: intelcaffe\n", "srun, mpi: pmi2", None),
        ("framework: intelcaffe\n", "intelmpi", None),
        (
            "framework: intelcaffe\nenvironment: {variables: {I_MPI_PMI_LIBRARY: /lib/libpmi2.so}}\n",
            "srun",
            None,
        ),
        (
            "framework: mpi\nenvironment: {modules: [gcc/12, OpenMPI/5.0.3-GCC]}\n",
            "srun, mpi: pmi2",
            "`mpi: pmix`",
        ),
        ("framework: mpi\nenvironment: {modules: [openmpi/5]}\n", "srun, mpi: pmix", None),
        ("framework: mpi\nenvironment: {modules: [openmpi/5]}\n", "srun", None),
        ("framework: mpi\nenvironment: {modules: [openmpi/5]}\n", "hydra", "`launcher: openmpi`"),
        (
            "framework: mpi\nenvironment: {modules: [intel-oneapi-mpi/2021]}\n",
            "openmpi",
            "`launcher: intelmpi`",
        ),
        ("framework: mpi\nenvironment: {modules: [mpich]}\n", "srun, mpi: pmix", "`mpi: pmi2`"),
        ("framework: mpi\nenvironment: {modules: [pympich-tools]}\n", "openmpi", None),
        ("framework: torch\nenvironment: {modules: [openmpi/5]}\n", "hydra", None),
    ],
)
def test_a_plan_warns_of_an_mpi_that_its_launcher_does_not_fit(tmp_path, spec, launcher, says):
    """`srun` without `mpi` uses the default of that Slurm, which may fit."""
    found = warned(tmp_path, spec, launcher)
    assert len(found) == (says is not None), found
    assert says is None or says in found[0]


def test_one_rank_may_be_alone(tmp_path):
    plan = plan_of(
        tmp_path, "framework: intelcaffe\nresources: {nodes: 1, ranks_per_node: 1}\n", SITE % "srun"
    )
    assert not [text for text in plan.warnings if "DLR139" in text]


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        ("framework: mpi\nverify: warn\n", "warn"),
        ("framework: mpi\nverify: fail\n", "fail"),
        ("framework: mpi\nverify: off\n", None),
        ("framework: mpi\nverify: warn\nfabric_check: fail\n", "fail"),
        ("framework: torch\nverify: fail\n", None),
        ("framework: horovod\nverify: fail\nhorovod: {controller: mpi}\n", "fail"),
        ("framework: horovod\nverify: fail\nhorovod: {controller: gloo}\n", None),
    ],
)
def test_a_job_looks_whether_its_ranks_are_alone_if_they_meet_by_mpi(tmp_path, spec, action):
    plan = plan_of(tmp_path, spec + RANKS, SITE % "srun" + "fabric: {name: infiniband}\n")
    text = scripts_of(plan)["rank.sh"]
    assert (f"dlrun_check_world {action} " in text) is (action is not None)
    assert "dlrun_check_world" not in text or all(need.way in text for need in process_managers.needs("srun"))


LOAD = """
import mmap, sys
files = [open(name, "r+b") for name in sys.argv[1:]]
kept = [mmap.mmap(file.fileno(), 0) for file in files]
print(flush=True)
input()
"""
SHOW = 'source "$LIB/world.sh"; mpi= alone= known=; _dlrun_find_world "$1"; echo "$mpi|$alone|$known"'
OPEN_4, OPEN_5 = ("libmpi.so.40", "libopen-pal.so.40"), ("libmpi.so.40", "libopen-pal.so.80")
INTEL, MPICH = ("intel/libmpi.so.12",), ("libmpi.so.12",)
HYDRA = {"PMI_FD": "6", "PMI_RANK": "0"}
PMIX, MPIRUN = {"PMIX_NAMESPACE": "a"}, {"PMIX_NAMESPACE": "a", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("loaded", "environment", "found"),
    [
        ((), {}, "||"),
        (("libmpi4py.txt",), {}, "||"),
        (OPEN_5, {}, "openmpi|Open MPI|"),
        (OPEN_5, HYDRA, "openmpi|Open MPI|"),
        (OPEN_5, PMIX, "openmpi||1"),
        (OPEN_4, {}, "openmpi||"),
        ((*OPEN_4, "mca_ess_singleton.so"), HYDRA, "openmpi|Open MPI|"),
        ((*OPEN_4, "mca_ess_pmi.so"), MPIRUN, "openmpi||1"),
        (MPICH, {}, "mpich|MPICH|"),
        (("libmpich.so.12",), {}, "mpich|MPICH|"),
        (MPICH, HYDRA, "mpich||1"),
        (MPICH, PMIX, "mpich|MPICH|"),
        ((*MPICH, "libpmix.so.2"), PMIX, "mpich||1"),
        ((*MPICH, "libpmix.so.2"), {}, "mpich|MPICH|"),
        ((*MPICH, "libpmi.so.0"), {}, "mpich||1"),
        (("libmpi_cray.so.12", "libpmi.so.0"), {}, "mpich||1"),
        (INTEL, {}, "intel-mpi|Intel MPI|"),
        (INTEL, {"I_MPI_PMI_LIBRARY": "/lib/libpmi2.so"}, "intel-mpi||1"),
        (INTEL, PMIX, "intel-mpi||1"),
        (INTEL, MPIRUN, "intel-mpi|Intel MPI|"),
    ],
)
def test_an_mpi_is_alone_if_no_process_manager_can_have_told_it(tmp_path, loaded, environment, found):
    """A process with files of these names mapped, as the libraries of the real ones (`tests/cluster/test_alone.py`)."""
    for name in loaded:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("I_MPI_PMI_LIBRARY" if "intel" in name else "library")
    with subprocess.Popen(
        [sys.executable, "-c", LOAD, *(str(tmp_path / name) for name in loaded)],
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = subprocess.run(
            ["bash", "-c", SHOW, "show", str(process.pid)],
            env={"PATH": os.environ["PATH"], "LIB": str(directory("templates") / "lib")},
            capture_output=True,
            text=True,
            check=True,
        )
        process.communicate(b"\n")
    assert done.stdout == f"{found}\n", done.stderr
