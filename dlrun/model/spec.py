"""The training spec: what a researcher wants trained. One frozen dataclass a mapping of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from dlrun.model.keys import BACK_END, OPTION_NAME, PLAIN, VARIABLE_NAME, key
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration

Auto: TypeAlias = Literal["auto"]
Policy: TypeAlias = Literal["requeue", "stop"]
"""What follows an end: another run of the same job, or nothing."""
Watch: TypeAlias = Literal["off", "warn", "fail"]
"""What a check in the job does: nothing, say what it found, or end the job."""


@record(frozen=True, slots=True, kw_only=True)
class Resources:
    """What to ask the scheduler for."""

    nodes: int = key("how many nodes", default=1, minimum=1)
    spare_nodes: int = key(
        "further nodes to ask for: all are checked before the training, which runs on the best `nodes` of them",
        default=0,
        minimum=0,
    )
    ranks_per_node: int | Auto = key(
        "ranks on each node; auto: one per GPU, else one per NUMA node", default="auto", minimum=1
    )
    ranks: int | Auto = key(
        "ranks in all, when that is not nodes × ranks_per_node; the last node then has fewer",
        default="auto",
        minimum=1,
    )
    cpus_per_rank: int | Auto = key(
        "cores of each rank; auto: an equal share of the node", default="auto", minimum=1
    )
    gpus_per_node: int | Auto = key(
        "GPUs on each node; auto: all that the node type has", default="auto", minimum=0
    )
    memory_per_node: Bytes | Literal["auto", "all"] = key(
        "memory on each node; auto: the site's rule, all: the whole node", default="auto"
    )
    walltime: Duration | None = key("the longest the job may run", default=None, minimum=1)
    partition: str | None = key("partition (a PBS queue)", default=None, pattern=PLAIN)
    account: str | None = key("project that pays", default=None, pattern=PLAIN)
    qos: str | None = key("quality of service", default=None, pattern=PLAIN)
    constraint: str | None = key("node features, in the scheduler's own syntax", default=None, pattern=PLAIN)
    reservation: str | None = key("reservation to run in", default=None, pattern=PLAIN)
    node_type: str | None = key(
        "node type of the site profile; default: the partition's", default=None, pattern=PLAIN
    )
    exclusive: bool | Auto = key("whole nodes for this job alone; auto: the site's rule", default="auto")
    hosts: tuple[str, ...] = key(
        "run on exactly these hosts (a list, or folded: n[01-04])", default=(), pattern=PLAIN
    )
    exclude: tuple[str, ...] = key(
        "never on these hosts; PBS cannot be told so: give `spare_nodes` too, and the job leaves them out by itself",
        default=(),
        pattern=PLAIN,
    )
    node_local: Bytes | None = key("node-local storage that the job needs", default=None)
    options: Mapping[str, str] = key(
        "other scheduler options by name, such as a site's mandatory `filesystems`",
        factory=dict,
        pattern=PLAIN,
        names=OPTION_NAME,
    )


@record(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """How ranks are put on cores; the defaults suit synchronous data-parallel training."""

    bind: Literal["auto", "plan", "job", "scheduler", "none"] = key(
        "who binds ranks: plan (the plan's table), job (equal parts of what the job was granted), "
        "scheduler, or none; auto: plan on whole nodes of known topology, else job",
        default="auto",
    )
    threads: int | Auto = key(
        "compute threads of each rank (OMP_NUM_THREADS); auto: its compute cores", default="auto", minimum=1
    )
    comm_cores: int | Auto = key(
        "cores of each rank kept for communication; auto: what the framework needs", default="auto", minimum=0
    )
    loader_cores: int = key("cores of each rank kept for data loading", default=0, minimum=0)
    comm_policy: Literal["own", "spread"] = key(
        "communication cores from the rank's own package, or spread over all", default="own"
    )
    smt: Literal["one", "all"] = key("hardware threads of a core to compute on", default="one")
    rank_order: Literal["gpu", "numa"] = key(
        "local ranks follow the GPUs' index order or the NUMA nodes'", default="gpu"
    )
    memory: Literal["strict", "preferred", "none"] = key(
        "NUMA memory policy of each rank", default="preferred"
    )
    reserve: str = key(
        "cores that no rank uses, besides those that the site reserves: a CPU list, `first-core-per-l3` or `N-per-node`",
        default="none",
        pattern=r"none|first-core-per-l3|[0-9]+-per-node|[0-9]+(-[0-9]+)?(:[0-9]+)?(,[0-9]+(-[0-9]+)?(:[0-9]+)?)*",
        expected="a CPU list such as `0,64-71`, `first-core-per-l3`, `N-per-node` or `none`",
    )
    locality: Literal["strict", "balance"] = key(
        "strict: a GPU's rank stays on the cores next to it, even if others stay idle; balance: all cores are used, some "
        "further from their GPU",
        default="strict",
    )
    l3_borders: Literal["free", "strict"] = key(
        "free: a rank may straddle two last-level caches where that gives every rank a further core; strict: never where "
        "whole caches can be given out",
        default="free",
    )
    oversubscribe: bool = key("let ranks share cores where there are fewer cores than ranks", default=False)


@record(frozen=True, slots=True, kw_only=True)
class Container:
    """An image that the ranks run in."""

    image: str = key("path or URI of the image", pattern=PLAIN)
    runtime: Literal["apptainer", "enroot"] = key(
        "apptainer (or singularity), or enroot through pyxis", default="apptainer"
    )
    binds: tuple[str, ...] = key("host paths to mount (`/path` or `/host:/inside`)", default=())
    arguments: tuple[str, ...] = key("further arguments of the runtime", default=(), lone="never")


@record(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the training command finds when it starts."""

    modules: tuple[str, ...] = key("environment modules to load, in order", default=())
    venv: str | None = key("Python virtual environment to activate", default=None, pattern=PLAIN)
    stage: bool = key(
        "bring the venv to each node's own storage first: a thousand ranks that import from a shared file system "
        "make millions of calls to its metadata server",
        default=False,
    )
    conda: str | None = key("conda environment (name or path) to activate", default=None, pattern=PLAIN)
    container: Container | None = key("container to run in", default=None)
    variables: Mapping[str, str] = key(
        "environment variables of every rank", factory=dict, names=VARIABLE_NAME
    )
    drop: tuple[str, ...] = key(
        "variables that stay unset, whether dlrun, the site or a module would set them",
        default=(),
        pattern=VARIABLE_NAME,
    )
    setup: tuple[str, ...] = key("shell lines to run before launch, as they stand", default=(), lone="text")


@record(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set that the training reads."""

    source: str = key("directory, file or glob on the shared file system", pattern=PLAIN)
    strategy: Literal["auto", "copy", "shard", "in_place", "pack"] = key("how nodes get it", default="auto")
    size: Bytes | None = key(
        "its expected size; a source whose size differs by more than a tenth is refused", default=None
    )
    reads: int | None = key(
        "how often the training reads all of it (its epochs); once is not worth a copy on one node",
        default=None,
        minimum=1,
    )
    keep: Literal["job", "cache"] = key(
        "remove node-local copies with the job, or keep them for the next", default="job"
    )
    include: tuple[str, ...] = key("only names that match one of these patterns", default=())
    exclude: tuple[str, ...] = key("not the names that match one of these patterns", default=())
    readers: int = key(
        "so many nodes read a part of the source each; the others get it from them", default=1, minimum=1
    )
    shape: Literal["auto", "chain", "tree"] = key(
        "how nodes pass it on: each to one other, each to two, or as a model of the time says", default="auto"
    )
    rate: Bytes | None = key(
        "read at most so much a second, to spare the shared file system", default=None, minimum=1
    )
    low_priority: bool = key("copy below everything else on the node", default=False)
    verify: bool = key("read every copy back before the training starts", default=False)

    @classmethod
    def from_scalar(cls, text: str) -> DataSet:
        """`imagenet: /scratch/imagenet` is short for its source."""
        return cls(source=text)


@record(frozen=True, slots=True, kw_only=True)
class Results:
    """Results that the program writes to node-local storage (`{{ results }}`) and that are brought away at the end."""

    to: str = key(
        "directory on the shared file system; every node's files come together in it", pattern=PLAIN
    )
    when: Literal["always", "ok"] = key(
        "also when the job fails, or only when all went well", default="always"
    )
    before_end: Duration = key(
        "how long before the walltime ends the ranks are ended, so that there is time to bring the results",
        default=Duration(300),
        minimum=1,
    )

    @classmethod
    def from_scalar(cls, text: str) -> Results:
        """`results: /scratch/run17` is short for where they go."""
        return cls(to=text)


@record(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The early signal that tells the training to save its state."""

    signal: Literal["USR1", "USR2", "TERM", "HUP", "INT"] = key(
        "signal that the training handles", default="USR1"
    )
    before_end: Duration = key("how long before the walltime ends", default=Duration(120))
    to: Literal["first", "all"] = key("rank 0 alone, or all ranks", default="all")
    path: str | None = key(
        "where checkpoints appear, a file or a directory (it may use `{{ run_dir }}`); a run that left no newer "
        "one there than it found is not started again",
        default=None,
        pattern=PLAIN,
    )


@record(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """What to do when the job does not end well."""

    requeue: int = key("put the job back into the queue at most this often", default=0, minimum=0)
    timed_out: Policy = key("when the walltime is over", default="requeue")
    preempted: Policy = key("when another job takes its nodes", default="requeue")
    node_failed: Policy = key("when a node dies", default="requeue")
    out_of_memory: Policy = key("when a process was ended because memory ran out", default="stop")
    hang: Policy = key("when `hang` found no progress", default="requeue")
    user_error: Policy = key("when the program itself fails", default="stop")


@record(frozen=True, slots=True, kw_only=True)
class Secret:
    """A value that is named here and read when the job runs: exactly one of the three."""

    env: str | None = key("variable of the submitting shell", default=None, pattern=VARIABLE_NAME)
    file: str | None = key("file that only you can read", default=None, pattern=PLAIN)
    command: tuple[str, ...] = key("command that prints it", default=(), lone="never")


@record(frozen=True, slots=True, kw_only=True)
class After:
    """A job that must end first."""

    job: str = key("scheduler id, or a dlrun job's name or directory", pattern=PLAIN)
    when: Literal["ok", "any", "not_ok"] = key("how it must have ended", default="ok")

    @classmethod
    def from_scalar(cls, text: str) -> After:
        """`after: [1234]` means after job 1234 succeeded."""
        return cls(job=text)


@record(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Parameters with their values, one run a point; a key that is none of these is a parameter of `grid`.

    Where several forms are given, every combination of theirs is a point, the last one varying fastest.
    """

    OTHERS: ClassVar[str] = "grid"
    """The key that a mapping's other names belong to (`dlrun.config.decode`)."""

    list: tuple[Mapping[str, str], ...] = key(
        "points one by one, each a mapping of all its parameters to their values",
        default=(),
        names=VARIABLE_NAME,
        lone="never",
    )
    zip: Mapping[str, tuple[str, ...]] = key(
        "parameters that change together: the first value of each, the second of each, …",
        factory=dict,
        names=VARIABLE_NAME,
        lone="text",
        minimum=1,
    )
    grid: Mapping[str, tuple[str, ...]] = key(
        "parameters in every combination", factory=dict, names=VARIABLE_NAME, lone="text", minimum=1
    )
    at_once: int | None = key("at most so many points run at the same time", default=None, minimum=1)


@record(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the program prints, for the tables of `dlrun results` and `dlrun scale`."""

    pattern: str | None = key(
        "regular expression of the line, with the number as its group (named `value` where there are more)",
        default=None,
        pattern=PLAIN,
    )
    json: str | None = key(
        "key of the number in lines that are JSON objects; dots lead into nested ones",
        default=None,
        pattern=PLAIN,
    )
    unit: str | None = key("unit to show, such as images/s", default=None, pattern=PLAIN)
    of: Literal["job", "rank", "steps", "step_time"] = key(
        "what one number stands for: samples a second of the whole job, or of one rank; steps a second, or seconds "
        "a step (these two need `batch_per_rank`)",
        default="job",
    )
    take: Literal["auto", "last", "median", "mean", "min", "max"] = key(
        "which of the numbers counts; auto: the median for `throughput`, else the last", default="auto"
    )
    skip: int | Auto = key(
        "numbers at the beginning that do not count (warm-up); auto: for `throughput` the first tenth, at least "
        "one if there are three, else none",
        default="auto",
        minimum=0,
    )

    @classmethod
    def from_scalar(cls, text: str) -> Metric:
        """`accuracy: 'accuracy ([0-9.]+)'` is short for its pattern."""
        return cls(pattern=text)


@record(frozen=True, slots=True, kw_only=True)
class Spec:
    """A training spec: what to train, on how much, with what. `dlrun submit` turns it into a job."""

    name: str = key(
        "name of the job", pattern=r"[^\x00-\x1f\x7f]{1,128}", expected="one line of at most 128 characters"
    )
    command: tuple[str, ...] = key(
        "the training command, one argument an item; `{{ }}` names plan values", lone="never", minimum=1
    )
    framework: str = key("who tells the ranks about one another", default="torch", pattern=BACK_END)
    launcher: str = key("who starts the ranks; auto: the site's launcher", default="auto", pattern=BACK_END)
    site: str | None = key("site profile, by name or file", default=None, pattern=PLAIN)
    directory: str | None = key(
        "directory the command runs in; default: where you submit", default=None, pattern=PLAIN
    )
    files: tuple[str, ...] = key(
        "files and directories of the working tree that the job needs: a submission to a login node sends them",
        default=(),
        pattern=PLAIN,
    )
    batch_per_rank: int | None = key(
        "samples a rank takes in a step; gives `{{ global_batch }}`", default=None, minimum=1
    )
    resources: Resources = key("what to ask the scheduler for", factory=Resources)
    placement: PlacementOptions = key("how ranks are put on cores", factory=PlacementOptions)
    environment: Environment = key("what the command finds when it starts", factory=Environment)
    data: Mapping[str, DataSet] = key("data sets, by name", factory=dict, names=VARIABLE_NAME)
    results: Results | None = key("results to bring from node-local storage when the job ends", default=None)
    checkpoint: Checkpoint | None = key("early signal before the walltime ends", default=None)
    on_failure: OnFailure = key("what to do when the job fails", factory=OnFailure)
    hang: Duration | None = key(
        "end the job if no rank writes or computes anything for so long, and keep where each of them stood",
        default=None,
        minimum=1,
    )
    verify: Watch = key(
        "look before the training starts whether each rank has the cores, memory policy and GPUs of the plan: "
        "one line a node in the job's log; fail: end the job if not",
        default="off",
    )
    fabric_check: Watch = key(
        "read in the logs which transport NCCL, RCCL, oneCCL, Intel MPI or UCX really chose, and compare it with the "
        "site's fabric; fail: end a job that fell back to sockets",
        default="off",
    )
    after: tuple[After, ...] = key("jobs that must end first", default=())
    chain: bool = key(
        "split a walltime that is over the partition's limit into runs, each going on where the last one stopped",
        default=False,
    )
    hold: bool = key("submit held; `scontrol release` or `qrls` lets it go", default=False)
    secrets: Mapping[str, Secret] = key(
        "variables whose values are read when the job runs", factory=dict, names=VARIABLE_NAME
    )
    sweep: Sweep = key(
        "parameters with their values: a job array with a run for each point, each `{{ NAME }}` in the command",
        factory=Sweep,
    )
    metrics: Mapping[str, Metric] = key(
        "numbers to read from the log, by name; `throughput` is found by itself for common trainers",
        factory=dict,
        names=VARIABLE_NAME,
    )
    options: Mapping[str, Any] = key(
        "the framework's own options (written under the framework's name)", factory=dict
    )
