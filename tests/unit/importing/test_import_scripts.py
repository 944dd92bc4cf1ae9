"""Batch scripts of Slurm, PBS, Flux and Grid Engine -> training specs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from dlrun import backends
from dlrun.config import foreign_options
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.programs import with_command
from dlrun.config.secrets import refuse_secrets
from dlrun.importing import read_script
from dlrun.importing.text import spec_text
from dlrun.model.origin import Layer, Origin
from dlrun.model.spec import Spec
from tests.examples import examples

HERE = Path(__file__).parent / "scripts"

HETEROGENEOUS = (
    "a heterogeneous job: write `roles` where its parts need nodes of one kind, else a spec for each part"
)


def spec_of(text):
    """The spec that the printed text decodes to, which must be without problems."""
    document = parse(
        spec_text(read_script(text, "job.sh"), "job.sh"), Origin(layer=Layer.SPEC, name="spec.yaml")
    )
    root, notes = foreign_options.translated(document.root)
    root, both = with_command(root)
    assert notes == ()
    assert both == ()
    decoded = decode(root, Spec, options=backends.framework_options)
    assert [*document.problems, *decoded.problems] == []
    return decoded.value


def script(*lines):
    return "\n".join(["#!/bin/bash", *lines, "srun python train.py", ""])


def left(text):
    """What the job does not need, and what is to be checked."""
    draft = read_script(text, "job.sh")
    return {(entry.line, entry.text): entry.because for entry in [*draft.left_out, *draft.to_check]}


def checks(text):
    return [entry.because for entry in read_script(text, "job.sh").to_check]


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
        ("#SBATCH --tres-per-node=gres/gpu:a100:2", "gpus_per_node", "2"),
        ("#SBATCH --ntasks-per-node=4 --tres-per-task=gres/gpu:1", "gpus_per_node", "4"),
        ("#SBATCH --gres=gres:gpu:3", "gpus_per_node", "3"),
        ("#SBATCH --gres=gpu:1g.10gb:2", "gpu_type", "1g.10gb"),
        (
            "#SBATCH --gres=gpu:nvidia_a100_80gb_pcie_1g.10gb:1(S:0)",
            "gpu_type",
            "nvidia_a100_80gb_pcie_1g.10gb",
        ),
        ("#SBATCH -N2 -G h100:8", "gpu_type", "h100"),
        ("#SBATCH --cpus-per-task=4 --mem-per-cpu=2G", "memory_per_node", "8GiB"),
        ("#SBATCH --exclusive", "exclusive", "True"),
        ("#SBATCH -C 'a100&nvlink'", "constraint", "a100&nvlink"),
        ("#SBATCH --licenses=scratch:1", "options", "{'licenses': 'scratch:1'}"),
        ("#SBATCH -t 1:0:0", "walltime", "1h"),
        ("#SBATCH -n32 --ntasks-per-node=8", "nodes", "4"),
        ("#SBATCH -N2 -n1", "ranks", "auto"),
        ("#SBATCH --mail-type=begin\n#SBATCH --mail-type=end", "options", "{'mail-type': 'begin,end'}"),
        ("#PBS -l walltime=1:0:0", "walltime", "1h"),
        ("#SBATCH --gpus-per-node=a100:4", "gpu_type", "a100"),
        ("#SBATCH --gres=gpu:1g.10gb:2,nvme:1600", "gpu_type", "1g.10gb"),
        ("#PBS -l select=2:ncpus=48:mpiprocs=4:ngpus=4:mem=180gb", "gpus_per_node", "4"),
        ("#PBS -l select=2:mem=180gb", "memory_per_node", "180GiB"),
        ("#PBS -l ncpus=12,ngpus=1", "nodes", "1"),
        ("#PBS -l ncpus=12,ngpus=1", "cpus_per_rank", "12"),
        ("#PBS -l ncpus=12,ngpus=1", "gpus_per_node", "1"),
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
        ("accelerate launch --num_processes 8 train.py", "mpi", ("accelerate", "launch", "--num_processes", "8", "train.py")),
        ("deepspeed --num_gpus 4 --no_local_rank train.py --deepspeed ds.json", "deepspeed",
         ("python", "train.py", "--deepspeed", "ds.json")),
        ("horovodrun -np 8 python train.py", "horovod", ("python", "train.py")),
        ("mpirun -np 8 -x PATH --bind-to none ./solver in.dat", "mpi", ("./solver", "in.dat")),
        ("srun --mpi=pmix -n 8 ./solver", "mpi", ("./solver",)),
        ("ibrun ./solver", "mpi", ("./solver",)),
        ("flux run -N2 -n8 -g1 -o mpibind=off --label-io ./solver a", "mpi", ("./solver", "a")),
        ("flux mini run -x -N 2 -n 2 ./solver", "mpi", ("./solver",)),
        ("flux resource list\nflux run -n8 -g1 python train.py", "mpi", ("python", "train.py")),
        ("python train.py | tee log", "mpi", ("python", "train.py")),
        ("DEBUG=1 python train.py &> log", "mpi", ("python", "train.py")),
        ("srun bash -c 'python train.py --lr 1'", "mpi", ("bash", "-c", "python train.py --lr 1")),
        ('CMD="python train.py --lr 1"\nsrun bash -c "$CMD"', "mpi", ("bash", "-c", "python train.py --lr 1")),
        ("srun python train.py --deepspeed ds.json", "mpi", ("python", "train.py", "--deepspeed", "ds.json")),
        ("srun gssr-record python train_torch.py", "mpi", ("gssr-record", "python", "train_torch.py")),
    ],
)  # fmt: skip
def test_a_launch(launch, framework, command):
    spec = spec_of(f"#!/bin/bash\n{launch}\n")
    assert (spec.framework, spec.command) == (framework, command)


@pytest.mark.parametrize(
    ("directives", "launch", "expected"),
    [
        ("# flux: -N2 -x", "flux run -N2 -n8 -c24 -g1 python t.py", (2, 4, 24, 4)),
        ("# flux: -N2 -n2 -c96 -g4", "flux run -n8 -g1 python t.py", (2, 4, 24, 4)),
        ("#$ -pe mpi-16 64", "mpirun -np $NSLOTS ./solver", (4, 16, 1, "auto")),
        ("#$ -pe mpi-16 64", "mpirun ./solver", (4, 16, 1, "auto")),
        ("#$ -pe mpi-16 64", "mpirun -np 8 ./solver", (4, 8, 2, "auto")),
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
        ("#$ -N <name>", "a placeholder"),
        ("# flux: --env-remove=A", "`environment.variables`"),
        ("# flux: -q <queue>", "a placeholder"),
        ("# flux: -t 1y", "not a time"),
    ],
)
def test_what_is_left_out_of_flux_and_grid_engine(line, because):
    assert any(because in reason for reason in checks(script(line)))


def test_dependencies_of_flux_and_grid_engine():
    flux = spec_of(script("# flux: --dependency=afterok:f2Yx", "# flux: --dependency=afterany:17"))
    assert [(one.job, one.when) for one in flux.after] == [("f2Yx", "ok"), ("17", "any")]
    ge = spec_of(script("#$ -hold_jid 12,prep"))
    assert [(one.job, one.when) for one in ge.after] == [("12", "any"), ("prep", "any")]


def test_a_comment_is_no_directive_of_grid_engine():
    assert "hold" not in read_script(script("  #$ -h", "#$5 -h", "# $ -h"), "job.sh").values


def test_numbers_that_the_script_computes():
    spec = spec_of(
        "#PBS -l select=3\nNODES=$(wc -l < $PBS_NODEFILE)\nPER=4\nmpiexec -n $((NODES * PER)) --ppn $PER ./a\n"
    )
    assert (spec.resources.nodes, spec.resources.ranks_per_node, spec.resources.ranks) == (3, 4, "auto")
    uneven = spec_of("#SBATCH -N 2\nmpirun -np 7 -ppn 4 ./a\n")
    assert uneven.resources.ranks == 7


_WORDS = """srun mpirun -n 4 python train.py $A ${B} ' " \\ | && > # if fi export A=1 #SBATCH #PBS -l select=2 --mem 2G <<EOF EOF
( ) { } module load $(( )) -env torchrun apptainer exec ="""


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "redirection", ["&> train.log", "> log 2>&1", "| tee log", ">>log", "2> err", "|& tee log"]
)
def test_every_way_to_a_log_file_is_called_one(redirection):
    (why,) = left(f"srun python train.py {redirection}\n").values()
    assert "in its own log" in why


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("#SBATCH --", "not an option of sbatch"),
        ("#SBATCH --a.b=1", "not an option of sbatch"),
        (f"#SBATCH --mem={'9' * 5000}", "not an option of sbatch"),
        (f"#SBATCH --time={'9' * 5000}:00", "not an option of sbatch"),
        ("#PBS -l ncpus=²", "dlrun has no key for `ncpus=²`"),
        ("#PBS -l =5", "dlrun has no key for `=5`"),
        ("#PBS -l a.b=5", "dlrun has no key for `a.b=5`"),
        ("#SBATCH -A <project>", "a placeholder: write the value under `resources.account`"),
        ("#SBATCH --account=", "a placeholder: write the value under `resources.account`"),
        ("#PBS -A [code]", "a placeholder: write the value under `resources.account`"),
        ("#SBATCH -N 1-4", "the number is chosen when the job starts: set it in `resources`"),
        (
            "#SBATCH hetjob",
            "a heterogeneous job: write `roles` where its parts need nodes of one kind, else a spec for each part",
        ),
        ("#BSUB -n 4", "a directive of LSF, for which dlrun has no back end"),
    ],
)
def test_a_directive_that_the_user_has_to_check(line, because):
    assert because in checks(script(line))
    assert spec_of(script(line)).resources.options == {}


@pytest.mark.parametrize(
    ("directives", "launch", "framework", "per_node", "cpus"),
    [
        ("--gpus-per-node=8 --ntasks-per-node=1 -c 56", "torchrun --nnodes 2 --nproc_per_node=8 t.py", "torch", 8, 7),
        ("--gpus-per-node=8 -c 56", "torchrun --nnodes $SLURM_NNODES --nproc_per_node=gpu t.py", "torch", 8, 7),
        # A number that the script does not show, and an agent that would train on each node alone: kept as they are.
        ("--gpus-per-node=8 -c 56", "torchrun --nnodes 2 --nproc_per_node=$GPUS t.py", "mpi", 1, 56),
        ("--gpus-per-node=8 -c 56", "torchrun --nproc_per_node=8 t.py", "mpi", 1, 56),
        ("--gpus-per-node=4 -c 288", "accelerate launch --config_file c.yaml t.py", "mpi", 1, 288),
        ("--gpus-per-node=4", "python -m torch.distributed.launch --nnodes 2 --nproc_per_node 4 t.py", "mpi", 1, "auto"),
        ("--gpus-per-node=4", "python -m torch.distributed.launch --use_env --nnodes 2 --nproc_per_node 2 t.py", "torch", 2,
         "auto"),
    ],
)  # fmt: skip
def test_an_agent_is_replaced_only_if_dlrun_starts_the_same_ranks(
    directives, launch, framework, per_node, cpus
):
    spec = spec_of(f"#SBATCH -N 2 {directives}\nsrun {launch}\n")
    assert (spec.framework, spec.resources.ranks_per_node, spec.resources.cpus_per_rank) == (
        framework,
        per_node,
        cpus,
    )


def test_options_that_are_cut_short_are_those_of_sbatch():
    text = "#SBATCH -N 1 --part=gpu --err=a.err --out=a.out\nsrun python t.py\n"
    assert checks(text) == []
    assert spec_of(text).resources.partition == "gpu"


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("--nodel=n1", "--nodelist=n1"),
        ("--acco=a", "--account=a"),
        ("--ntasks-per-n 4", "--ntasks-per-node=4"),
        ("--cpus-per-t=4", "--cpus-per-task=4"),
        ("--exclusi --rese=r1", "--exclusive --reservation=r1"),
        ("--req -t 10", "--requeue -t 10"),
        ("--mail-t=END", "--mail-type=END"),
        ("--array=1-2 --dep=singleton", "--array=1-2 --dependency=singleton"),
    ],
)
def test_a_beginning_of_one_option_alone_is_that_option(written, whole):
    drafts = [read_script(script(f"#SBATCH -N 1 {options}"), "job.sh") for options in (written, whole)]
    assert drafts[0].values == drafts[1].values
    assert drafts[0].to_check == drafts[1].to_check


@pytest.mark.parametrize("written", ["--acc=a", "--cpus=4", "--mail=END", "--gpus-per=2", "--n=3"])
def test_a_beginning_of_several_options_is_rejected_by_sbatch(written):
    assert any("sbatch rejects it" in because for because in checks(script(f"#SBATCH -N 1 {written}")))


def test_a_variable_that_is_unset_is_not_read():
    assert checks("#SBATCH -N 1\nunset SLURM_EXPORT_ENV\nbash prepare.sh\nsrun python t.py\n") == []


def test_agents_in_each_of_several_tasks_are_marked():
    assert any(
        "agents on each node" in because for because in checks("#SBATCH -N 1 -n 4\nsrun torchrun t.py\n")
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("srun python a.py\nsrun python b.py\n", "one of 2 launches after one another"),
        ("run() {\nsrun python a.py $1\n}\nrun x\n", "a function starts the ranks"),
        (
            "if [ $A = 1 ]; then srun python a.py; else srun python b.py; fi\n",
            "which launch runs is decided when",
        ),
        ("A=$(srun -n1 hostname)\npython a.py\npython b.py $A\n", "a step of the scheduler"),
        (
            "#SBATCH -N 2\ntorchrun --nnodes 2 --nproc_per_node 4 t.py\n",
            "torchrun on the first of 2 nodes alone",
        ),
        ("#SBATCH -N 2\ntorchrun-all.sh t.py\n", "if it starts ranks on the others itself"),
        (
            "#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\nsrun python a.py\n",
            "write `roles` where its parts need",
        ),
        ("srun python a.py\ncp model.pt ~/\n", "dlrun runs nothing after the training"),
        ("#SBATCH -N 2\npython a.py\n", "the script starts it on the first of 2 nodes alone"),
        ("#SBATCH -n 8\nsrun python a.py\n", "the number of nodes is not in the script"),
        ("trap 'cp -r $TMPDIR/out .' EXIT\nsrun python a.py\n", "dlrun copies results itself: `results: .`"),
        ("trap 'rm -r $TMPDIR/out' EXIT\nsrun python a.py\n", "dlrun's job has its own traps"),
        ('srun python a.py "$@"\n', "arguments of the script"),
        ("srun python a.py --id $SLURM_ARRAY_TASK_ID\n", "the script has no array"),
        ("srun $OPTIONS python a.py\n", "whether this is the program or options"),
        ("srun --multi-prog a.conf\n", "the programs of its file are not in the script"),
        ("srun -N1 a : -N1 b\n", "programs of one launch are one MPI world"),
        ("srun python a.py < input\n", "a launcher in the script's own shell"),
        ("export HF_TOKEN=hf_abcdefgh\nsrun python a.py\n", "its value is not copied into the spec"),
        ("#!/usr/bin/env python\nprint(1)\n", "not a script of bash or sh"),
        ("", "the script runs nothing"),
    ],
)
def test_what_the_user_has_to_check(text, why):
    assert any(why in because for because in checks(text)), checks(text)


def test_a_secret_is_nowhere_in_the_spec():
    text = spec_text(read_script("export HF_TOKEN=hf_abcdefgh\nsrun python a.py\n", "job.sh"), "job.sh")
    assert "hf_abcdefgh" not in text


TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.mark.parametrize(
    ("lines", "launch", "run", "names"),
    [
        (f"export HF_TOKEN={TOKEN}", "srun python t.py --token $HF_TOKEN", "python t.py --token $HF_TOKEN", ["HF_TOKEN"]),
        (f"T={TOKEN}", 'srun python t.py "$T" https://me:$T@h', 'python t.py "$T" https://me:$T@h', ["T"]),
        (f"A=--token={TOKEN}", "srun python t.py $A", "python t.py $A", ["A"]),
        (f"DB=postgres://me:{TOKEN}@h/x", "srun python t.py $DB", "python t.py $DB", ["DB"]),
        (f"MY_KEY={TOKEN}\nURL=https://h/$MY_KEY", "srun python t.py $URL", "python t.py https://h/$MY_KEY", ["MY_KEY"]),
        ("", f"API_TOKEN={TOKEN} srun python t.py", "", ["API_TOKEN"]),
        ("", f"srun --export=ALL,API_TOKEN={TOKEN} python t.py", "", ["API_TOKEN"]),
        ("", f"mpirun -x API_TOKEN={TOKEN} python t.py", "", ["API_TOKEN"]),
    ],
)  # fmt: skip
def test_words_read_a_secret_by_its_name(lines, launch, run, names):
    """Its name goes to `secrets:`; a command with its value would be refused."""
    draft = read_script(f"{BEGIN}{lines}\n{launch}\n", "job.sh")
    assert draft.values["secrets"] == {name: {"env": name} for name in names}
    assert all(f"export {name}=…" in [one.text for one in draft.to_check] for name in names)
    assert draft.values.get("run", "").split()[-len(run.split()) :] == run.split() or run == ""
    text = spec_text(draft, "job.sh")
    refuse_secrets(text, "job.sh")
    assert TOKEN not in text


@pytest.mark.parametrize(
    ("lines", "launch", "run"),
    [
        ("LR=0.1", "srun python t.py --lr $LR", None),
        ("", "srun python t.py --out $SCRATCH/x_$SLURM_JOB_ID", "python t.py --out $SCRATCH/x_$SLURM_JOB_ID"),
        ("OUT=$SCRATCH/x", "srun python t.py --out ${OUT}_1", "python t.py --out $SCRATCH/x_1"),
        ("export OUT=$(date +%F)", "srun python t.py --out $OUT", "python t.py --out $OUT"),
    ],
)
def test_words_that_ranks_expand_themselves(lines, launch, run):
    assert spec_of(f"#!/bin/bash\n{lines}\n{launch}\n").run == run if run else True
    assert checks(f"#!/bin/bash\n{lines}\n{launch}\n") == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("N=2; if true; then N=3; fi", "python t.py --n $N"),
        ("S=$(date +%s)", "python t.py --seed $S"),
        ("", "python t.py data/*.tar"),
        ("", "python t.py --host $(hostname)"),
        ("", "python t.py --rank $SLURM_PROCID"),
        ('A=(--x "$(cat a)")', 'python t.py "${A[@]}"'),
        ("A=($(cat a))", "python t.py ${A[0]} ${#A[@]}"),
        ("A=(a $LIST b)", "python t.py ${A[2]}"),
        ("A=(data/*.tar)", "python t.py $A"),
        ("if true; then M=a; fi; M=${M}_b", "python t.py $M"),
        ("eval \"O='--a 1'\"", "python t.py $O"),
        ("source env.sh", "python t.py --lr $LR"),
    ],
)
def test_words_that_only_the_scripts_shell_can_expand_are_passed_on(lines, words):
    spec = spec_of(f"#!/bin/bash\n{lines}\nsrun {words}\n")
    assert spec.environment.setup[-2].startswith("printf -v training_command '%q ' python t.py")
    assert spec.run == 'export -n training_command\neval "exec $training_command"\n'


@pytest.mark.parametrize("line", ["exec > >(tee run.out) 2>&1", "exec >out.log 2>&1", "exec &>> out.log"])
def test_what_the_scripts_shell_prints_to_a_file_is_in_the_logs(line):
    text = f"#!/bin/bash\n{line}\necho begins\npython t.py\n"
    assert "each rank's output is in its own log" in str(left(text))
    assert spec_of(text).environment.setup == ()


def test_a_file_that_the_script_opens_to_read_stays():
    assert (
        "exec < list.txt"
        in spec_of("#!/bin/bash\nexec < list.txt\nread A\npython t.py $A\n").environment.setup
    )


def test_lines_before_the_training():
    spec = spec_of(
        "module purge\nmodule load cuda\nsource ~/e/bin/activate\nexport A=1\nmkdir -p out\nset -e\n"
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n"
        "echo start\necho x > a.txt\nsrun python t.py\n"
    )
    assert (spec.environment.hygiene, spec.environment.modules, spec.environment.venv) == (
        "purge",
        ("cuda",),
        "~/e",
    )
    assert spec.environment.setup == (
        "set +e +o pipefail", "export A=1", "mkdir -p out", "set -e", "echo x > a.txt",
    )  # fmt: skip
    assert spec.command == ("python", "t.py")


def test_several_exports_on_one_line_are_as_on_several():
    environment = spec_of(
        "export OMP_NUM_THREADS=1 B='two words' C=\nexport D=$B E=5\nsrun python t.py\n"
    ).environment
    assert dict(environment.variables) == {"OMP_NUM_THREADS": "1", "C": ""}
    assert environment.setup == ("export B='two words'", "export D=$B E=5")


def test_order_that_the_keys_cannot_keep_stays_in_lines_of_set_up():
    environment = spec_of(
        script("module use /apps", "module load cuda", "source env/bin/activate", "export B=$PATH/x")
    ).environment
    assert environment.modules == ()
    assert environment.setup[1:] == (
        "module use /apps",
        "module load cuda",
        "source env/bin/activate",
        "export B=$PATH/x",
    )


def test_a_script_that_starts_its_programs_itself_is_run_as_it_is():
    spec = spec_of(
        "#!/bin/bash\n#SBATCH -N 1 --gres=gpu:2\nfor f in *.txt; do\n  python a.py $f || echo $f\ndone\ncp out ~/\n"
    )
    assert spec.run == "set +euo pipefail\nfor f in *.txt; do\n  python a.py $f || echo $f\ndone\ncp out ~/\n"
    assert (spec.resources.ranks_per_node, spec.resources.gpus_per_node, spec.framework) == (1, 2, "mpi")


def test_loops_and_arrays_are_sweeps():
    loop = spec_of(
        "for lr in 0.1 0.2; do\n  for s in {1..2}; do srun python t.py --lr=$lr -s $s; done\ndone\n"
    )
    assert dict(loop.sweep.grid) == {"lr": ("0.1", "0.2"), "s": ("1", "2")}
    assert loop.command == ("python", "t.py", "--lr={{ lr }}", "-s", "{{ s }}")
    array = spec_of(
        "#SBATCH --array=0-2%2\nLR=(1 2 3)\nsrun python t.py --lr ${LR[$SLURM_ARRAY_TASK_ID]} --id $SLURM_ARRAY_TASK_ID\n"
    )
    assert dict(array.sweep.zip) == {"lr": ("1", "2", "3"), "task": ("0", "1", "2")}
    assert array.sweep.at_once == 2


@pytest.mark.parametrize(
    ("body", "launched"),
    [
        ("python t.py --lr $lr &", False),
        ("CUDA_VISIBLE_DEVICES=$lr python t.py &", False),
        ("srun -n1 python t.py --lr $lr &", True),
        ("(cd run_$lr; python t.py --lr $lr)", False),
        ("mkdir -p run_$lr && srun -n2 python t.py --lr $lr", True),
        ("for s in 1 2; do srun python t.py --lr $lr -s $s & done; wait", True),
    ],
)
def test_a_loop_is_no_sweep_if_its_programs_run_beside_one_another_or_lines_of_set_up_have_its_value(
    body, launched
):
    """A sweep is several jobs, and their set-up knows no parameter."""
    text = f"#!/bin/bash\n#SBATCH -N 1 -t 10\nfor lr in 1 2; do\n  {body}\ndone\nwait\n"
    draft = read_script(text, "job.sh")
    assert "sweep" not in draft.values
    assert body in draft.get("run")
    assert bool(draft.to_check) == launched


CONFIGURED = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 -t 10\ncat > p.conf <<EOF\n{}EOF\n{}srun --multi-prog p.conf\n"


def test_several_programs_of_one_launch_are_chosen_by_the_rank():
    """The ranks of one launch are one MPI world: as roles they would be several."""
    mpi = read_script(
        "#SBATCH -N 2 --ntasks-per-node=2 -t 10\nmpirun -np 1 python a.py : -np 3 python b.py 'x y'\n",
        "job.sh",
    )
    assert mpi.to_check == []
    assert mpi.get("command") == [
        "bash", "-c", "case \"$DLRUN_RANK\" in\n  0) exec python a.py ;;\n  *) exec python b.py 'x y' ;;\nesac"]  # fmt: skip
    file = read_script(CONFIGURED.format("0 python a.py\n1-2 python b.py %t/%o\n3 ./c\n", ""), "job.sh")
    assert file.to_check == []
    assert file.get("command")[2].splitlines()[2:4] == [
        '  1|2) exec python b.py "$DLRUN_RANK"/"$((DLRUN_RANK - 1))" ;;', "  *) exec ./c ;;"]  # fmt: skip
    assert (file.get("resources.nodes"), file.get("resources.ranks_per_node")) == (2, 2)


@pytest.mark.parametrize(
    "text",
    [
        CONFIGURED.format("0 python a.py $USER\n* python b.py\n", ""),
        CONFIGURED.format("0 python 'a b.py'\n* python b.py\n", ""),
        CONFIGURED.format("0,2 python a.py %o\n* python b.py\n", ""),
        CONFIGURED.format("0 python a.py\n0-3 python b.py\n", ""),
        CONFIGURED.format("0 python a.py\n* python b.py\n", "echo '4 python c.py' >> p.conf\n"),
        "#SBATCH -N 2 -n 4 -t 10\nsrun -n 4 --multi-prog p.conf\n",
        "#SBATCH -N 2 -n 4 -t 10\nmpirun -np $A python a.py : -np 3 python b.py\n",
        "#SBATCH -N 2 -n 4 -t 10\nmpirun -np 1 -x A=1 python a.py : -np 3 python b.py\n",
        "#SBATCH -N 2 -n 4 -t 10\nmpirun -np 1 python a.py : -np 3 -ppn 2 python b.py\n",
        "#SBATCH -N 2 -n 4 -t 10\nsrun -n 1 python a.py : -n 3 python b.py\n",
    ],
)
def test_programs_whose_ranks_or_words_are_not_known_are_to_be_checked(text):
    assert [why for why in checks(text) if "program" in why]


def test_numbers_of_another_part_of_a_heterogeneous_job_are_not_those_of_the_first():
    text = "#SBATCH -N 1 -n 1 -t 10\n#SBATCH hetjob\n#SBATCH -N 4 --gpus-per-node=4 -p gpu\nsrun --het-group=0 python a.py &\n"
    draft = read_script(text, "job.sh")
    assert draft.get("resources") == {"nodes": 1, "ranks_per_node": 1, "walltime": "10m"}
    assert any("a heterogeneous job" in entry.because for entry in draft.to_check)


def test_programs_that_the_scheduler_starts_on_the_nodes_have_not_the_script_s_environment():
    for nodes in (1, 2):
        text = f"#PBS -l select={nodes}:ncpus=4\n#PBS -l walltime=10\npbsdsh -- bash -c 'python t.py'\n"
        assert any("without modules and variables of the script" in why for why in checks(text))


@pytest.mark.parametrize(
    ("directives", "step", "restored"),
    [
        (
            "-N 2",
            "srun hostname > h",
            ["export SLURM_NTASKS=2 SLURM_NPROCS=2", "unset SLURM_NTASKS_PER_NODE"],
        ),
        (
            "-N 2 --ntasks-per-node=1",
            "srun -N1 hostname > h",
            ["export SLURM_NTASKS=2 SLURM_NPROCS=2", "export SLURM_NTASKS_PER_NODE=1"],
        ),
        ("-N 2 --ntasks-per-node=4", "srun hostname > h", []),
        (
            "-N 2",
            "srun uname -n > h",
            ["export SLURM_NTASKS=2 SLURM_NPROCS=2", "unset SLURM_NTASKS_PER_NODE"],
        ),
        (
            "-N 2",
            "export H=$(srun uname -n | head -n 9)X",
            ["export SLURM_NTASKS=2 SLURM_NPROCS=2", "unset SLURM_NTASKS_PER_NODE"],
        ),
        ("-N 2", "srun -n 2 hostname > h", []),
    ],
)
def test_a_step_of_set_up_has_as_many_tasks_as_the_job_of_the_script(directives, step, restored):
    """And not as many as dlrun's job has, which requests its ranks as tasks."""
    draft = read_script(
        f"#SBATCH {directives} -t 10\n{step}\nsrun -n 8 --ntasks-per-node=4 python t.py\n", "job.sh"
    )
    assert draft.to_check == []
    setup = draft.get("environment.setup")
    assert setup[: len(restored)] == restored
    assert step in setup
    assert sum("SLURM_NTASKS" in line for line in setup) == len(restored)


def test_a_step_of_set_up_with_more_tasks_than_dlrun_requests_is_to_be_checked():
    text = "#SBATCH -N 2 -n 16 -t 10\nsrun hostname > h\nsrun -n 2 python t.py\n"
    assert [why for why in checks(text) if "as many tasks as the job" in why]


def test_parameters_are_in_the_order_of_the_script():
    """And not in that of a set, which differs from one call to the next."""
    names = ["zeta", "lr", "wd", "beta", "alpha", "drop"]
    lines = [f"{name}=$((SLURM_ARRAY_TASK_ID * {factor}))" for factor, name in enumerate(names, start=2)]
    words = " ".join(f"--{name} ${name}" for name in reversed(names))
    spec = spec_of("\n".join(["#SBATCH --array=0-1", *lines, f"srun python t.py {words}", ""]))
    assert [name for name in spec.sweep.zip if name in names] == names


def test_arguments_of_the_script():
    text = 'LR=${1:-0.1}\nsrun python t.py "$@"\n'
    draft = read_script(text, "job.sh", arguments=["a b", "c"])
    assert draft.to_check == []
    assert draft.get("command") == ["python", "t.py", "a b", "c"]


def test_containers():
    spec = spec_of(
        "srun --container-image=a.sqsh --container-mounts=/a:/b --container-workdir=/w --no-container-mount-home python t.py\n"
    )
    container = spec.environment.container
    assert (container.image, container.runtime, container.binds, container.workdir) == (
        "a.sqsh",
        "enroot",
        ("/a:/b",),
        "/w",
    )
    assert container.arguments == ("--no-container-mount-home",)
    inside = spec_of("srun apptainer exec --nv --env A=1 -B /data x.sif python t.py\n")
    assert inside.command == (
        "apptainer",
        "exec",
        "--nv",
        "--env",
        "A=1",
        "-B",
        "/data",
        "x.sif",
        "python",
        "t.py",
    )


def test_values_that_the_launch_line_sets():
    spec = spec_of("srun --export=ALL,X=Y,Z=1 python t.py\n")
    assert dict(spec.environment.variables) == {"X": "Y", "Z": "1"}
    assert spec_of("#SBATCH -N 1 -n 2\nmpirun -np 2 -x A=1 -x PATH python t.py\n").environment.variables == {
        "A": "1"
    }


def test_options_of_the_shell_are_kept_beside_the_one_that_only_prints():
    assert spec_of("set -x -e\ncd x\nsrun python t.py\n").environment.setup == (
        "set +e +o pipefail",
        "set -x -e",
        "cd x",
    )


BEGIN = "#!/bin/bash\n#SBATCH -N 1 -n 1 -t 1:00:00\n"


@pytest.mark.parametrize(
    "lines",
    [
        "srun python t.py\ncp -r $TMPDIR/out $SCRATCH/o",
        "trap 'cp -r $TMPDIR/out $SCRATCH/o' EXIT\nsrun python t.py",
    ],
)
def test_a_copy_of_results_names_the_key_for_it(lines):
    (because,) = checks(BEGIN + lines)
    assert "`results: $SCRATCH/o`" in because
    assert "for $TMPDIR/out" in because


def test_names_in_unquoted_paths_are_all_read():
    draft = read_script(
        BEGIN + "O=$WORK/$USER/a-$SLURM_JOB_ID-$A/b\nsrun python t.py $O/$A/c $1", "job.sh", 1, ["x"]
    )
    assert "$USER/a-$SLURM_JOB_ID-$A/b/$A/c" in draft.values["run"].replace("{", "").replace("}", "").replace(
        '"', ""
    )


@pytest.mark.parametrize(
    "line",
    [
        "export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
        "wandb login 0123456789abcdef0123456789abcdef01234567 || WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
        "huggingface-cli login --token hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    ],
)
@pytest.mark.parametrize("launch", ["srun python t.py", "for i in *; do python t.py $i; done"])
def test_secrets_do_not_reach_the_spec(line, launch):
    draft = read_script(f"{BEGIN}{line}\n{launch}\n", "job.sh")
    assert draft.to_check
    text = spec_text(draft, "job.sh")
    assert "hf_abcdef" not in text
    assert "API_KEY=0123" not in text


@pytest.mark.parametrize(
    ("lines", "run"),
    [
        (
            "A=1\nmodule load x\nB=(2)\nfor b in ${B[@]}; do python t.py $A $b; python e.py; done",
            ["A=1", "module load x", "B=(2)"],
        ),
        ("for a in *; do python t.py $a ${1:-base}; done", ["set --"]),
    ],
)
def test_a_script_run_as_it_is_keeps_its_lines(lines, run):
    text = read_script(BEGIN + lines, "job.sh").values["run"].splitlines()
    assert [line for line in text if line in run] == run


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/usr/bin/time -v srun python t.py", ["python", "t.py"]),
        ("srun --cpu_bind=v python t.py", ["python", "t.py"]),
        ("perun monitor train.py", ["perun", "monitor", "train.py"]),
        ("let N=2*3\nsrun python t.py $N", ["python", "t.py", "6"]),
    ],
)
def test_commands_that_public_scripts_have(line, command):
    draft = read_script(BEGIN + line, "job.sh")
    assert draft.values["command"] == command
    assert not draft.to_check


def test_a_program_that_starts_a_launcher_is_to_be_checked():
    assert any("starts a launcher" in because for because in checks(BEGIN + "nsys profile srun python t.py"))


def test_gpus_for_each_task_without_a_number_of_tasks():
    assert read_script("#!/bin/bash\n#SBATCH --gpus-per-task=1\nsrun python t.py", "job.sh").values["command"]


@pytest.mark.parametrize("kind", ["a100:4", "1g.10gb:2"])
def test_types_and_slices_of_gpus(kind):
    draft = read_script(f"#!/bin/bash\n#SBATCH -N 1 -n 1 --gres=gpu:{kind}\nsrun python t.py", "job.sh")
    assert draft.get("resources.gpus_per_node") == kind


def test_an_export_that_the_words_of_the_command_read_stays_before_them():
    draft = read_script(BEGIN + "source env.sh\nexport TEAM=a\npython t.py $UNKNOWN/$TEAM *.x", "job.sh")
    setup = draft.get("environment.setup")
    assert setup.index("export TEAM=a") < next(i for i, line in enumerate(setup) if "$TEAM" in line)
    assert not draft.get("environment.variables")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("#SBATCH -p your-partition-name\npython t.py", "`resources.partition`"),
        ("#SBATCH -A YOUR_ACCOUNT\npython t.py", "`resources.account`"),
        ("python t.py --data /path/to/data", "`command`"),
    ],
)
def test_what_stands_for_something_to_be_filled_in_is_to_be_checked(line, key):
    assert any(key in because for because in checks(BEGIN + line))


COPIES = """#SBATCH -N 1 -t 2:00:00
mkdir -p $TMPDIR/data $TMPDIR/out
cp -r ~/imagenet $TMPDIR/data/
export WHERE=$TMPDIR/data/imagenet
srun python t.py --data=$TMPDIR/data/imagenet/train --out $TMPDIR/out
mkdir -p ~/runs
cp -r $TMPDIR/out/* ~/runs
"""


def test_copies_to_the_node_and_back_are_data_and_results():
    draft = read_script(COPIES, "job.sh", node_local=True)
    assert draft.to_check == []
    assert draft.values["data"] == {"imagenet": {"source": "~/imagenet", "strategy": "copy"}}
    assert draft.values["results"] == "~/runs"
    assert draft.values["command"] == [
        "env", "WHERE={{ data.imagenet }}", "python", "t.py", "--data={{ data.imagenet }}/train", "--out", "{{ results }}"
    ]  # fmt: skip
    assert draft.get("environment.setup") is None
    text = spec_text(draft, "job.sh")
    assert "# in place of line 3: cp -r ~/imagenet $TMPDIR/data/\n  imagenet:" in text
    assert "# in place of line 7: cp -r $TMPDIR/out/* ~/runs\nresults: ~/runs" in text


def test_without_a_site_results_are_to_be_checked():
    (entry,) = read_script(COPIES, "job.sh").to_check
    assert "--site NAME" in entry.because
    data_alone = COPIES.partition("mkdir -p ~/runs")[0].replace(" $TMPDIR/out\n", "\n").replace("--out", "")
    draft = read_script(data_alone, "job.sh")
    assert draft.to_check == []
    assert "cp -r ~/imagenet $TMPDIR/data/" in draft.get("environment.setup")
    assert any("--site NAME" in entry.because for entry in draft.left_out)


@pytest.mark.parametrize(
    "change",
    [
        ("srun python", "ls -R $TMPDIR/data > list.txt\nsrun python"),  # another line reads the directory
        ("srun python", "cd $TMPDIR\nsrun python"),
        ("-N 1", "-N 2"),  # the script copies on the first node alone
        ("--out $TMPDIR/out", "--out $TMPDIR/out --tmp $TMPDIR"),
        ("--out", "--here $PWD --out"),  # only the script's own shell expands it
        ("~/imagenet", "$SCRATCH/imagenet"),  # not a path that a spec knows before the job runs
        ("cp -r ~/imagenet", "cp -u ~/imagenet"),
        ("cp -r ~/imagenet", "cd ~/x; cp -r imagenet"),  # a path relative to another directory
        ("cp -r $TMPDIR/out/* ~/runs", "cp -r $TMPDIR/out/* $SCRATCH/$SLURM_JOB_ID"),
    ],
)
def test_if_one_copy_cannot_be_converted_all_are_kept(change):
    draft = read_script(COPIES.replace(*change), "job.sh", node_local=True)
    assert "data" not in draft.values
    assert "results" not in draft.values
    kept = "\n".join(draft.get("environment.setup"))
    assert "imagenet $TMPDIR/data/" in kept
    assert draft.to_check


UNPACKS = (
    "#SBATCH -N 1 -t 2:00:00\nmkdir -p $TMPDIR/d\nD=/sets\n{}\nsrun python t.py --data=$TMPDIR/d/train\n"
)


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("tar xf $D/x.tar -C $TMPDIR/d", "/sets/x.tar"),
        ("tar -xzvf $D/x.tar.gz --directory=$TMPDIR/d", "/sets/x.tar.gz"),
        ("tar --extract --file=$D/x.tar --directory $TMPDIR/d", "/sets/x.tar"),
        ("tar -C $TMPDIR/d -x -J -f ~/x.tar.xz", "~/x.tar.xz"),
        ("tar -I pigz -xf x.tgz -C $TMPDIR/d", "x.tgz"),
        ("tar --use-compress-program=zstd -xf x.tar.zst -C $TMPDIR/d/", "x.tar.zst"),
        ("unzip -qo $D/x.zip -d $TMPDIR/d", "/sets/x.zip"),
    ],
)
def test_an_archive_that_is_unpacked_on_the_node_is_data(line, source):
    draft = read_script(UNPACKS.format(line), "job.sh", node_local=True)
    assert draft.values["data"] == {"x": {"source": source, "unpack": True}}
    assert draft.values["command"] == ["python", "t.py", "--data={{ data.x }}/train"]
    assert (draft.to_check, draft.get("environment.setup")) == ([], None)


@pytest.mark.parametrize(
    "line",
    [
        "tar xf $D/x.tar -C $TMPDIR/d train",  # a part of it
        "tar xf $D/x.tar -C $TMPDIR/d --strip-components=1",
        "tar xf $D/x.tar -C $TMPDIR/d --wildcards '*.jpg'",
        "tar xf $D/*.tar -C $TMPDIR/d",
        "tar xf - -C $TMPDIR/d <x.tar",
        "tar xf node1:/sets/x.tar -C $TMPDIR/d",  # on another machine
        "tar --extract --file=~/x.tar -C $TMPDIR/d",  # bash leaves this `~` as it is
        "tar xfC $D/x.tar $TMPDIR/d",
        "tar tf $D/x.tar -C $TMPDIR/d",
        "tar -xzf $D/x.tar -C $TMPDIR/d/new",  # there is no such directory
        "tar -xf $D/x.tar -C $TMPDIR/d -C b",
        "tar -I 'zstd -T0' -xf $D/x.tar.zst -C $TMPDIR/d",
        "tar xf $SCRATCH/x.tar -C $TMPDIR/d",
        "tar xf $D/x.tar -C $TMPDIR/d &",
        "unzip $D/x.zip 'train/*' -d $TMPDIR/d",
        "unzip $D/x -d $TMPDIR/d",
        "unzip '/sets/*.zip' -d $TMPDIR/d",
        "unzip -j $D/x.zip -d $TMPDIR/d",
    ],
)
def test_an_archive_of_which_a_word_is_not_understood_is_unpacked_by_the_script(line):
    draft = read_script(UNPACKS.format(line), "job.sh", node_local=True)
    assert "data" not in draft.values
    kept = "\n".join([*(draft.get("environment.setup") or ()), draft.get("run") or ""])
    assert line in kept


EACH = "srun -n 2 --ntasks-per-node=1"


def test_an_archive_that_each_node_unpacks_is_data():
    """And one that only the first of two nodes does is not: the others had no data."""
    line = "tar xf $D/x.tar -C $TMPDIR/d"
    text = UNPACKS.replace("-N 1", "-N 2 --ntasks-per-node=1").replace("mkdir", f"{EACH} mkdir")
    draft = read_script(text.format(f"{EACH} {line}"), "job.sh", node_local=True)
    assert draft.values["data"] == {"x": {"source": "/sets/x.tar", "unpack": True}}
    assert "data" not in read_script(text.format(line), "job.sh", node_local=True).values


def test_results_are_not_taken_from_an_archive_that_is_unpacked_at_the_end():
    text = "#SBATCH -N 1\nsrun python t.py $TMPDIR/out\ntar xf $TMPDIR/out -C ~/runs\n"
    assert "results" not in read_script(text, "job.sh", node_local=True).values


@pytest.mark.parametrize(
    ("copied", "to", "sure"),
    [
        ("cp -r $TMPDIR/out ~/runs", "~/runs", False),
        ("cp -r $TMPDIR/out ~/runs/", "~/runs/out", False),
        ("mkdir -p ~/runs; cp -r $TMPDIR/out ~/runs", "~/runs/out", True),
        ("rsync -a $TMPDIR/out ~/runs", "~/runs/out", True),
        ("rsync -a $TMPDIR/out/ ~/runs", "~/runs", True),
        ("cp -r $TMPDIR/out $SLURM_SUBMIT_DIR", "out", True),
        ("cp -r $TMPDIR/out/. results/", "results", True),
    ],
)
def test_where_results_go(copied, to, sure):
    text = f"#SBATCH -N 1\nsrun python t.py $TMPDIR/out\n{copied}\n"
    draft = read_script(text, "job.sh", node_local=True)
    assert draft.values["results"] == to
    assert (draft.to_check == []) is sure


def test_each_key_names_the_line_that_it_comes_from():
    lines = (
        "#SBATCH -p gpu -N 2",
        "#SBATCH -c 4",
        "module load a",
        "module load b",
        "export X=1",
        "srun python t.py",
    )
    text = spec_text(read_script("\n".join(lines), "job.sh"), "job.sh")
    for line in (
        "  partition: gpu  # line 1",
        "  nodes: 2  # line 1",
        "  cpus_per_rank: 4  # line 2",
        "  ranks_per_node: 1  # line 6",
        "  modules: [a, b]  # lines 3, 4",
        "    X: 1  # line 5",
        "command: [python, t.py]  # line 6",
    ):
        assert f"\n{line}\n" in text


def test_words_that_differ_from_task_to_task_are_parameters():
    words = "${D[$((ID-1))]} --seed=$((ID * 10)) $((ID+5))".replace("ID", "SLURM_ARRAY_TASK_ID")
    spec = spec_of(f"#SBATCH --array=1-3\nD=(x y z)\nsrun python t.py {words}\n")
    assert spec.command == ("python", "t.py", "{{ word_2 }}", "--seed={{ seed }}", "{{ word_4 }}")
    assert dict(spec.sweep.zip) == {
        "word_2": ("x", "y", "z"), "seed": ("10", "20", "30"), "word_4": ("6", "7", "8")
    }  # fmt: skip


def test_parameters_are_not_mixed_with_words_of_the_script_s_shell():
    text = "#SBATCH --array=0-1\nM=a\nif true; then M=b; fi\nsrun python t.py $M --i $((SLURM_ARRAY_TASK_ID*1))\n"
    draft = read_script(text, "job.sh")
    assert draft.values["sweep"] == {"task": [0, 1]}
    assert "{{" not in " ".join(draft.get("environment.setup"))


def test_a_redirected_pipeline_is_kept():
    kept = read_script("ls /usr | sort > names.txt\nsrun python t.py\n", "job.sh").get("environment.setup")
    assert "ls /usr | sort > names.txt" in kept


def test_ifs_and_noglob_are_those_of_the_script():
    draft = read_script('IFS=,\nL="a,b"\nsrun python t.py $L\n', "job.sh")
    assert "$L" in draft.get("environment.setup")[-2]
    assert "set -f" in read_script('set -f\nP="*.py"\nsrun python t.py $P\n', "job.sh").get(
        "environment.setup"
    )


@pytest.mark.parametrize("launch", ["srun torchrun --nproc_per_node 4 t.py", "srun -n 4 python t.py"])
@pytest.mark.parametrize(
    ("line", "kept"), [("python get.py", True), ("if x; then ./get; fi", True), ("cp a b", False)]
)
def test_a_program_before_the_training_has_the_address_of_the_script(launch, line, kept):
    head = "#SBATCH -N 1 --gpus-per-node=4\nexport MASTER_ADDR=$(hostname) MASTER_PORT=1\n"
    draft = read_script(f"{head}{line}\nexport MASTER_PORT=2\n{launch}\n", "job.sh")
    setup = " ".join(draft.get("environment.setup"))
    assert draft.values["framework"] == "torch"
    assert ("MASTER_PORT=1" in setup, "MASTER_PORT=2" in setup) == (kept, False)


def test_an_option_without_its_variable_keeps_the_agent():
    head = "#SBATCH -N 2 --ntasks-per-node=1\n"
    launch = "srun torchrun --nnodes 2 --nproc_per_node 4 --master_addr $HEAD --master_port 1 t.py\n"
    assert "torchrun" in read_script(head + launch, "job.sh").values["run"]
    assert read_script(f"{head}HEAD=$(hostname)\n{launch}", "job.sh").values["framework"] == "torch"


def test_dependencies_and_signals_of_slurm():
    draft = read_script("#SBATCH --dependency=afterok:1:2,afterany:3\nsrun python t.py\n", "job.sh")
    assert [(one["job"], one["when"]) for one in draft.values["after"]] == [
        ("1", "ok"),
        ("2", "ok"),
        ("3", "any"),
    ]
    draft = read_script("#SBATCH --dependency=singleton\nsrun python t.py\n", "job.sh")
    assert draft.get("resources.options.dependency") == "singleton"
    assert "script's own shell" in checks("#SBATCH --signal=B:USR1@60\nsrun python t.py\n")[0]
    assert checks("#SBATCH --signal=USR1@60\nsrun python t.py\n") == []


def test_launches_beside_one_another_are_kept_and_to_be_checked():
    text = "#SBATCH -N 1 -n 2\nsrun -n 1 python a.py &\nsrun -n 1 python b.py &\nwait\n"
    draft = read_script(text, "job.sh")
    assert [entry.line for entry in draft.to_check] == [2, 3]
    assert all("started beside other programs" in entry.because for entry in draft.to_check)
    assert "srun -n 1 python a.py &\nsrun -n 1 python b.py &\nwait" in draft.values["run"]


def test_words_of_a_path_are_no_variables():
    text = "#PBS -V\n#PBS -l select=1\n{}\npython a.py\n"
    assert checks(text.format("mkdir -p /x/NekRS-ML/exe")) == []
    assert any("set by the shell" in because for because in checks(text.format("mkdir -p /x/$LABEL")))
    assert any("set by the shell" in because for because in checks(text.format("let A=LABEL*2; touch $A")))


@pytest.mark.parametrize(
    "read", ["cat ~/.wandb_key", "< ~/.wandb_key", 'cat "$HOME/.wandb_key"', "cat ${HOME}/.wandb_key"]
)
def test_a_secret_that_is_read_from_a_file_is_one_of_the_spec(read):
    text = script("#SBATCH -n1", f"export WANDB_API_KEY=$({read})", "mkdir -p out")
    assert spec_of(text).secrets["WANDB_API_KEY"].file == "~/.wandb_key"
    assert "WANDB_API_KEY" not in "".join(spec_of(text).environment.setup)
    assert checks(text) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["export HF_TOKEN=$(cat ~/.t)", "huggingface-cli login"],
        ["export HF_TOKEN=$(cat ~/.t)", "export B=x$HF_TOKEN"],
        ["export HF_TOKEN=$(cat ~/.t | tr -d x)"],
        ["export HF_TOKEN=$(cat $PLACE/t)"],
        ["HF_TOKEN=$(cat ~/.t)", "export HF_TOKEN"],
        ["source ~/.secrets"],
        ["source .env"],
    ],
)
def test_a_secret_that_lines_may_need_stays_with_them(lines):
    text = script("#SBATCH -n1", *lines)
    spec = spec_of(text)
    assert spec.secrets == {}
    assert lines[0] in spec.environment.setup
    assert "kept in `setup`" in left(text)[3, lines[0]]
