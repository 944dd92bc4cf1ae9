"""Scripts whose job is one task: the text of the rank is that of the script, without `srun`."""

from __future__ import annotations

import pytest

from dlrun.importing import read_script

BEGIN = "#!/bin/bash\n#SBATCH -n 1 -c 8 --gpus=2 -t 60\n"


@pytest.mark.parametrize(
    ("script", "run"),
    [
        ("srun python a.py\nsrun -u --mpi=none python b.py", "python a.py\npython b.py"),
        ("srun \\\n  -n 1 \\\n  python a.py\ncp model.pt ~/", "python a.py\ncp model.pt ~/"),
        ("N=1\nsrun -n $N -c 8 -G 2 python a.py\nsrun python b.py", "N=1\npython a.py\npython b.py"),
        ("for f in *.x; do srun python a.py $f; done", "for f in *.x; do python a.py $f; done"),
        ("srun python a.py && srun python a.py", "python a.py && python a.py"),
        ("time srun python a.py\ntimeout 3h srun python b.py", "time python a.py\ntimeout 3h python b.py"),
        (
            "A=1 srun python a.py\nsrun python b.py <<EOF\n1\nEOF",
            "A=1 python a.py\npython b.py <<EOF\n1\nEOF",
        ),
    ],
)
def test_the_program_is_in_place_of_its_launch(script, run):
    draft = read_script(BEGIN + script, "job.sh")
    assert draft.to_check == []
    assert draft.get("run").endswith(f"\n{run}\n")


@pytest.mark.parametrize(
    "launch",
    [
        "srun --time=5 python a.py",
        "srun --export=NONE python a.py",
        "srun -c 4 python a.py",
        "srun --gpus=1 python a.py",
        "srun -w node1 python a.py",
        "srun --unknown python a.py",
        "srun -n $UNKNOWN python a.py",
        "srun $PROGRAM a.py",
        "srun cd data",
        "srun a.py : b.py",
        "srun python a.py &",
        "echo x | while read y; do srun python a.py $y; done",
        "while read y; do srun python a.py $y; done < list",
        "A=$(srun hostname)",
        "mpirun -np 1 python a.py",
        "$LAUNCH srun python a.py",
        "for N in 1 2; do srun -n $N python a.py; done",
        "f() { cd x; }; srun f",
    ],
)
def test_a_launch_that_does_more_is_to_be_checked(launch):
    draft = read_script(f"{BEGIN}{launch}\nsrun python b.py\nsrun python c.py\n", "job.sh")
    assert draft.to_check
    assert "srun python b.py" in draft.get("run")


@pytest.mark.parametrize(
    "size", ["", "#SBATCH -n 2\n", "#SBATCH -N 2\n", "#SBATCH -N 1 --ntasks-per-node=2\n"]
)
def test_other_jobs_than_of_one_task_keep_their_launches(size):
    assert read_script(f"#!/bin/bash\n{size}srun python a.py\nsrun python b.py\n", "job.sh").to_check
