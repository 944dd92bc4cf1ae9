"""The plan of an imported spec has the numbers and words of its script, or the import says that it has not."""

from __future__ import annotations

import pytest

from dlrun.cli.main import main
from dlrun.cli.specs.import_plan import check
from dlrun.importing import read_script
from dlrun.importing.text import spec_text
from dlrun.schedulers.draft import Size

TWO = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4 -G 8 -t 9\nexport MODE=fast\nsrun python t.py --lr 1e-4 no 010\n"


def checks(text, site=None, change=lambda draft: None):
    """What is to be checked after the plan of a script's import, which `change` makes another one's before."""
    draft = read_script(text, "job.sh")
    assert draft.to_check == []
    change(draft)
    check(draft, spec_text(draft, None), site)
    return [(entry.text, entry.because) for entry in draft.to_check]


def test_a_spec_that_its_plan_refuses_is_to_be_checked(tmp_path, capfd):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH -N 1 -w n1,n2 -t 10\nsrun python t.py\n")
    with pytest.raises(SystemExit) as ended:
        main(["init", "--from", str(script)])
    assert ended.value.code == 5
    assert "the job has 1 node, but `hosts` lists 2: `dlrun plan` refuses the spec" in capfd.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        TWO.replace("srun", "srun torchrun --nproc_per_node 4 --nnodes 2").replace(
            "-per-node=4", "-per-node=1"
        ),
        "#!/bin/bash\n#PBS -l select=2:ncpus=8:ngpus=4:mpiprocs=4\n#PBS -l walltime=1:00:00\nmpiexec -n 8 --ppn 4 python t.py\n",
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 -t 10\nsrun -N1 -n1 python a.py x &\nsrun -N1 -n1 python b.py &\nwait\n",
        "# flux: -N 2\n# flux: -n 8\nflux run -N 2 -n 8 python t.py\n",
        "#!/bin/bash\n#$ -pe mpi 8\n#$ -cwd\npython t.py\n",
        "#!/bin/bash\n#$ -pe smp 8\n#$ -l h_rt=9\n#$ -cwd\nmpirun -np 8 python t.py\n",
        "#!/bin/bash\n#$ -l gpu=1,h_vmem=8G\n#$ -cwd\npython t.py\n",
    ],
)
def test_the_same_numbers_and_words_leave_nothing_to_check(text):
    draft = read_script(text, "job.sh")
    before = list(draft.to_check)
    check(draft, spec_text(draft, None), None)
    assert draft.to_check == before


def test_a_script_of_grid_engine_is_planned_without_a_site():
    wrong = Size(nodes=1, ranks=2, ranks_per_node=2, gpus_per_node=None)
    text = "#!/bin/bash\n#$ -pe smp 4\n#$ -cwd\nmpirun -np 4 python t.py\n"
    found = checks(text, change=lambda draft: draft.sizes.update({"": wrong}))
    assert ("ranks: 2", "`dlrun plan` has 4") in found


@pytest.mark.parametrize(
    ("number", "value"), [("nodes", 3), ("ranks", 7), ("ranks_per_node", 3), ("gpus_per_node", 2)]
)
def test_a_number_that_the_plan_has_in_another_way(number, value):
    numbers = {"nodes": 2, "ranks": 8, "ranks_per_node": 4, "gpus_per_node": 4}
    changed = Size(**{**numbers, number: value})
    found = checks(TWO, change=lambda draft: draft.sizes.update({"": changed}))
    assert found == [(f"{number}: {value}", f"`dlrun plan` has {numbers[number]}")]


def test_words_and_variables_that_the_plan_has_in_another_way():
    draft = read_script(TWO, "job.sh")
    text = spec_text(draft, None)
    draft.values["command"][-1] = "8"
    draft.values["environment"]["variables"]["MODE"] = "slow"
    check(draft, text, None)
    assert [(e.text, e.because) for e in draft.to_check] == [
        (
            "command: ['python', 't.py', '--lr', '1e-4', 'no', '8']",
            "`dlrun plan` has ['python', 't.py', '--lr', '1e-4', 'no', '010']",
        ),
        ("MODE: slow", "`dlrun plan` has fast"),
    ]


def test_the_site_that_is_named_is_the_one_that_plans():
    (refused,) = checks(TWO, site="perlmutter")
    assert refused[1] == "`dlrun plan` refuses the spec"
