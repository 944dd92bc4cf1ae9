"""Codes of warnings for valid specs that are probably not what the user meant."""

from __future__ import annotations

# ruff: noqa: E501, ISC004, RUF001 - a page of prose, one code an entry
MISTAKE_CODES: dict[str, tuple[str, str]] = {
    "DLR100": (
        "shell text where no shell reads it",
        "`command` is a list of arguments that the program gets exactly as written, and `environment.variables` are set as written, too. "
        "Write shell text under `run:`, and `{{ env.NAME }}` for a variable of the node. A path may begin with `~` or `$HOME`.",
    ),
    "DLR101": (
        "an unused sweep parameter",
        "Runs of a sweep differ only in the values of `{{ NAME }}` in the command. A parameter that the command does not use makes equal runs.",
    ),
    "DLR102": (
        "two Python environments",
        "`environment.conda` is activated first, then `environment.venv`, whose Python is then first on `PATH`.",
    ),
    "DLR103": (
        "unused GPUs",
        "Whole nodes are charged with their GPUs, whether the job requests them or not.",
    ),
    "DLR104": (
        "more or fewer cores requested than used",
        "Where the plan binds ranks, topology and `placement` give their cores; `cpus_per_rank` only changes the request.",
    ),
    "DLR105": (
        "another program's word",
        "Options of sbatch, qsub and torchrun under `resources:`, with `--set` or as options of `submit` and `plan` are "
        "translated into the keys of dlrun, in the units of those programs: `time: 30` is 30 minutes, `mem: 64G` is 64GiB.",
    ),
    "DLR106": (
        "more ranks than cores",
        "Each rank needs at least one core; with fewer cores than ranks, ranks wait for each other.",
    ),
    "DLR107": (
        "a decimal unit where the scheduler counts in units of 1,024",
        "`200GB` (and `200G`) is 200 × 10⁹ bytes, 7 % less than `--mem=200G` of Slurm or `mem=200gb` of PBS, which is `200GiB` here.",
    ),
    "DLR112": (
        "a typographic character",
        "Word processors and PDF files have “ ”, ‘ ’ and – where a command line needs \"\", '' and --; a program gets them as they are.",
    ),
    "DLR120": (
        "a misspelt variable",
        "NCCL, libfabric, UCX, OpenMP, MKL, PyTorch, CUDA, Hugging Face and wandb ignore variables that they do not know. A name that "
        "resembles one of theirs, but is not, has no effect. A name that resembles none is not reported.",
    ),
    "DLR121": (
        "a variable of the rendezvous, set by hand",
        "dlrun sets the variables by which ranks find each other (`RANK`, `LOCAL_RANK`, `WORLD_SIZE`, `MASTER_ADDR` for PyTorch) in each "
        "rank. A value in the spec is the same for all ranks, so the ranks wait for each other until a timeout.",
    ),
    "DLR122": (
        "GPUs selected by hand",
        "The plan gives each rank its own GPUs. `CUDA_VISIBLE_DEVICES` (and its like) in the spec would be the same in all ranks of a node.",
    ),
    "DLR123": (
        "a word of the shell as the program",
        "`command` names a program and its arguments. `cd`, `module`, `source` and `export` are words of the shell; also, what they change "
        "ends with the shell that they run in.",
    ),
    "DLR124": (
        "an option and its value as one argument",
        "Each item of `command` is one argument, with its spaces. `[--lr 0.1]` has one argument of 8 characters; `[--lr, 0.1]` has two.",
    ),
    "DLR125": (
        "a placeholder",
        "Examples name what you have to fill in: `YOUR_ACCOUNT`, `<partition>`, `/path/to/data`.",
    ),
    "DLR126": (
        "a range in a sweep",
        "A sweep lists its values: `{lr: [0.1, 0.2, 0.4]}`. `1-4` is a single value, which the program gets as it is.",
    ),
    "DLR127": (
        "several modules in one name",
        "Each item of `environment.modules` is one module: `[gcc/13, cuda/12.6]`.",
    ),
    "DLR128": (
        "hosts and nodes differ",
        "`resources.hosts` lists exactly the hosts of the job, so their number is `nodes` (with `spare_nodes`: both together), each is there "
        "once, and none of them is under `exclude`.",
    ),
    "DLR129": (
        "a path that cannot be checked here",
        "dlrun checks that files of the spec exist. Where not even the first directory of a path is on this machine, the path may exist on "
        "the nodes, or be misspelt.",
    ),
    "DLR130": (
        "a secret as an argument",
        "The shell of `run:` replaces `$NAME` before the program starts, so the value stands in the list of processes. Each rank has its "
        "secrets as variables: most programs read theirs there (`HF_TOKEN`, `WANDB_API_KEY`), others from standard input or a file.",
    ),
    "DLR131": (
        "`conda activate` without conda's functions",
        "`conda activate` is a function of the shell, which an interactive shell reads at its start (`conda init`) and a job's does not. "
        "`environment: {conda: NAME}` activates the environment.",
    ),
    "DLR132": (
        "amounts that do not fit",
        "The amount is valid for its key, but not with the rest of the job: `hang` is not shorter than the walltime, or so short that "
        "imports are taken for a hang; memory is less than PyTorch takes when it is imported; `OMP_NUM_THREADS` is more than the cores of a rank.",
    ),
    "DLR133": (
        "an option that the scheduler does not have",
        "`resources.options` are passed to the scheduler as they are. A name that resembles one of its options, but is not, would be refused. "
        "A name that resembles none may be an option of a plug-in, and is not reported.",
    ),
    "DLR134": (
        "a value that a library does not read",
        "NCCL, libfabric and wandb ignore values that they do not know, or stop on them. NCCL reads switches as numbers: `1`, not `true`.",
    ),
    "DLR135": (
        "a search path that is replaced",
        "A value of `PATH` or `LD_LIBRARY_PATH` in the spec replaces what modules and environments have put there, Python included. "
        "`{{ env.PATH }}` inserts the value of the node.",
    ),
    "DLR136": (
        "a program that binds ranks",
        "`numactl` and `taskset` in the command put all ranks of a node on the same cores or memory, although the plan gives each its own. "
        "`placement:` changes the plan; `placement: {bind: none}` leaves binding to the command.",
    ),
    "DLR139": (
        "an MPI that the launcher does not tell of other ranks",
        "Ranks of an MPI learn of one another from a process manager. Without the one that the MPI was built for, every rank can be "
        "rank 0 of its own world: the job runs as many separate trainings. Open MPI needs PMIx under `srun` (`--mpi=pmix`), Intel MPI "
        "and MPICH PMI-2 (`--mpi=pmi2`; Intel MPI also Slurm's library in `I_MPI_PMI_LIBRARY`); `srun --mpi=list` shows what this Slurm "
        "has. Under the launcher of another MPI, ranks are alone; their own launcher needs none of this.",
    ),
    "DLR145": (
        "a comment that may be part of the value",
        "In YAML ` #` begins a comment: `name: run #3` is the name `run`. Quote a value that contains it. A comment with a blank after "
        "`#` is not reported.",
    ),
}
"""Code -> title, explanation."""
