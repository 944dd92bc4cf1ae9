"""Ranks that MPI has not told of one another: each MPI under each launcher of a real Slurm. Where MPI_Comm_size is 1, the job
is ended and `why` names the cause; where it is the number of ranks, the job completes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dlrun.fabrics import process_managers
from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.jobs import PYTHON, User
from tests.oracles.install import install

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

PROGRAM = """\
import ctypes, os, sys, time
mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
world = ctypes.c_int(0x44000000)  # MPICH and Intel MPI
if hasattr(mpi, "ompi_mpi_comm_world"):
    world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
mpi.MPI_Init(None, None)
size = ctypes.c_int()
mpi.MPI_Comm_size(world, ctypes.byref(size))
print("size", size.value, flush=True)
time.sleep(60 if size.value == 1 and "stay" in sys.argv else 4)
mpi.MPI_Finalize()
"""
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
SRUN = [{"name": "srun"}, {"name": "srun", "mpi": "pmi2"}, {"name": "srun", "mpi": "pmix"}]
ALONE = {
    ("openmpi5", "srun", None),
    ("openmpi5", "srun", "pmi2"),
    ("openmpi5", "hydra", None),
    ("mpich", "srun", None),
    ("mpich", "openmpi", None),
    ("intel-mpi", "srun", None),
    ("intel-mpi", "openmpi", None),
}
"""Those that start without an error. Open MPI 4 and newer MPICHs report some misfits by themselves."""


@pytest.fixture(scope="module")
def launchers():
    """Launchers with their programs, and the libraries of MPI with what their environment needs."""
    oracles = install()
    if None in (oracles.openmpi, oracles.openmpi5, oracles.impi, oracles.hydra):
        pytest.skip(f"needs Open MPI 4 and 5, MPICH and Intel MPI: {oracles.why}")
    intel = oracles.impi.parent.parent
    fabric = intel / "opt" / "mpi" / "libfabric" / "lib"
    libraries = {
        "openmpi4": (LIBRARIES / "libmpi.so.40", {}),
        "openmpi5": (oracles.openmpi5.parent.parent / "lib" / "libmpi.so.40", {}),
        "mpich": (LIBRARIES / "libmpich.so.12", {}),
        "intel-mpi": (
            intel / "lib" / "libmpi.so.12",
            {"LD_LIBRARY_PATH": f"{intel}/lib:{fabric}", "FI_PROVIDER_PATH": f"{fabric}/prov"},
        ),
    }
    programs = {"hydra": oracles.hydra, "openmpi": oracles.openmpi}
    return libraries, programs


@pytest.fixture(scope="module")
def cluster():
    with Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=f"alone-{os.getpid()}") as running:
        yield running


@pytest.mark.parametrize(
    "launcher", [*SRUN, {"name": "hydra"}, {"name": "openmpi"}], ids=lambda one: "-".join(one.values())
)
@pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5", "mpich", "intel-mpi"])
def test_a_job_whose_ranks_are_alone_is_ended(cluster, launchers, mpi, launcher):
    libraries, programs = launchers
    library, variables = libraries[mpi]
    if (program := programs.get(launcher["name"])) is not None:
        launcher = {**launcher, "program": str(program)}
    site = {
        "name": "alone",
        "scheduler": {"type": "slurm", "memory": "none", "exclusive": True},
        "launcher": launcher,
        "partitions": {"debug": {"default": True}},
    }
    alice = User(cluster, site)
    alice.write("program.py", PROGRAM)
    spec = {
        "framework": "mpi",
        "verify": "fail",
        "command": [str(PYTHON / "python"), "program.py", str(library), "stay"],
        "resources": {"ranks_per_node": 2, "walltime": "5m"},
        "environment": {"variables": variables},
    }
    job = alice.submit(spec)
    (run,) = alice.ended(job)
    logs = "".join(path.read_text() for path in alice.job_dir(job).glob("logs/*.log"))
    sizes = {line for line in logs.splitlines() if line.startswith("size ")}
    why = json.loads(alice.dlrun("why", job, "--json", code=None).stdout)
    row = (mpi, launcher["name"], launcher.get("mpi"))
    needs = [need for need in process_managers.needs(launcher["name"]) if need.mpi == mpi.rstrip("45")]
    if all(launcher.get("mpi") in need.options for need in needs):
        assert (run["state"], sizes) == ("completed", {"size 2"}), logs
    elif sizes or row in ALONE:
        assert (run["state"], sizes) == ("failed", {"size 1"}), logs
        assert "mpi-pmi" in json.dumps(why), why
        text = json.dumps(why, ensure_ascii=False)  # either rank may be the first that reports it
        assert any(f"rank {n} is 0 of 1, not {n} of 2; {needs[0].way}" in text for n in (0, 1)), why
    else:
        assert run["state"] == "failed", logs
