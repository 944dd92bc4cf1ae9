"""The one-line change of a batch script: what replaces its launch line, and that all else stays."""

from __future__ import annotations

import subprocess

import pytest

from dlrun.importing.run_line import with_run
from tests.equivalence.run_lines import SCRIPTS

pytest.importorskip("tree_sitter", reason="tree-sitter is not installed")

SCRIPT = """\
#!/bin/bash
#SBATCH -N 2 --gpus-per-node=4
module load cuda   # stays
trap 'cp -r out /proj' EXIT
if [[ -n $SLURM_JOB_ID ]]; then
  {line}
fi
wait
"""


@pytest.mark.parametrize(
    ("line", "new"),
    [
        (
            "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d train.py --lr $LR > log.txt 2>&1",
            "dlrun run --nodes 2 --ranks-per-node 4 -- python train.py --lr $LR > log.txt 2>&1",
        ),
        (
            "srun --cpu-bind=cores python -u train.py '$x' \"${A[@]}\" &",
            "dlrun run --ranks-per-node 1 -- python -u train.py '$x' \"${A[@]}\" &",
        ),
        ("time srun -n 8 python train.py | tee log", "time dlrun run --ranks-per-node 4 -- python train.py | tee log"),
        ("mpirun -np 8 ./train a b", "dlrun run --ranks-per-node 4 --framework mpi -- ./train a b"),
        ("A=1 exec srun -n 1 ./train", "A=1 exec dlrun run --nodes 1 --ranks-per-node 1 -- ./train"),
        ("timeout 2h srun -n 3 ./train", "timeout 2h dlrun run --set resources.ranks=3 -- ./train"),
        (
            "srun \\\n    --ntasks-per-node=4 \\\n    python train.py \\\n    --lr 1",
            "dlrun run --ranks-per-node 4 -- python train.py \\\n    --lr 1",
        ),
        (
            "srun torchrun --nnodes=$SLURM_NNODES \\\n    --nproc-per-node=$GPUS -m my.train \\\n    --lr 1",
            'dlrun run --ranks-per-node "$GPUS" -- python -m my.train \\\n    --lr 1',
        ),
        (
            "mpiexec -n ${TOTAL} --ppn $((EACH * 2)) python train.py",
            'dlrun run --ranks-per-node "$((EACH * 2))" --set resources.ranks="${TOTAL}" --framework mpi -- python train.py',
        ),
        (
            "srun -N $N -c $SLURM_CPUS_PER_TASK python train.py",
            'dlrun run --nodes "$N" --ranks-per-node 1 -- python train.py',
        ),
        (  # an agent that stays has its own rendezvous, and is started once on each node
            "srun apptainer exec x.sif torchrun --nproc_per_node=4 train.py",
            "dlrun run --ranks-per-node 1 --framework mpi -- apptainer exec x.sif torchrun --nproc_per_node=4 train.py",
        ),
        ("horovodrun -np 4 python train.py", "dlrun run --nodes 1 --ranks-per-node 4 --framework horovod -- python train.py"),
    ],
)  # fmt: skip
def test_a_launch_line(line, new):
    before = SCRIPT.replace("{line}", line)
    changed = with_run(before)
    assert changed.text == SCRIPT.replace("{line}", new)
    assert (changed.lines, changed.unchanged) == (1, [])
    diff = changed.diff(before, "x.sh").splitlines()
    assert diff[:2] == ["--- a/x.sh", "+++ b/x.sh"]
    assert [one for one in diff[2:] if one.startswith("+")] == [f"+  {new.splitlines()[0]}"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.source.partition("@")[0])
def test_a_public_script(script):
    """tests/cluster/test_run_public.py runs both."""
    changed = with_run(script.text)
    assert changed.text == script.new
    assert (changed.lines, changed.unchanged) == (1, [])


@pytest.mark.parametrize(
    ("directives", "line", "options"),
    [
        ("#SBATCH -N 2 --ntasks-per-node=4", "srun python", "--ranks-per-node 4"),
        ("#SBATCH -N 2 -n 4", "srun python", "--ranks-per-node 2"),
        ("#SBATCH -n 4", "srun python", "--set resources.ranks=4"),
        ("#SBATCH -N 2 --gpus-per-node=4", "srun python", "--ranks-per-node 1"),
        ("", "srun python", '--set resources.ranks="${SLURM_NTASKS:-$SLURM_NNODES}"'),
        ("#SBATCH -N 2 --ntasks-per-node=4", "mpirun python", "--ranks-per-node 4 --framework mpi"),
        ("#PBS -l select=2:ncpus=8:mpiprocs=4", "mpiexec python", "--ranks-per-node 4 --framework mpi"),
        (
            "#PBS -l select=2:ncpus=8:mpiprocs=4",
            "mpiexec -n 6 python",
            "--ranks-per-node 3 --framework mpi",
        ),
        ("#$ -pe mpi 16", "mpirun python", '--set resources.ranks="$NSLOTS" --framework mpi'),
        ("#$ -pe mpi 16", "mpirun -np $NSLOTS python", '--set resources.ranks="$NSLOTS" --framework mpi'),
    ],
)
def test_the_number_of_ranks_stays_that_of_the_script(directives, line, options):
    """Not one for each GPU, which is what `dlrun run` starts where nothing is said."""
    before = f"#!/bin/bash\n{directives}\n{line} train.py\n"
    assert with_run(before).text == f"#!/bin/bash\n{directives}\ndlrun run {options} -- python train.py\n"


@pytest.mark.parametrize("line", ["srun --ntasks-per-node=1 ./a", "srun --ntasks-per-node=$X ./a"])
def test_the_tasks_of_the_job_are_those_that_srun_starts(line):
    """Of `--ntasks-per-node` alone: SLURM_NTASKS is `--ntasks` of a step."""
    changed = with_run(f"#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2\n{line}\n")
    assert [note.because[:21] for note in changed.unchanged] == ["srun starts the 4 tas"]
    same = with_run("#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2\nsrun --ntasks-per-node=2 ./a\n")
    assert "dlrun run --ranks-per-node 2 -- ./a" in same.text


@pytest.mark.needs("git")
def test_a_last_line_without_an_end_is_marked_for_patch(tmp_path):
    before = "srun -n 2 -N 2 python train.py"
    (tmp_path / "x.sh").write_text(before)
    changed = with_run(before)
    patched = subprocess.run(
        ["git", "apply", "-"],
        input=changed.diff(before, "x.sh"),
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert patched.returncode == 0, patched.stderr
    assert (
        (tmp_path / "x.sh").read_text()
        == changed.text
        == "dlrun run --nodes 2 --ranks-per-node 1 -- python train.py"
    )


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("srun bash -c 'torchrun --node_rank=$SLURM_NODEID t.py'", "a shell"),
        ("srun --container-image=a+b:1 python train.py", "container"),
        ("srun -N 1-$N python train.py", "only when the script runs"),
        ("srun $OPTIONS python train.py", "only when the script runs"),
        ("srun python train.py < input", "standard input"),
        ("cat input | srun python train.py", "standard input"),
        ("python -m torch.distributed.launch --nproc_per_node 4 train.py", "`--local_rank`"),
        (".venv/bin/torchrun --nproc_per_node 4 train.py", "belongs to one environment"),
        ("srun accelerate launch train.py", "its own configuration"),
        ("srun --ntasks-per-node 4 torchrun --nnodes 2 train.py", "several torchrun on each node"),
        ("srun torchrun --standalone --nproc_per_node 4 train.py", "for 1 nodes, and is started on 2"),
        ("for i in 1 2; do srun python train.py $i & done", "beside others"),
        ("srun python a.py & srun python b.py", "beside others"),
        ("eval srun python train.py", "it starts a launcher"),
        ("srun --export=ALL,A=1 python train.py", "sets variables"),
    ],
)
def test_what_is_not_understood_stays_with_the_reason(line, because):
    before = SCRIPT.replace("{line}", line)
    changed = with_run(before)
    assert changed.text == before
    assert changed.unchanged
    for note in changed.unchanged:
        assert (note.line, note.text in line) == (6, True)
        assert because in note.because


def test_several_lines():
    changed = with_run("srun -n 1 a.py\nhostname\nsrun -n 2 b.py\n")
    assert (
        changed.text
        == "dlrun run --set resources.ranks=1 -- a.py\nhostname\ndlrun run --set resources.ranks=2 -- b.py\n"
    )
