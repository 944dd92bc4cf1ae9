"""Batch scripts of Slurm, PBS, Flux and Grid Engine -> training specs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dlrun import backends
from dlrun.config.batch_script import read_script
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
    document = parse(
        spec_text(read_script(text, "job.sh"), "job.sh"), Origin(layer=Layer.SPEC, name="spec.yaml")
    )
    root, both = with_command(document.root)
    assert both is None
    decoded = decode(root, Spec, options=backends.framework_options)
    assert [*document.problems, *decoded.problems] == []
    return decoded.value


def script(*lines):
    return "\n".join(["#!/bin/bash", *lines, "srun python train.py", ""])


def left(text):
    return {(one.line, one.text): one.because for one in read_script(text, "job.sh").left_out}


@pytest.mark.parametrize("name", ["torchrun.sbatch", "mpiexec.pbs", "tasks.flux", "slots.sge"])
def test_a_whole_script(name):
    source = HERE / name
    expected = source.with_suffix(".yaml").read_text("utf-8")
    assert spec_text(read_script(source.read_text("utf-8"), name), name) == expected
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
        ("#SBATCH -t 1:0:0", "walltime", "1h"),
        ("#SBATCH -n32 --ntasks-per-node=8", "nodes", "4"),
        ("#SBATCH -N2 -n1", "ranks", "auto"),
        ("#SBATCH --mail-type=begin\n#SBATCH --mail-type=end", "options", "{'mail-type': 'begin,end'}"),
        ("#PBS -l walltime=1:0:0", "walltime", "1h"),
        ("#PBS -l nodes=2:ppn=8", "ranks_per_node", "8"),
        ("#PBS -l select=2:ncpus=48:mpiprocs=4:ngpus=4:mem=180gb", "gpus_per_node", "4"),
        ("#PBS -l select=2:mem=180gb", "memory_per_node", "180GiB"),
        ("#PBS -l walltime=5400", "walltime", "1h30m"),
        ("#PBS -W group_list=abc", "account", "abc"),
        ("#PBS -P abc", "account", "abc"),
        ("#SBATCH -N2 -n8 --gpus-per-task=1", "gpus_per_node", "4"),
        ("# flux: -t 90", "walltime", "1h30m"),
        ("#FLUX: -t 1.5h", "walltime", "1h30m"),
        ("# flux: --time-limit=30m", "walltime", "30m"),
        ("# flux: -N2 -n8 -c24 -g1", "ranks_per_node", "4"),
        ("# flux: -N2 -n8 -c24 -g1", "cpus_per_rank", "24"),
        ("# flux: -N2 -n8 -c24 -g1", "gpus_per_node", "4"),
        ("# flux: -N2 -x", "exclusive", "True"),
        ("# flux: --requires=gpu", "constraint", "gpu"),
        ("# flux: -q pbatch", "partition", "pbatch"),
        ("# flux: --bank abc", "account", "abc"),
        ("# flux: --setattr=a=b", "options", "{'setattr': 'a=b'}"),
        ("#$ -l h_rt=1:0:0", "walltime", "1h"),
        ("#$ -l h_rt=5400", "walltime", "1h30m"),
        ("#$ -pe mpi-8 32", "nodes", "4"),
        ("#$ -pe smp 8", "cpus_per_rank", "8"),
        ("#$ -pe smp 8 -l h_vmem=2G", "memory_per_node", "16GiB"),
        ("#$ -l gpu=2", "gpus_per_node", "2"),
        ("#$ -P abc -q all.q", "account", "abc"),
        ("#$ -q all.q", "partition", "all.q"),
        ("#$ -l exclusive", "exclusive", "True"),
        ("#$ -l tmpfs=10G", "options", "{'tmpfs': '10G'}"),
        ("#$ -p -5 -ac allow=L", "options", "{'p': '-5', 'ac': 'allow=L'}"),
        ("#$ -ar 17", "reservation", "17"),
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
        ("flux run -N2 -n8 -g1 -o mpibind=off --label-io ./solver a", "mpi", ("./solver", "a")),
        ("flux mini run -x -N 2 -n 2 ./solver", "mpi", ("./solver",)),
        ("flux resource list\nflux run -n8 -g1 python train.py", "torch", ("python", "train.py")),
        ("python train.py | tee log", "torch", ("python", "train.py")),
        ("DEBUG=1 python train.py &> log", "torch", ("python", "train.py")),
        ("srun bash -c 'python train.py --lr 1'", "mpi", ("python", "train.py", "--lr", "1")),
        ('CMD="python train.py --lr 1"\nsrun bash -c "$CMD"', "mpi", ("python", "train.py", "--lr", "1")),
        ("srun python train.py --deepspeed ds.json", "deepspeed", ("python", "train.py", "--deepspeed", "ds.json")),
        ("srun gssr-record python train_torch.py", "torch", ("gssr-record", "python", "train_torch.py")),
    ],
)  # fmt: skip
def test_a_launch(launch, framework, command):
    spec = spec_of(f"#!/bin/bash\n{launch}\n")
    assert (spec.framework, spec.command) == (framework, command)


@pytest.mark.parametrize(
    ("directives", "launch", "expected"),
    [
        ("# flux: -N2 -x", "flux run -N2 -n8 -c24 -g1 python t.py", (2, 4, 24, 4)),
        ("# flux: -N2 -n2 -c96 -g4", "flux run -n8 -g1 python t.py", (2, 4, "auto", 4)),
        ("#$ -pe mpi-16 64", "mpirun -np $NSLOTS ./solver", (4, 16, 1, "auto")),
        ("#$ -pe mpi-16 64", "mpirun ./solver", (4, 16, 1, "auto")),
        ("#$ -pe mpi-16 64", "mpirun -np 8 ./solver", (4, 2, 8, "auto")),
        ("#$ -pe smp 16", "torchrun --nproc_per_node=4 t.py", (1, 4, 4, "auto")),
    ],
)
def test_slots_are_not_always_ranks(directives, launch, expected):
    found = spec_of(f"#!/bin/bash\n{directives}\n{launch}\n").resources
    assert (found.nodes, found.ranks_per_node, found.cpus_per_rank, found.gpus_per_node) == expected


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("#$ -pe mpi 8-16", "the number of slots is a range"),
        ("#$ -l s_rt=300", "use `checkpoint:`"),
        ("#$ -t 1-10", "under `sweep:`"),
        ("#$ -N <name>", "a placeholder"),
        ("# flux: --env=A=1", "`environment.variables`"),
        ("# flux: -q <queue>", "a placeholder"),
        ("# flux: -t 1y", "not a time"),
    ],
)
def test_what_is_left_out_of_flux_and_grid_engine(line, because):
    (reason,) = left(script(line)).values()
    assert because in reason


def test_dependencies_of_flux_and_grid_engine():
    flux = spec_of(script("# flux: --dependency=afterok:f2Yx", "# flux: --dependency=afterany:17"))
    assert [(one.job, one.when) for one in flux.after] == [("f2Yx", "ok"), ("17", "any")]
    ge = spec_of(script("#$ -hold_jid 12,prep"))
    assert [(one.job, one.when) for one in ge.after] == [("12", "any"), ("prep", "any")]


def test_a_comment_is_no_directive_of_grid_engine():
    assert "hold" not in read_script(script("  #$ -h", "#$5 -h", "# $ -h"), "job.sh").values


def test_a_container_around_the_program():
    spec = spec_of("srun apptainer exec --nv -B /data:/data,/scratch torch.sif python train.py\n")
    assert spec.command == ("python", "train.py")
    assert spec.environment.container.image == "torch.sif"
    assert spec.environment.container.binds == ("/data:/data", "/scratch")


def test_a_container_of_pyxis_and_bound_directories_without_a_blank():
    spec = spec_of(
        "srun --container-image=nvcr.io#nvidia/pytorch:25.01-py3 --container-mounts=/a:/b python train.py\n"
    )
    container = spec.environment.container
    assert (container.image, container.runtime) == ("nvcr.io#nvidia/pytorch:25.01-py3", "enroot")
    assert container.binds == ("/a:/b",)
    assert spec_of(
        'srun singularity exec -B"/a:/b" -B/c x.sif python t.py\n'
    ).environment.container.binds == ("/a:/b", "/c")


@pytest.mark.parametrize(
    ("directives", "launch", "per_node", "cpus"),
    [
        (
            "--gpus-per-node=8 --ntasks-per-node=1 --cpus-per-task=56",
            "torchrun --nproc_per_node=$GPUS t.py",
            8,
            7,
        ),
        ("--gpus-per-node=8 -c 56", "torchrun --nproc_per_node=$SLURM_GPUS_PER_NODE t.py", 8, 7),
        ("--gpus-per-node=4", "torchrun --nnodes 1 t.py", 1, "auto"),  # its default
        ("--gpus-per-node=4 -c 288", "accelerate launch --config_file c.yaml t.py", 4, 72),
        ("--gpus-per-node=4 -n 2", "accelerate launch --num_processes 8 t.py", 4, "auto"),
        ("--gpus-per-node=4 --ntasks-per-node=1", "deepspeed t.py", 4, "auto"),
        ("--gpus-per-node=3 --ntasks-per-node=3 -c 2", "horovodrun -np $SLURM_NTASKS python t.py", 3, 2),
    ],
)
def test_ranks_that_an_agent_starts(directives, launch, per_node, cpus):
    found = spec_of(f"#SBATCH -N 2 {directives}\nsrun {launch}\n").resources
    assert (found.nodes, found.ranks_per_node, found.cpus_per_rank) == (2, per_node, cpus)


def test_a_script_within_the_launch_line_is_shell_text():
    text = 'srun -l bash -c "\n    source env.sh\n    python train.py --rank \\$SLURM_PROCID\n    "\n'
    assert spec_of(text).run == "source env.sh\npython train.py --rank $SLURM_PROCID\n"
    assert spec_of("srun bash -c 'a \\$x | b'\n").run == "a \\$x | b\n", "single quotes keep a backslash"


@pytest.mark.parametrize("line", ["#SBATCH -A <project>", "#SBATCH --account=", "#PBS -A [code]"])
def test_a_placeholder_of_a_guide_is_named(line):
    assert spec_of(script(line)).resources.account is None
    assert set(left(script(line)).values()) == {"a placeholder: write the value under `resources.account`"}


def test_what_only_looks_like_a_here_document_hides_nothing():
    assert spec_of("source <<path to environment>>/bin/activate\npython t.py\n").command == ("python", "t.py")
    assert spec_of("echo '' ''>log\nsrun python '' t.py\n").command == ("python", "", "t.py")


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


@pytest.mark.parametrize(
    ("line", "text", "because"),
    [
        ("#SBATCH --", "--", "not an option of sbatch"),
        ("#SBATCH --a.b=1", "--a.b=1", "not an option of sbatch"),
        (f"#SBATCH --mem={'9' * 5000}", f"--mem={'9' * 5000}", "not an amount of memory"),
        (f"#SBATCH --time={'9' * 5000}:00", f"--time={'9' * 5000}:00", "not a time"),
        ("#PBS -l ncpus=²", "-l ncpus=²", "dlrun has no key for `ncpus=²`"),
        ("#PBS -l =5", "-l =5", "dlrun has no key for `=5`"),
        ("#PBS -l a.b=5", "-l a.b=5", "dlrun has no key for `a.b=5`"),
    ],
)
def test_what_is_no_option_is_listed_and_reaches_no_key(line, text, because):
    assert left(script(line))[2, text] == because
    assert spec_of(script(line)).resources.options == {}


def test_a_variable_without_a_proper_name_is_listed():
    found = read_script("#!/bin/bash\nmpiexec -n 2 -genv a.b 1 python t.py\n", "job.sh")
    assert "environment" not in found.values
    assert [one.text for one in found.left_out] == ["a.b=1"]


def test_an_empty_word_behind_the_command_is_one_of_its_words():
    """shlex gives it as an empty text, which has no first letter."""
    for line in (
        'srun python t.py 1 "" > log',
        "RANKS=2\nsrun -n $RANKS python t.py ''",
        'srun python t.py | ""',
    ):
        assert spec_of(f"#!/bin/bash\n{line}\n").command[:2] == ("python", "t.py")


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.lists(st.sampled_from([*_WORDS.split(), "", "é\x85", "\t"]), max_size=8).map(" ".join), max_size=8
    )
)
@example(["#PBS \\ #SBATCH"])
def test_any_text_is_read(lines):
    text = spec_text(read_script("\n".join(lines), "x.sh"), "x.sh")
    assert parse(text, Origin(layer=Layer.SPEC, name="x")).problems == ()


WRAPPED = "srun ./select_gpu apptainer exec my.sif bash -c '$INIT; python -u train.py --lr 1'"


def test_a_text_in_single_quotes_stays_one_word_that_the_first_shell_does_not_expand():
    assert spec_of(f"#SBATCH -N 2\n{WRAPPED}\n").run == WRAPPED.removeprefix("srun ")
    assert spec_of('srun python train.py --note="a $B c" --out $SCRATCH/x\n').run == (
        'python train.py "--note=a $B c" --out $SCRATCH/x'
    )


def test_what_accelerate_is_told_about_the_training_is_kept():
    text = (
        "#SBATCH -N 2 --gpus-per-node=4\nip=$(srun hostname -i)\n"
        "srun accelerate launch --num_machines 2 --machine_rank $SLURM_NODEID --main_process_ip $ip --use_fsdp "
        "--mixed_precision=bf16 train.py\n"
    )
    draft = read_script(text, "job.sh")
    assert draft.values["accelerate"] == {
        "agent": True,
        "agent_arguments": ["--use_fsdp", "--mixed_precision", "bf16"],
    }
    assert "setup" not in draft.values.get("environment", {}), "only what is left out reads the address"
    spec_of(text)
    assert "accelerate" not in read_script("accelerate launch train.py\n", "job.sh").values


@pytest.mark.parametrize(
    "redirection", ["&> train.log", "> log 2>&1", "| tee log", ">>log", "2> err", "|& tee log"]
)
def test_every_way_to_a_log_file_is_called_one(redirection):
    (why,) = left(f"srun python train.py {redirection}\n").values()
    assert "in its own log" in why


def test_the_line_of_a_loop_that_starts_the_training():
    assert read_script("#SBATCH -N 1\nfor i in 1 2; do\n  python train.py $i\ndone\n", "job.sh").loop == 2
    assert read_script("#SBATCH -N 1\nfor i in 1 2; do\n  ls\ndone\n", "job.sh").loop is None
