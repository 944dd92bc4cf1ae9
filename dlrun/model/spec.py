"""The training spec, one frozen dataclass for each mapping of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from dlrun.model.data import CodeMode, DataSet, Results, Snapshot
from dlrun.model.keys import BACK_END, DATA_NAME, FILE_NAME, OPTION_NAME, PLAIN, VARIABLE_NAME, key
from dlrun.model.placement import PlacementOptions
from dlrun.model.program import ROLE_NAME, Environment, Role, Secret
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration

Auto: TypeAlias = Literal["auto"]
Policy: TypeAlias = Literal["requeue", "stop"]
"""After a job ends: requeue it, or stop."""
Tracker: TypeAlias = Literal["wandb", "mlflow", "tensorboard"]
"""An experiment tracker."""
Watch: TypeAlias = Literal["off", "warn", "fail"]
"""A check in the job: off, log what it finds, or end the job on a finding."""


@record(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources to request from the scheduler."""

    nodes: int = key("number of nodes", default=1, minimum=1, maximum=200_000)
    spare_nodes: int = key(
        "extra nodes to request; all nodes are checked before the training starts on the best `nodes` of them",
        default=0,
        minimum=0,
        maximum=10_000,
    )
    ranks_per_node: int | Auto = key(
        "ranks on each node; auto: one per GPU, else one per NUMA node",
        default="auto",
        minimum=1,
        maximum=4_096,
    )
    ranks: int | Auto = key(
        "total number of ranks if it is not nodes × ranks_per_node; the last node then has fewer",
        default="auto",
        minimum=1,
    )
    cpus_per_rank: int | Auto = key(
        "cores of each rank; auto: an equal share of the node", default="auto", minimum=1, maximum=65_536
    )
    gpus_per_node: int | Auto = key(
        "GPUs on each node; auto: all GPUs of the node type; `a100:4` also sets `gpu_type`",
        default="auto",
        minimum=0,
        maximum=1_024,
    )
    gpu_type: str | None = key(
        "type of the GPUs as the scheduler names it, such as `a100`, or a MIG slice, `1g.10gb`",
        default=None,
        pattern=r"[A-Za-z0-9][\w.-]*",
        expected="a name such as `a100` or `1g.10gb`",
    )
    memory_per_node: Bytes | Literal["auto", "all"] = key(
        "memory on each node; auto: the site's rule; all: the whole node", default="auto"
    )
    walltime: Duration | None = key("walltime limit of the job", default=None, minimum=1)
    partition: str | None = key(
        "partition (Slurm) or queue (PBS); several, `a,b`: the first with room, or that accepts the job; any: all that do",
        default=None,
        pattern=PLAIN,
    )
    account: str | None = key("account (project) to charge", default=None, pattern=PLAIN)
    qos: str | None = key("quality of service", default=None, pattern=PLAIN)
    constraint: str | None = key(
        "required node features, in the scheduler's syntax", default=None, pattern=PLAIN
    )
    reservation: str | None = key("reservation to use", default=None, pattern=PLAIN)
    node_type: str | None = key(
        "node type of the site profile; default: the partition's", default=None, pattern=PLAIN
    )
    exclusive: bool | Auto = key("allocate whole nodes to this job; auto: the site's rule", default="auto")
    hosts: tuple[str, ...] = key(
        "run on exactly these hosts (a list, or a range: n[01-04])", default=(), pattern=PLAIN
    )
    exclude: tuple[str, ...] = key(
        "hosts to avoid; PBS has no such option: with `spare_nodes`, the job itself leaves them out",
        default=(),
        pattern=PLAIN,
    )
    node_local: Bytes | None = key("node-local storage to request on each node", default=None, minimum=1)
    options: Mapping[str, str] = key(
        "other scheduler options by name, such as `filesystems` where a site requires it",
        factory=dict,
        pattern=PLAIN,
        names=OPTION_NAME,
    )


@record(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The early signal that makes the training save its state."""

    signal: Literal["USR1", "USR2", "TERM", "HUP", "INT"] = key(
        "signal that the training program handles", default="USR1"
    )
    before_end: Duration = key(
        "time before the end of the walltime at which the signal is sent", default=Duration(120)
    )
    to: Literal["first", "all"] = key("first: send it to rank 0 only; all: to every rank", default="all")
    path: str | None = key(
        "file or directory of the checkpoints (may use `{{ run_dir }}`); a run that wrote no newer checkpoint there "
        "is not restarted",
        default=None,
        pattern=PLAIN,
        path=True,
    )


@record(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """What to do when the job fails."""

    requeue: int = key("maximum number of requeues", default=0, minimum=0)
    timed_out: Policy = key("action after the walltime limit was reached", default="requeue")
    preempted: Policy = key("action after preemption", default="requeue")
    node_failed: Policy = key("action after a node failure", default="requeue")
    out_of_memory: Policy = key("action after a process was killed because memory ran out", default="stop")
    hang: Policy = key("action after `hang` detected no progress", default="requeue")
    user_error: Policy = key("action after a failure of the program itself", default="stop")


@record(frozen=True, slots=True, kw_only=True)
class After:
    """A job that must end before this one starts."""

    job: str = key("scheduler id, or a dlrun job's name or directory", pattern=PLAIN)
    when: Literal["ok", "any", "not_ok"] = key(
        "ok: it must succeed; not_ok: it must fail; any: it must end", default="ok"
    )

    @classmethod
    def from_scalar(cls, text: str) -> After:
        """`after: [1234]` means after job 1234 succeeded."""
        return cls(job=text)


@record(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Parameters and their values, one run per point; any other key is a parameter of `grid`.

    With several forms, every combination of their points is a point; the last form varies fastest.
    """

    OTHERS: ClassVar[str] = "grid"
    """The key whose entries may also be written directly in the mapping (`dlrun.config.decode`)."""

    list: tuple[Mapping[str, str], ...] = key(
        "explicit points, each a mapping of all parameters to values",
        default=(),
        names=VARIABLE_NAME,
        single="never",
    )
    zip: Mapping[str, tuple[str, ...]] = key(
        "parameters that vary together: all first values, all second values, …",
        factory=dict,
        names=VARIABLE_NAME,
        single="word",
        minimum=1,
    )
    grid: Mapping[str, tuple[str, ...]] = key(
        "parameters whose values are combined in every way",
        factory=dict,
        names=VARIABLE_NAME,
        single="word",
        minimum=1,
    )
    at_once: int | None = key("maximum number of points that run at the same time", default=None, minimum=1)
    nodes: int | None = key(
        "nodes of one job that runs all points, each as soon as a place is free, instead of a job array",
        default=None,
        minimum=1,
    )
    points_per_node: int = key("with `nodes`: number of places for points on each node", default=1, minimum=1)
    points_per_gpu: int = key(
        "with `nodes`, instead of `points_per_node`: number of points that share each GPU of a node",
        default=1,
        minimum=1,
    )
    nodes_per_point: int = key(
        "with `nodes`, instead of `points_per_node`: number of whole nodes of the job that each point has",
        default=1,
        minimum=1,
    )
    mps: bool = key(
        "with `points_per_gpu`: NVIDIA's MPS lets the points of a GPU compute at the same time, an equal share each",
        default=False,
    )


@record(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the program prints, for the tables of `dlrun results` and `dlrun scale`."""

    pattern: str | None = key(
        "regular expression for the line, with the number as its group (named `value` if there are several)",
        default=None,
        pattern=PLAIN,
    )
    json: str | None = key(
        "key of the number in log lines that are JSON objects; dots separate nested keys",
        default=None,
        pattern=PLAIN,
    )
    unit: str | None = key("unit for tables, such as images/s", default=None, pattern=PLAIN)
    of: Literal["job", "rank", "steps", "step_time"] = key(
        "what the number measures: samples per second of the whole job or of one rank; steps per second, or seconds "
        "per step (these two need `batch_per_rank`)",
        default="job",
    )
    take: Literal["auto", "last", "median", "mean", "min", "max"] = key(
        "how the numbers are combined; auto: the median for `throughput`, else the last", default="auto"
    )
    skip: int | Auto = key(
        "number of values to skip at the beginning (warm-up); auto: for `throughput` the first tenth, at least "
        "one if there are three, else none",
        default="auto",
        minimum=0,
    )

    @classmethod
    def from_scalar(cls, text: str) -> Metric:
        """`accuracy: 'accuracy ([0-9.]+)'` is short for its pattern."""
        return cls(pattern=text)


SHELL = ("bash", "--norc", "-euo", "pipefail", "-c")
"""Arguments before the shell text of `run`.

On a node that ssh has reached, bash would read the start-up files of an interactive shell first (bash(1), INVOCATION), which
fail or warn under `set -eu`.
"""


@record(frozen=True, slots=True, kw_only=True)
class Spec:
    """A training spec: the command, its resources, environment and data. `dlrun submit` turns it into a job."""

    name: str = key(
        "name of the job", pattern=r"[^\x00-\x1f\x7f]{1,128}", expected="one line of at most 128 characters"
    )
    command: tuple[str, ...] = key(
        "training command as a list of arguments, passed to the program unchanged; `{{ }}` inserts values of the plan; "
        "a single text is treated as `run`",
        single="never",
        minimum=1,
    )
    run: str | None = key(
        "training command as shell text instead of `command`: each rank runs it in bash with `set -euo pipefail`; `$NAME`, "
        "pipes, `&&` and `~` work, `{{ }}` inserts values of the plan, quoted",
        default=None,
    )
    framework: str = key(
        "how ranks find one another: torch, horovod, mpi, …", default="torch", pattern=BACK_END
    )
    launcher: str = key(
        "what starts the ranks: srun, openmpi, ssh, …; auto: the site's launcher",
        default="auto",
        pattern=BACK_END,
    )
    site: str | None = key("site profile, a name or a file", default=None, pattern=PLAIN)
    directory: str | None = key(
        "working directory of the command; default: the directory of the submission",
        default=None,
        pattern=PLAIN,
        path=True,
    )
    files: tuple[str, ...] = key(
        "files and directories that a remote submission copies to the login node",
        default=(),
        pattern=PLAIN,
    )
    batch_per_rank: int | None = key(
        "samples per rank and step; defines `{{ global_batch }}`", default=None, minimum=1
    )
    resources: Resources = key("resources to request from the scheduler", factory=Resources)
    placement: PlacementOptions = key("CPU, memory and GPU binding of the ranks", factory=PlacementOptions)
    environment: Environment = key(
        "environment of the command: modules, venv, container, variables", factory=Environment
    )
    data: Mapping[str, DataSet] = key("data sets, by name", factory=dict, names=DATA_NAME)
    results: Results | None = key("results to copy from node-local storage when the job ends", default=None)
    checkpoint: Checkpoint | None = key("signal to the training before the walltime ends", default=None)
    on_failure: OnFailure = key("when to requeue a failed job", factory=OnFailure)
    hang: Duration | None = key(
        "end the job if no rank writes output or uses CPU for this long, and save the stack of each rank",
        default=None,
        minimum=1,
    )
    verify: Watch = key(
        "before the training starts, check that each rank has the planned cores, memory policy and GPUs, with "
        "one log line per node; fail: end the job on a difference",
        default="off",
    )
    fabric_check: Watch = key(
        "read from the logs which transport NCCL, RCCL, oneCCL, Intel MPI or UCX selected, and compare it with that of the "
        "site's fabric; fail: end a job that falls back to sockets",
        default="off",
    )
    caches: str = key(
        "directories for what compilers keep (torch.compile, Triton, CUDA, …); auto: private ones on node-local storage, one for "
        "each rank where sharing fails, with what earlier jobs have compiled; variables that are set already are kept; a "
        "directory on the shared file system: the same, and what was compiled is kept there for later jobs, not beside the job "
        "directories; off: each tool uses its own",
        default="auto",
        pattern=r"auto|off|(?:/|~/|\$HOME/|\$\{HOME\}/)[^\x00-\x1f\x7f]+",
        expected="`auto`, `off`, or a directory as a full path (or `~/…`)",
        path=True,
    )
    code: CodeMode | Snapshot = key(
        "record: note commit and digests of the code when the job is submitted, and log at each start what has changed since; "
        "strict: end the job then; snapshot: store the code, and run what was submitted; a mapping: a snapshot with its options",
        default="record",
    )
    track: tuple[Tracker, ...] = key(
        "experiment trackers (`wandb`, `mlflow`, `tensorboard`): rank 0 gets variables that name its run, the same at each start "
        "of the job, with job id, site, plan and commit as tags; what is set already is kept; keys belong under `secrets`",
        default=(),
    )
    usage: bool = key(
        "on each node, record what the ranks use: cores, memory, GPUs, network, storage; `dlrun usage` shows it",
        default=True,
    )
    logs: Literal["rank", "node"] = key(
        "rank: one log file per rank, in a directory per 1,000 ranks where a job has more; node: one file per node, "
        "each line with its rank, which a shared file system creates faster",
        default="rank",
    )
    log_link: str | None = key(
        "name of a symbolic link to the job's log (for a sweep, to the directory of its runs) in the directory of the "
        "submission, such as `slurm-%j.out`; `%j` is the job's id, `%x` its name",
        default=None,
        pattern=FILE_NAME,
        expected="a file name without a path",
    )
    after: tuple[After, ...] = key("jobs that must end before this one starts", default=())
    chain: bool = key(
        "split a walltime that exceeds the partition's limit into several runs, each of which resumes the previous one",
        default=False,
    )
    hold: bool = key("submit in held state; `dlrun hold --release` releases it", default=False)
    secrets: Mapping[str, Secret] = key(
        "environment variables whose values are read when the job runs", factory=dict, names=VARIABLE_NAME
    )
    sweep: Sweep = key(
        "parameters and their values, `{{ NAME }}` in the command: a job array with one run per point",
        factory=Sweep,
    )
    roles: Mapping[str, Role] = key(
        "several programs in one job instead of `command`, each with nodes of its own: a server and what uses it",
        factory=dict,
        names=ROLE_NAME,
    )
    metrics: Mapping[str, Metric] = key(
        "numbers to read from the log, by name; `throughput` of common trainers is found automatically",
        factory=dict,
        names=VARIABLE_NAME,
    )
    options: Mapping[str, Any] = key(
        "options of the framework (written under the framework's name)", factory=dict
    )
