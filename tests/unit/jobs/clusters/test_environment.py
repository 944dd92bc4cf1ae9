"""What a shell inside a job has in its environment must not reach the next job."""

from __future__ import annotations

import pytest

from dlrun.jobs.clusters.environment import NEEDED, clean, inherited, within_allocation, without_own


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JOB_ID",
        "SLURM_CPU_BIND",
        "SLURM_CPUS_PER_TASK",
        "SLURMD_NODENAME",
        "SBATCH_ACCOUNT",
        "SRUN_CPUS_PER_TASK",
        "SQUEUE_FORMAT",
        "SACCT_FORMAT",
        "SLURM_TIME_FORMAT",
        "SLURM_EXPORT_ENV",
        "PBS_JOBID",
        "PBS_NODEFILE",
        "PBS_O_WORKDIR",
        "PBS_DPREFIX",
        "PMI_RANK",
        "PMI2_X",
        "PMI_FD",
        "PMIX_RANK",
        "PMIX_NAMESPACE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_MCA_btl",
        "PRTE_MCA_x",
        "PALS_RANKID",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "ROLE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "HYDRA_BOOTSTRAP",
        "HYDI_CONTROL_FD",
        "I_MPI_PIN",
        "I_MPI_PIN_DOMAIN",
        "I_MPI_HYDRA_BOOTSTRAP",
        "MV2_COMM_WORLD_RANK",
        "HOROVOD_RANK",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR",
        "DMLC_ROLE",
        "TF_CONFIG",
    ],
)
def test_taken_out(name):
    assert clean({name: "1", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert inherited({name: "1", "PATH": "/bin"}) == [name]


@pytest.mark.parametrize(
    "name",
    [
        *sorted(NEEDED),
        *[
            "PATH",
            "HOME",
            "LD_LIBRARY_PATH",
            "SSH_AUTH_SOCK",
            "CUDA_VISIBLE_DEVICES",
            "OMP_NUM_THREADS",
            "I_MPI_ROOT",
            "I_MPI_FABRICS",
            "HF_TOKEN",
            "NCCL_DEBUG",
            "RANKS",
            "MY_RANK",
            "SLURM",
            "PBS",
            "HOROVOD_FUSION_THRESHOLD",
            "TORCH_HOME",
            "DLRUN_JOBS",
            "PMIC",
            "PALSY_X",
            "SLURMY_X",
        ],
    ],
)
def test_left_alone(name):
    assert clean({name: "1"}) == {name: "1"}
    assert inherited({name: "1"}) == []


def test_the_given_environment_is_not_changed():
    given = {"RANK": "0"}
    clean(given)
    assert given == {"RANK": "0"}


def test_dlruns_own_environment_is_no_part_of_a_job_that_has_one():
    given = {
        "PATH": "/home/a/venv/bin:/usr/bin:/home/a/venv/bin/:/bin",
        "VIRTUAL_ENV": "/home/a/venv",
        "HOME": "/home/a",
    }
    kept = without_own(given, "/home/a/venv", "/usr")
    assert kept == {"PATH": "/usr/bin:/bin", "HOME": "/home/a"}
    other = {"PATH": "/home/a/other/bin:/bin", "VIRTUAL_ENV": "/home/a/other"}
    assert without_own(other, "/home/a/venv", "/usr") == other
    assert without_own(given, "/usr", "/usr") == given


def test_a_script_exports_its_rendezvous_to_all_ranks_and_a_rank_its_own_to_none():
    exported = {
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "8",
        "HOME": "/home/me",
        "SLURM_PROCID": "0",
    }
    kept = {name: value for name, value in exported.items() if name != "SLURM_PROCID"}
    assert within_allocation(exported) == kept
    assert within_allocation({**exported, "RANK": "3"}) == {"HOME": "/home/me"}
