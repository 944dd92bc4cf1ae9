"""The one-line change of a batch script: what replaces its launch line, and that all else stays."""

from __future__ import annotations

import pytest

from dlrun.importing.run_line import with_run

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
        ("srun --cpu-bind=cores python -u train.py '$x' \"${A[@]}\" &", "dlrun run -- python -u train.py '$x' \"${A[@]}\" &"),
        ("time srun -n 8 python train.py | tee log", "dlrun run --set resources.ranks=8 -- python train.py | tee log"),
        ("mpirun -np 8 ./train a b", "dlrun run --set resources.ranks=8 --framework mpi -- ./train a b"),
        (
            "srun \\\n    --ntasks-per-node=4 \\\n    python train.py \\\n    --lr 1",
            "dlrun run --ranks-per-node 4 -- python train.py --lr 1",
        ),
    ],
)  # fmt: skip
def test_a_launch_line(line, new):
    before = SCRIPT.replace("{line}", line)
    changed = with_run(before)
    assert changed.text == SCRIPT.replace("{line}", new)
    assert (changed.lines, changed.unchanged) == (1, [])
    diff = changed.diff(before, "x.sh").splitlines()
    assert diff[:2] == ["--- a/x.sh", "+++ b/x.sh"]
    assert [one for one in diff[2:] if one.startswith("+")] == [f"+  {new}"]


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("srun bash -c 'torchrun --node_rank=$SLURM_NODEID t.py'", "a shell"),
        ("srun --container-image=a+b:1 python train.py", "container"),
        ("srun -n $N python train.py", "only when the script runs"),
        ("srun --export=ALL,A=1 python train.py", "sets variables"),
    ],
)
def test_what_is_not_understood_stays_with_the_reason(line, because):
    before = SCRIPT.replace("{line}", line)
    changed = with_run(before)
    assert changed.text == before
    (note,) = changed.unchanged
    assert (note.line, note.text) == (6, line)
    assert because in note.because


def test_several_lines():
    changed = with_run("srun python a.py\nhostname\nsrun python b.py\n")
    assert changed.text == "dlrun run -- python a.py\nhostname\ndlrun run -- python b.py\n"
