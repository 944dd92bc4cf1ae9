"""Each launcher's arguments, word for word, and what tells a rank who it is."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.launchers.protocol import Step
from dlrun.model.site import LauncherSite

ALL = Step(nodes=2, first_only=False, per_node=4, count=7, scheduler="slurm")
EVEN = Step(nodes=2, first_only=False, per_node=4, count=8, scheduler="slurm")
FIRST = Step(nodes=1, first_only=True, per_node=1, count=1, scheduler="slurm", beside=True)
BOUND = Step(nodes=2, first_only=False, per_node=4, count=8, scheduler="slurm", bound=True, cores=6, cpus=12)
BOUND_SOMEHOW = Step(nodes=2, first_only=False, per_node=4, count=8, scheduler="slurm", bound=True)
WAITING = Step(nodes=2, first_only=False, per_node=1, count=2, scheduler="flux", wait=True)

UNEVEN = "srun --nodes=2 --ntasks=7 --distribution=plane=4 --kill-on-bad-exit=1 --export=ALL --cpu-bind=none"
FLUX = "dlrun_flux flux --nodes=2 --ntasks={} -o cpu-affinity=off -o gpu-affinity=off -o mpibind=off -o exit-on-error"
SRUN = "srun --nodes=2 --ntasks={} --ntasks-per-node=4 --distribution=block --kill-on-bad-exit=1 --export=ALL"


@pytest.mark.parametrize(
    ("launcher", "step", "site", "words"),
    [
        ("srun", ALL, {}, UNEVEN),
        ("srun", ALL, {"mpi": "pmix", "arguments": ("-v",)}, f"{UNEVEN} --mpi=pmix -v"),
        ("srun", EVEN, {}, SRUN.format(8) + " --cpu-bind=none"),
        ("flux", EVEN, {}, FLUX.format("8")),
        ("flux", ALL, {}, FLUX.format("7 --taskmap=manual:[[0,1,4,1],[1,1,3,1]]")),
        ("flux", WAITING, {}, FLUX.format("2").replace("dlrun_flux", "dlrun_flux_beside")),
        ("srun", BOUND, {}, SRUN.format(8) + " --cpus-per-task=12 --cpu-bind=cores"),
        ("srun", BOUND_SOMEHOW, {}, SRUN.format(8) + " --cpu-bind=cores"),
        ("srun", FIRST, {"program": "/opt/srun"},
         SRUN.format(1).replace("srun", "/opt/srun").replace("nodes=2", "nodes=1").replace("node=4", "node=1")
         + " --cpu-bind=none --overlap --nodelist=$DLRUN_FIRST_HOST"),
        ("openmpi", ALL, {},
         "dlrun_openmpi 4 mpirun -np 7 --hostfile $DLRUN_HOSTS-x4 --map-by ppr:4:node --bind-to none"),
        ("openmpi", BOUND, {"arguments": ("--mca", "btl", "^openib")},
         "dlrun_openmpi 4 mpirun -np 8 --hostfile $DLRUN_HOSTS-x4 --map-by ppr:4:node:PE=6 --bind-to core --mca btl ^openib"),
        ("openmpi", FIRST, {"program": "mpiexec"},
         "dlrun_openmpi 1 mpiexec -np 1 --hostfile $DLRUN_HOSTS-first-x1 --map-by ppr:1:node --bind-to none"),
        ("hydra", ALL, {}, "mpiexec.hydra -f $DLRUN_HOSTS -ppn 4 -n 7 -bind-to none"),
        ("hydra", BOUND, {}, "mpiexec.hydra -f $DLRUN_HOSTS -ppn 4 -n 8 -bind-to core:6"),
        ("hydra", BOUND_SOMEHOW, {}, "mpiexec.hydra -f $DLRUN_HOSTS -ppn 4 -n 8 -bind-to core"),
        ("hydra", FIRST, {"arguments": ("-v",)}, "mpiexec.hydra -f $DLRUN_HOSTS-first -ppn 1 -n 1 -bind-to none -v"),
        ("intelmpi", ALL, {}, "mpiexec.hydra -f $DLRUN_HOSTS -ppn 4 -n 7"),
        ("intelmpi", BOUND, {}, "mpiexec.hydra -f $DLRUN_HOSTS -ppn 4 -n 8 -genv I_MPI_PIN 1"),
        ("pals", ALL, {}, "mpiexec -n 7 --ppn 4 --hostfile $DLRUN_HOSTS --cpu-bind none"),
        ("pals", BOUND, {}, "mpiexec -n 8 --ppn 4 --hostfile $DLRUN_HOSTS --cpu-bind depth --depth 12"),
        ("ibrun", ALL, {"arguments": ("-v",)}, "ibrun -n 7 -o 0 -v"),
        ("ssh", ALL, {}, "dlrun_ssh $DLRUN_HOSTS 4 7 1 ssh"),
        ("ssh", FIRST, {"program": "oarsh", "arguments": ("-o", "BatchMode=yes")},
         "dlrun_ssh $DLRUN_HOSTS-first 1 1 3 oarsh -o BatchMode=yes"),
        ("local", ALL, {}, "dlrun_local 7"),
    ],
)  # fmt: skip
def test_arguments(launcher, step, site, words):
    started = backends.launcher(launcher).start(step, LauncherSite(name=launcher, **site))
    assert " ".join(map(str, started)) == words


@pytest.mark.parametrize(
    ("launcher", "rank", "local_rank"),
    [
        ("srun", "$SLURM_PROCID", "$SLURM_LOCALID"),
        ("openmpi", "$OMPI_COMM_WORLD_RANK", "$OMPI_COMM_WORLD_LOCAL_RANK"),
        ("hydra", "$PMI_RANK", "$MPI_LOCALRANKID"),
        ("intelmpi", "$PMI_RANK", "$MPI_LOCALRANKID"),
        ("pals", "$PMI_RANK", "${PALS_LOCAL_RANKID:-$PMI_LOCAL_RANK}"),
        ("ibrun", "$PMI_RANK", "$MPI_LOCALRANKID"),
        ("ssh", "$DLRUN_RANK", "$DLRUN_LOCAL_RANK"),
        ("local", "$DLRUN_RANK", "$DLRUN_LOCAL_RANK"),
    ],
)
def test_identity(launcher, rank, local_rank):
    identity = backends.launcher(launcher).IDENTITY
    assert (identity.rank.code, identity.local_rank.code) == (rank, local_rank)


def test_what_each_needs_around_it():
    site = LauncherSite(name="x")
    told = {
        n: {v.name: str(v.value) for v in backends.launcher(n).variables(site)} for n in backends.LAUNCHERS
    }
    assert {n: t for n, t in told.items() if t} == {
        "intelmpi": {"I_MPI_PIN": "0", "I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"},
        "ibrun": {"I_MPI_PIN": "0"},
    }
    unset = {n: backends.launcher(n).UNSET for n in backends.LAUNCHERS}
    assert "SLURM_CPU_BIND" in unset["srun"]
    assert "SLURM_CPUS_PER_TASK" in unset["srun"]
    assert "I_MPI_PIN_DOMAIN" in unset["intelmpi"]


def test_only_local_is_for_one_machine():
    places = {name: backends.launcher(name).PLACE for name in backends.LAUNCHERS}
    assert [name for name, place in places.items() if place == "machine"] == ["local"]
