"""The plan: all decisions about one job, with reasons. Rendering adds no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from dlrun.model.data import SCRIPT_LINE, CachesPlan, CodeMode, Credentials, HubSource, ResultsPlan, Snapshot
from dlrun.model.keys import PLAIN, SIGNAL, VARIABLE_NAME, WORD, saved
from dlrun.model.origin import Decision, Origin
from dlrun.model.placement import CpuShare, GpuShare, Placement, PoolPlan
from dlrun.model.program import ROLE_NAME, ContainerPlan, Ready
from dlrun.model.record import record
from dlrun.model.site import FailurePattern
from dlrun.model.spec import Metric, Watch
from dlrun.model.text import Shell, Text
from dlrun.model.units import Bytes, Duration

VERSION = 1
"""Version of the plan's JSON; keys are added, never removed, within one version."""


@record(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable: value, rule, reason, and source of the rule."""

    name: str = saved(pattern=VARIABLE_NAME)
    value: Text
    rule: str
    because: str
    origin: Origin | None = None
    source: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Directive:
    """One scheduler directive as written after `#SBATCH` or its like, and its reason."""

    text: str = saved(pattern=PLAIN)
    because: str
    origin: Origin | None = None


@record(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A job that must end before this one starts; `cluster` is the cluster of its id (None: unknown)."""

    job_id: str
    when: Literal["ok", "any", "not_ok"]
    cluster: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Request:
    """The request to the scheduler, in the same form for all schedulers. None: not requested."""

    name: str
    nodes: int = saved(minimum=1)
    ranks: int = saved(minimum=1, maximum=1_000_000_000)
    ranks_per_node: int = saved(minimum=1)
    cpus_per_rank: int | None = None
    cpus_per_node: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    memory_per_node: Bytes | Literal["all"] | None = None
    node_local: Bytes | None = None
    walltime: Duration | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclusive: bool = False
    hosts: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    threads: int | None = None
    array: int | None = None
    at_once: int | None = None
    after: tuple[Dependency, ...] = ()
    hold: bool = False
    signal: str | None = None
    signal_before: Duration | None = None
    requeue: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    directives: tuple[str, ...] = ()
    spare_nodes: int = 0
    outlives_nodes: bool = False


@record(frozen=True, slots=True, kw_only=True)
class RolePlan:
    """One kind of process of the job, and how it is started.

    `nodes`: all nodes or only the first; `per_node`: processes on each of them. `launch`: arguments of the launcher before
    the rank script; `argv`: the program. A `service` runs in the background and is ended after the other roles; `ready` is a
    shell command that succeeds once it accepts connections; if it `ends`, it may end by itself after the training. `lead`
    replaces `argv` in process 0. A role that `binds` uses the placement table. `files`: modules of the node program that the
    job needs. A role with an `identity` is started by a process of another role: `launch` is empty. `cpus`: of each process.
    """

    name: str = saved(pattern=WORD)
    nodes: Literal["all", "first"]
    per_node: int
    count: int
    argv: tuple[Text, ...]
    launch: tuple[Text, ...]
    variables: tuple[Variable, ...] = ()
    service: bool = False
    ready: Text | None = None
    binds: bool = True
    ends: bool = False
    lead: tuple[Text, ...] = ()
    files: tuple[str, ...] = saved(default=(), pattern=WORD)
    identity: Identity | None = None
    cpus: tuple[int, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Identity:
    """Shell expansions for the place of a process, set by its launcher; empty: it sets no such variable.

    - `local_size`: the number of its processes on this node, or Slurm's list of these numbers for all nodes (`4(x2),2`).
    - `node`: the index of this node among those of the processes. Without it, it follows from the plan where rank, local rank
      and size are as planned (ranks fill nodes in order), else from the job's list of hosts.
    """

    rank: Shell
    local_rank: Shell
    local_size: Shell = Shell("")
    node: Shell = Shell("")


@record(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """How ranks are started: launcher, shell expansions for rank numbers, and the launcher's environment; `unset` are variables
    of the batch job that the launcher would read as its own options.
    """

    name: str
    identity: Identity
    variables: tuple[Variable, ...] = ()
    unset: tuple[str, ...] = saved(default=(), pattern=VARIABLE_NAME)


@record(frozen=True, slots=True, kw_only=True)
class RendezvousPlan:
    """The rendezvous: a shell expansion for the address, and a block of `ports` ports from a range; `own` is each node's address
    by the same rule, `suffix` is appended to host names.
    """

    address: Shell
    rule: str
    because: str
    first_port: int
    last_port: int
    ports: int = 1
    suffix: str = ""
    own: Shell = Shell("$DLRUN_HOST")


@record(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """The set-up before the launch: shell lines of site and user, modules, venv, conda, container.

    `staged` is the venv or the image as a data set, with `environment.stage`. python: the site's, for dlrun's programs on nodes.
    """

    python: str | None = None
    site_setup: tuple[str, ...] = ()
    hygiene: Literal["keep", "reset", "purge"] = "keep"
    modules: tuple[str, ...] = ()
    conda: str | None = None
    venv: str | None = None
    setup: tuple[str, ...] = ()
    container: ContainerPlan | None = None
    staged: DataPlan | None = None


@record(frozen=True, slots=True, kw_only=True)
class DataPlan:
    """One data set: source, staging strategy, and the path for the program.

    `variable` is the environment variable with that path. With `fallback` the set is read in place if it does not fit when
    the job starts. `room`: maximum bytes per node for strategy `part` (default: free space). `start`: amount that must be
    staged before the training starts. `secrets`: names of those that the program which fetches it needs. `is_code`: it is the
    run's copy of the job's snapshot, whose place is known in the job (`source` is empty).
    """

    name: str = saved(pattern=WORD)
    source: str
    strategy: Literal["in_place", "copy", "shard", "pack", "image", "part"]
    path: Text
    because: str
    variable: str = saved(pattern=VARIABLE_NAME)
    keep: Literal["job", "cache"] = "job"
    size: Bytes | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    start: str | None = None
    balance: Literal["files", "bytes"] = "files"
    readers: int = 1
    shape: Literal["auto", "chain", "tree"] = "auto"
    rate: Bytes | None = None
    low_priority: bool = False
    verify: bool = False
    recheck: Literal["sample", "all", "none"] = "sample"
    fallback: bool = False
    room: Bytes | None = None
    checksums: str | None = None
    version: str | None = None
    unpack: bool = False
    credentials: Credentials | None = None
    secrets: tuple[str, ...] = saved(default=(), pattern=VARIABLE_NAME)
    hub: HubSource | None = None
    is_code: bool = False


@record(frozen=True, slots=True, kw_only=True)
class SecretPlan:
    """A variable whose value each rank reads when it starts; the value itself is never here."""

    name: str = saved(pattern=VARIABLE_NAME)
    env: str | None = saved(default=None, pattern=VARIABLE_NAME)
    file: str | None = None
    command: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Binding:
    """Mode, and the table for mode `plan`; `gpu_variable` limits a rank to its GPUs; `cores`: for each rank on shared nodes."""

    mode: Literal["plan", "job", "scheduler", "none"]
    because: str
    placement: Placement | None = None
    gpu_variable: str | None = saved(default=None, pattern=VARIABLE_NAME)
    cores: int | None = None


@record(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a sweep: the values of its parameters and the resulting command."""

    index: int
    parameters: Mapping[str, str]
    argv: tuple[Text, ...]


@record(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """The early signal: signal, time before the end, receivers.

    `carrier` is the signal from the scheduler to each rank's script: launchers may send it to every process of a rank, so
    all processes but the script ignore it, and the script sends `signal` to the program once. `ignored` are signals
    ignored at the program's start, so that they cannot end it before it installs its handler. In the roles of `agents` the
    ranks are children of the program. `path` is the path of the checkpoints.
    """

    signal: str = saved(pattern=SIGNAL)
    before_end: Duration
    to: Literal["first", "all"]
    carrier: str = saved(default="USR2", pattern=SIGNAL)
    ignored: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    path: Text | None = None


Cause: TypeAlias = Literal["timed_out", "preempted", "node_failed", "out_of_memory", "hang", "user_error"]
"""Causes of the failure of a run."""


@record(frozen=True, slots=True, kw_only=True)
class FabricCheck:
    """The expected transports of communication libraries, and the action on a mismatch."""

    action: Watch
    fabric: str
    expect: tuple[str, ...]
    advice: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class NodeChecks:
    """Checks of each granted node, of which the best are used; `launch` starts one process on one node.

    `memory` and `space` (in `directory`) are minimum free bytes, `keep_out` the seconds for which a failed node is excluded,
    `suffix` is appended to host names. `leave_out` are excluded hosts, at schedulers without an option for that.
    """

    spare: int
    launch: tuple[Text, ...]
    commands: tuple[str, ...]
    memory: int | None
    directory: str
    space: int | None
    gpus: int
    interfaces: tuple[str, ...]
    suffix: str
    keep_out: int
    leave_out: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Cost:
    """Maximum cost of the job; `an_hour` is the cost of one hour of a run in the site's units."""

    node_hours: float
    units: float
    unit: str
    an_hour: float = 0.0


@record(frozen=True, slots=True, kw_only=True)
class RoleJob:
    """A role of a job with several programs: a job of its own, on nodes of a `component` of that job, or of the role `beside`."""

    name: str = saved(pattern=ROLE_NAME)
    plan: Plan
    needs: tuple[str, ...] = saved(default=(), pattern=ROLE_NAME)
    ready: Ready | None = None
    ends: bool = False
    restarts: int = 0
    beside: str | None = saved(default=None, pattern=ROLE_NAME)
    component: int | None = saved(default=None, minimum=0)


@record(frozen=True, slots=True, kw_only=True)
class RoleJobs:
    """The roles in the order of their nodes; `start`, `unset`: as those of a `PoolPlan`, for a program that finds a free port."""

    jobs: tuple[RoleJob, ...]
    start: tuple[Text, ...] = ()
    unset: tuple[str, ...] = saved(default=(), pattern=VARIABLE_NAME)


@record(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one job: pure data, with a lossless JSON form.

    `role`: the job is that role of another job. With `role_jobs` it runs these, and `roles` are those of the first that ends it.
    """

    version: int
    name: str
    framework: str
    site: str = saved(pattern=WORD)
    scheduler: str
    scheduler_version: str | None
    directory: str
    request: Request
    directives: tuple[Directive, ...]
    launch: LaunchPlan
    roles: tuple[RolePlan, ...]
    binding: Binding
    rendezvous: RendezvousPlan
    environment: EnvironmentPlan
    variables: tuple[Variable, ...]
    secrets: tuple[SecretPlan, ...] = ()
    data: tuple[DataPlan, ...] = ()
    stage_directory: Text | None = None
    stage_launch: tuple[Text, ...] = ()
    stage_keep: tuple[Text, ...] = ()
    stage_scope: Literal["node", "job"] = "node"
    stage_quota: Bytes | None = None
    stage_lines: tuple[str, ...] = saved(default=(), pattern=SCRIPT_LINE)
    results: ResultsPlan | None = None
    points: tuple[Point, ...] = ()
    pool: PoolPlan | None = None
    checkpoint: CheckpointPlan | None = None
    requeue: int = 0
    requeue_on: tuple[Cause, ...] = ()
    verify: Watch = "off"
    fabric_check: FabricCheck | None = None
    node_checks: NodeChecks | None = None
    hang: Duration | None = None
    usage: bool = False
    code: CodeMode | Snapshot = "off"
    caches: CachesPlan | None = None
    track: tuple[Variable, ...] = ()
    logs: Literal["rank", "node"] = "rank"
    failures: Mapping[str, FailurePattern] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()
    cost: Cost | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    global_batch: int | None = None
    role: str | None = saved(default=None, pattern=ROLE_NAME)
    role_jobs: RoleJobs | None = None
    gpu_share: GpuShare | None = None
    cpu_shares: tuple[CpuShare, ...] = ()

    @property
    def each_role(self) -> tuple[RoleJob, ...]:
        """The jobs of its roles; none without roles."""
        return self.role_jobs.jobs if self.role_jobs is not None else ()

    @property
    def programs(self) -> tuple[Plan, ...]:
        """The plans of the job's programs: its own, or those of its roles."""
        return (self,) if self.role_jobs is None else tuple(role.plan for role in self.each_role)
