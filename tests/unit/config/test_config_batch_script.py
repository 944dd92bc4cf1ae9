"""Batch scripts of Slurm and PBS -> training specs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlrun import backends
from dlrun.config.batch_script import read
from dlrun.config.batch_script.text import spec_text
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.shell_command import with_command
from dlrun.model.origin import Layer, Origin
from dlrun.model.spec import Spec
from tests.examples import examples

HERE = Path(__file__).parent / "batch_scripts"


def spec_of(text):
    """The spec that the printed text decodes to, which must be without problems."""
    document = parse(spec_text(read(text, "job.sh"), "job.sh"), Origin(layer=Layer.SPEC, name="spec.yaml"))
    root, both = with_command(document.root)
    assert both is None
    decoded = decode(root, Spec, options=backends.framework_options)
    assert [*document.problems, *decoded.problems] == []
    return decoded.value


def script(*lines):
    return "\n".join(["#!/bin/bash", *lines, "srun python train.py", ""])


def left(text):
    return {(one.line, one.text): one.because for one in read(text, "job.sh").left_out}


@pytest.mark.parametrize("name", ["torchrun.sbatch", "mpiexec.pbs"])
def test_a_whole_script(name):
    source = HERE / name
    expected = source.with_suffix(".yaml").read_text("utf-8")
    assert spec_text(read(source.read_text("utf-8"), name), name) == expected
    spec_of(source.read_text("utf-8"))


@pytest.mark.parametrize(
    ("directive", "key", "value"),
    [
        ("#SBATCH -t 30", "walltime", "30m"),
        ("#SBATCH --time=30:00", "walltime", "30m"),
        ("#SBATCH --time=1-12", "walltime", "1d12h"),
        ("#SBATCH --time 02:00:00", "walltime", "2h"),
        ("#SBATCH --mem=0", "memory_per_node", "all"),
        ("#SBATCH --mem=4000", "memory_per_node", "4000MiB"),
        ("#SBATCH -N2 -n8", "ranks_per_node", "4"),
        ("#SBATCH -N2 --gpus=8", "gpus_per_node", "4"),
        ("#SBATCH --ntasks-per-node=4 --gpus-per-task=1", "gpus_per_node", "4"),
        ("#SBATCH --gpus-per-node=a100:4", "gpus_per_node", "4"),
        ("#SBATCH --cpus-per-task=4 --mem-per-cpu=2G", "memory_per_node", "8GiB"),
        ("#SBATCH --exclusive", "exclusive", "True"),
        ("#SBATCH -C 'a100&nvlink'", "constraint", "a100&nvlink"),
        ("#SBATCH --licenses=scratch:1", "options", "{'licenses': 'scratch:1'}"),
        ("#PBS -l nodes=2:ppn=8", "ranks_per_node", "8"),
        ("#PBS -l select=2:ncpus=48:mpiprocs=4:ngpus=4:mem=180gb", "gpus_per_node", "4"),
        ("#PBS -l select=2:mem=180gb", "memory_per_node", "180GiB"),
        ("#PBS -l walltime=5400", "walltime", "1h30m"),
        ("#PBS -W group_list=abc", "account", "abc"),
        ("#PBS -P abc", "account", "abc"),
    ],
)
def test_a_directive(directive, key, value):
    found = getattr(spec_of(script(directive)).resources, key)
    assert str(dict(found) if key == "options" else found) == value


@pytest.mark.parametrize(
    ("launch", "framework", "command"),
    [
        ("torchrun --standalone --nproc_per_node=4 train.py --lr 1", "torch", ("python", "train.py", "--lr", "1")),
        ("python -m torch.distributed.run --nproc_per_node 4 -m pkg.train", "torch", ("python", "-m", "pkg.train")),
        ("accelerate launch --num_processes 8 train.py", "accelerate", ("python", "train.py")),
        ("deepspeed --num_gpus 4 train.py --deepspeed ds.json", "deepspeed", ("python", "train.py", "--deepspeed", "ds.json")),
        ("horovodrun -np 8 python train.py", "horovod", ("python", "train.py")),
        ("mpirun -np 8 -x PATH --bind-to none ./solver in.dat", "mpi", ("./solver", "in.dat")),
        ("srun --mpi=pmix -n 8 ./solver", "mpi", ("./solver",)),
        ("ibrun ./solver", "mpi", ("./solver",)),
        ("python train.py | tee log", "torch", ("python", "train.py")),
        ("DEBUG=1 python train.py &> log", "torch", ("python", "train.py")),
        ("srun bash -c 'python train.py && touch done'", "mpi", ("bash", "-c", "python train.py && touch done")),
    ],
)  # fmt: skip
def test_a_launch(launch, framework, command):
    spec = spec_of(f"#!/bin/bash\n{launch}\n")
    assert (spec.framework, spec.command) == (framework, command)


def test_a_container_around_the_program():
    spec = spec_of("srun apptainer exec --nv -B /data:/data,/scratch torch.sif python train.py\n")
    assert spec.command == ("python", "train.py")
    assert spec.environment.container.image == "torch.sif"
    assert spec.environment.container.binds == ("/data:/data", "/scratch")


def test_numbers_that_the_script_computes():
    spec = spec_of(
        "#PBS -l select=3\nNODES=$(wc -l < $PBS_NODEFILE)\nPER=4\nmpiexec -n $((NODES * PER)) --ppn $PER ./a\n"
    )
    assert (spec.resources.nodes, spec.resources.ranks_per_node, spec.resources.ranks) == (3, 4, "auto")
    uneven = spec_of("#SBATCH -N 2\nmpirun -np 7 -ppn 4 ./a\n")
    assert uneven.resources.ranks == 7


def test_a_variable_that_is_assigned_twice_is_not_put_in():
    spec = spec_of("N=2\nif true; then N=3; fi\nN=4\nsrun python train.py --n $N\n")
    assert spec.run == "python train.py --n $N"
    assert "export N=4" in spec.environment.setup, "ranks are other processes"


def test_order_that_the_keys_cannot_keep_stays_in_lines_of_set_up():
    environment = spec_of(
        script(
            "module use /apps", "module load cuda", "source env/bin/activate", "export A=1", "export B=$A/x"
        )
    ).environment
    assert (environment.modules, environment.venv) == ((), None)
    assert environment.setup == (
        "module use /apps", "module load cuda", "source env/bin/activate", "export A=1", "export B=$A/x",
    )  # fmt: skip


def test_what_dlrun_decides_is_left_out_with_the_reason():
    found = left(
        script(
            "#SBATCH -o out.log",
            "export MASTER_PORT=29500",
            "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
            "hostname",
        )
    )
    assert "dlrun logs" in found[2, "--output=out.log"]
    assert found[3, "export MASTER_PORT=29500"] == "dlrun sets it for each rank"
    assert "placement" in found[4, "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK"]
    assert found[5, "hostname"] == "it only prints"


def test_what_follows_the_training_is_named():
    found = left(script() + "cp model.pt ~/\nsrun python evaluate.py\n")
    assert found[3, "cp model.pt ~/"] == "dlrun runs nothing after the training"
    assert "`after:`" in found[4, "srun python evaluate.py"]


_WORDS = """srun mpirun -n 4 python train.py $A ${B} ' " \\ | && > # if fi export A=1 #SBATCH #PBS -l select=2 --mem 2G <<EOF EOF
( ) { } module load $(( )) -env torchrun apptainer exec ="""


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.lists(st.sampled_from([*_WORDS.split(), "", "é\x85", "\t"]), max_size=8).map(" ".join), max_size=8
    )
)
@example(["#PBS \\ #SBATCH"])
def test_any_text_is_read(lines):
    text = spec_text(read("\n".join(lines), "x.sh"), "x.sh")
    assert parse(text, Origin(layer=Layer.SPEC, name="x")).problems == ()
