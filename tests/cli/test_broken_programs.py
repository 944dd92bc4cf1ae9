"""Programs of the machine that are found on PATH and cannot be started: shims of version managers, files of another machine."""

from __future__ import annotations

import shutil

import pytest

PROGRAMS = """
    ssh srun sbatch squeue sacct scontrol scancel sinfo qsub qstat pbsnodes qconf qhost qacct flux apptainer singularity git
    nvidia-smi rocm-smi numactl aws rclone s5cmd curl mksquashfs squashfuse mpirun hostname getent
""".split()  # noqa: SIM905 - many
KINDS = {
    "no interpreter": b"#!/no/such/interpreter\n",
    "another machine's": b"\x7fELF\x02\x01\x01" + bytes(40),
}
SPEC = "name: run\nrun: 'true'\nresources: {ranks_per_node: 1, walltime: 10m}\n"
COMMANDS = {
    "local": ("submit", "spec.yaml"),
    "login node": ("submit", "--host", "login.invalid", "spec.yaml"),
    "slurm": ("submit", "--site", "generic-slurm", "spec.yaml"),
    "check": ("submit", "--check", "--site", "generic-slurm", "spec.yaml"),
    "pbs": ("submit", "--site", "generic-pbs", "spec.yaml"),
    "gridengine": ("submit", "--site", "generic-gridengine", "spec.yaml"),
    "flux": ("submit", "--site", "generic-flux", "spec.yaml"),
    "image": ("submit", "--set", "environment.container.image=docker://127.0.0.1:1/o/n:1", "spec.yaml"),
    "run": ("run", "spec.yaml"),
    "status": ("status",),
    "site detect": ("site", "detect"),
    "site test": ("site", "test", "generic-slurm"),
    "tune-affinity": ("tune-affinity",),
    "verify": ("verify", "spec.yaml"),
    "stage-data": ("stage-data", "s3://bucket/set"),
}


@pytest.fixture(params=["no interpreter", pytest.param("another machine's", marks=pytest.mark.slow)])
def path(request, tmp_path):
    """PATH with such a file for each of them, and bash."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in PROGRAMS:
        (broken / name).write_bytes(KINDS[request.param])
        (broken / name).chmod(0o755)
    (broken / "bash").symlink_to(shutil.which("bash"))
    return str(broken)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_takes_them_for_a_bug_of_its_own(dlrun, path, command):
    (dlrun.place / "spec.yaml").write_text(SPEC)
    done = dlrun(*COMMANDS[command], env={"PATH": path, "HOME": str(dlrun.place)}, code=None)
    assert "bug in dlrun" not in done.stderr
    if "error: " in done.stderr:
        assert "= help: " in done.stderr
