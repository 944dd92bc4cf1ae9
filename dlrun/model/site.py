"""The site profile: the description of one cluster by its admins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from dlrun.model.data import Storage
from dlrun.model.keys import BACK_END, PLAIN, VARIABLE_NAME, key
from dlrun.model.record import record
from dlrun.model.topology_short import ShortTopology
from dlrun.model.units import Bytes, Duration

Option = Literal[
    "account", "partition", "qos", "constraint", "walltime", "memory", "exclusive", "gpus", "reservation", "nodes", "hosts",
    "array",
]  # fmt: skip
"""Parts of a resource request that a site may require or forbid."""

Transport = Literal["ib", "roce", "efa", "cxi", "psm2", "psm3", "opx", "tcp"]
"""Transports of communication libraries."""

Unstated = Literal[
    "scheduler.version", "node_types", "partitions", "fabric", "recognise", "fabric.interfaces", "storage.node_local",
    "storage.shared", "node_types.topology", "node_types.topology.gpus.numa", "node_types.topology.nics", "node_types.memory",
    "node_types.count", "partitions.max_walltime",
]  # fmt: skip
"""Keys that a complete profile has; those of node types and partitions without their names."""

OVERRIDES = (
    "scheduler", "launcher", "fabric", "rendezvous", "storage", "environment", "gpu_binding", "billing", "node_checks",
)  # fmt: skip
"""Parts of a profile that a node type or partition can override, under `overrides:`."""


GpuRequest: TypeAlias = Literal["gpus_per_node", "gres", "gpus_per_task", "ngpus", "none"]
"""Forms of a GPU request in the schedulers."""


@record(frozen=True, slots=True, kw_only=True)
class Citation:
    """The source of values of the profile."""

    covers: tuple[str, ...] = key(
        "keys (dotted paths) that this source covers; empty: the whole profile", default=()
    )
    cite: str = key("URL, repository:path@commit, or person")
    date: str | None = key("date of access (YYYY-MM or YYYY-MM-DD)", default=None)
    note: str | None = key("what is inferred and not stated by the source", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Recognise:
    """How dlrun recognises that it runs on this cluster: any of these."""

    cluster_name: str | None = key("Slurm's ClusterName", default=None)
    pbs_server: tuple[str, ...] = key("PBS server, or several", default=(), single="text")
    hosts: tuple[str, ...] = key(
        "patterns of login host names, such as `login*.frontier*`; each is compared with the short and the full name",
        default=(),
    )
    environment: Mapping[str, str] = key(
        "variables with these values in login shells of this cluster only, such as `NERSC_HOST: perlmutter`",
        factory=dict,
        names=VARIABLE_NAME,
    )


@record(frozen=True, slots=True, kw_only=True)
class Login:
    """The login node, for submission from elsewhere."""

    host: str = key("host name or alias, as in `ssh HOST`", pattern=PLAIN)
    transport: Literal["openssh", "paramiko"] = key("ssh implementation to use", default="openssh")


@record(frozen=True, slots=True, kw_only=True)
class Account:
    """How the account (project) to charge is given."""

    option: str = key("scheduler option: --account, -A, -P, -W group_list", default="")
    pattern: str | None = key("regular expression that valid account names match", default=None)
    help: str | None = key("text that explains to users how to find their accounts", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Complexes:
    """Complexes of a Grid Engine cell for GPUs, memory and nodes, by their names in `qconf -sc`."""

    nodes: str | None = key("nodes that jobs ask for by number (`-l node_f=2`)", default=None, pattern=PLAIN)
    gpu: str | None = key("GPUs", default=None, pattern=PLAIN)
    memory: str | None = key("memory, such as h_vmem", default=None, pattern=PLAIN)
    exclusive: str | None = key("whole nodes", default=None, pattern=PLAIN)
    gpus_counted: Literal["slot", "host"] = key("GPUs are counted per slot, or per host", default="slot")
    memory_counted: Literal["slot", "host"] = key("memory is counted per slot, or per host", default="slot")


@record(frozen=True, slots=True, kw_only=True)
class SchedulerSite:
    """The scheduler and its configuration at this site."""

    type: str = key("slurm, openpbs, torque, flux, gridengine or local", pattern=BACK_END)
    version: str | None = key("version, such as 23.11", default=None)
    account: Account = key("how the account to charge is given", factory=Account)
    required: tuple[Option, ...] = key("options that every job must set", default=())
    forbidden: tuple[Option, ...] = key(
        "options that no job may set, neither in `resources` nor as scheduler options", default=()
    )
    forbidden_options: tuple[str, ...] = key(
        "other options that no job may set, by name", default=(), pattern=PLAIN
    )
    mandatory: Mapping[str, str] = key(
        "other options that users must set under `resources.options`, each with its meaning", factory=dict
    )
    directives: tuple[str, ...] = key(
        "directives of every job, as written after `#SBATCH`, `#PBS`, `#$` or `# flux:`",
        default=(),
        pattern=PLAIN,
        single="text",
    )
    arithmetic: Literal["per_node", "whole_job"] = key(
        "PBS: resources are requested per chunk, or as totals of the job", default="per_node"
    )
    gpus: GpuRequest = key("how GPUs are requested; none: they are allocated with the node", default="gpus_per_node")  # fmt: skip
    gpu_type: str | None = key("type name in a GPU request (gpu:TYPE:n)", default=None)
    gpu_types: Mapping[str, str] = key(
        "PBS, Grid Engine, Flux: type of GPUs or MIG slice -> the constraint for it, such as `a100: gpu_type=a100`", factory=dict
    )  # fmt: skip
    cpus: Literal["cores", "threads", "none"] = key(
        "what the scheduler counts as a CPU; none: do not request CPUs", default="cores"
    )
    memory: Literal["ask", "all", "none"] = key(
        "memory request if the spec has `auto`; ask: the node type's memory; all: the whole node (--mem=0); none: no request",
        default="none",
    )
    exclusive: bool = key("jobs are allocated whole nodes", default=False)
    place: str = key("PBS: the `place` statement", default="scatter", pattern=PLAIN)
    parallel_environment: str | None = key(
        "Grid Engine: the parallel environment; `{slots}` in it stands for the slots of a node", default=None, pattern=PLAIN
    )  # fmt: skip
    complexes: Complexes = key("Grid Engine: complexes for GPUs, memory and whole nodes", factory=Complexes)
    start: Literal["submit_directory", "home"] = key("PBS: working directory of job scripts", default="home")


@record(frozen=True, slots=True, kw_only=True)
class Billing:
    """What jobs cost: hours × nodes, GPUs or cores × the factor."""

    unit: str = key("name of the unit, such as node-hours or GPU-hours", default="node-hours", pattern=PLAIN)
    per: Literal["node", "gpu", "core"] = key("what is counted", default="node")
    factor: float = key("units charged per hour for one of these", default=1.0)


@record(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a job may request of a partition or with a QOS, and who."""

    max_walltime: Duration | None = key("longest walltime", default=None)
    min_walltime: Duration | None = key("shortest walltime", default=None)
    min_nodes: int | None = key("minimum number of nodes of a job", default=None, minimum=1)
    max_nodes: int | None = key("maximum number of nodes of a job", default=None, minimum=1)
    max_node_hours: float | None = key("maximum of nodes × walltime of a job, in node-hours", default=None)
    min_gpus: int | None = key("minimum number of GPUs of a job", default=None, minimum=0)
    max_gpus: int | None = key("maximum number of GPUs of a job", default=None, minimum=0)
    min_cores: int | None = key("minimum number of cores of a job", default=None, minimum=1)
    max_cores: int | None = key("maximum number of cores of a job", default=None, minimum=1)
    max_memory: Bytes | None = key("maximum memory request on each node", default=None)
    max_jobs: int | None = key(
        "maximum number of queued jobs of a user; each run of a sweep counts", default=None, minimum=1
    )
    accounts: str | None = key("regular expression that the accounts match that may use it", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Partition(Limits):
    """A partition or queue with its limits."""

    queue: str | None = key(
        "name in the scheduler, or NAME@SERVER (PBS); default: this key; `-`: request none", default=None
    )
    qos: str | None = key("QOS to request with it", default=None)
    default: bool = key("default partition of specs that name none", default=False)
    node_type: str | None = key("node type", default=None)
    constraint: str | None = key("constraint to request with it", default=None)
    default_walltime: Duration | None = key("walltime of jobs that request none", default=None)
    exclusive: bool | None = key(
        "jobs are allocated whole nodes; default: `scheduler.exclusive`", default=None
    )
    cpus_per_gpu: int | None = key("cores that must be requested with each GPU", default=None, minimum=1)
    billing: Billing | None = key("billing; default: the site's", default=None)
    preemptable: bool = key("jobs can be preempted", default=False)
    overrides: Mapping[str, Any] = key(
        "parts of the profile that differ in this partition, such as `fabric`, `storage` or `environment`, in the same form; "
        "they win over those of the node type",
        factory=dict,
    )
    note: str | None = key("note for users", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Qos(Limits):
    """A QOS with its limits, which hold besides those of the partition."""

    default: bool = key("QOS of jobs that name none", default=False)
    partitions: tuple[str, ...] = key("partitions in which it is valid; default: all", default=())


@record(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A kind of node."""

    count: int | None = key("number of nodes", default=None, minimum=1)
    memory: Bytes | None = key("memory available to jobs", default=None)
    topology: ShortTopology | None = key("packages, cores, GPUs and NICs in numbers", default=None)
    gpus: int | None = key(
        "GPUs of a node whose cores are not known (no `topology`)", default=None, minimum=1
    )
    capture: str | None = key(
        "file next to the profile with the node's topology: written by `tune-affinity --capture` or `site detect --probe`, "
        "`lstopo` XML, `lscpu -p`, or a copy of /sys and /proc",
        default=None,
    )
    constraint: str | None = key("constraint that selects these nodes", default=None)
    overrides: Mapping[str, Any] = key(
        "parts of the profile that differ on these nodes, such as `fabric`, `storage` or `environment`, in the same form",
        factory=dict,
    )
    note: str | None = key("note for users", default=None)


@record(frozen=True, slots=True, kw_only=True)
class LauncherSite:
    """How ranks are started."""

    name: str = key("srun, openmpi, hydra, intelmpi, pals, ibrun, flux, qrsh, ssh or local", pattern=BACK_END)
    program: str | None = key("program, if not the launcher's usual one", default=None)
    arguments: tuple[str, ...] = key("additional arguments of every launch", default=(), single="never")
    mpi: str | None = key("value of `srun --mpi=`", default=None)


@record(frozen=True, slots=True, kw_only=True)
class FabricSite:
    """The network between nodes."""

    name: str = key("infiniband, omni-path, slingshot, roce, efa or ethernet", pattern=BACK_END)
    generation: str | None = key("product and speed, which `dlrun plan` shows", default=None)
    interfaces: tuple[str, ...] = key("IP interfaces on compute nodes, fastest first", default=())
    versions: Mapping[str, str] = key("versions of libraries, such as nccl: 2.21, for settings", factory=dict)
    libraries: tuple[str, ...] = key(
        "installed libraries that settings depend on, such as aws-ofi-nccl or cray-mpich", default=()
    )
    in_force: tuple[str, ...] = key(
        "driver options that are set for every job, such as disable_rdzv_get; some settings require one",
        default=(),
    )
    settings: Mapping[str, str] = key("fabric variables to set", factory=dict, names=VARIABLE_NAME)
    multi_node: Mapping[str, str] = key(
        "fabric variables to set only in jobs of several nodes",
        factory=dict,
        names=VARIABLE_NAME,
    )
    drop: tuple[str, ...] = key("fabric variables that dlrun must not set", default=())
    when_set: Literal["replace", "keep"] = key(
        "action if a module has already set a fabric variable: replace its value, or keep it",
        default="replace",
    )
    expect: tuple[Transport, ...] = key(
        "transports that libraries should select; default: by the fabric's name", default=()
    )
    advice: str | None = key("advice for users if a library falls back to another transport", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Rendezvous of the ranks: how the address of rank 0's node is found, and the range of ports."""

    address: Literal["hostname", "fqdn", "ip", "interface", "loopback"] = key(
        "hostname: the first node's name in the scheduler; fqdn; ip: `hostname -i`; interface: the address "
        "of `interface`; loopback: single-node jobs only",
        default="hostname",
    )
    suffix: str = key("appended to the host name", default="", pattern=r"[A-Za-z0-9.-]*")
    interface: str | None = key("interface whose address is used", default=None, pattern=r"[A-Za-z0-9_.:-]+")
    ports: tuple[int, int] = key("first and last port of the range", default=(20000, 29999))


@record(frozen=True, slots=True, kw_only=True)
class SiteEnvironment:
    """The environment of every job at this site."""

    setup: tuple[str, ...] = key(
        "shell lines to run before modules are loaded, copied unchanged", default=(), single="text"
    )
    modules: tuple[str, ...] = key("modules to load in every job", default=())
    hygiene: Literal["keep", "reset", "purge"] = key(
        "modules that are already loaded: keep, reset (`module reset`) or purge", default="keep"
    )
    variables: Mapping[str, str] = key(
        "environment variables to set in every job", factory=dict, names=VARIABLE_NAME
    )


@record(frozen=True, slots=True, kw_only=True)
class GpuBinding:
    """Which GPUs are visible to a rank."""

    policy: Literal["visible", "all", "scheduler"] = key(
        "visible: dlrun sets the visible devices of each rank; all: every rank sees all GPUs; "
        "scheduler: the scheduler isolates them",
        default="all",
    )
    variable: str | None = key(
        "variable for visible devices; default: by the kind of GPU", default=None, pattern=VARIABLE_NAME,
        expected="the name of a variable",
    )  # fmt: skip
    mps: bool = key("users may start NVIDIA's MPS on the nodes of their jobs", default=False)


@record(frozen=True, slots=True, kw_only=True)
class FailurePattern:
    """A failure known at this site, recognised by a log line."""

    pattern: str = key(
        "regular expression for one line; `{1}` in the texts is its first group", pattern=PLAIN
    )
    means: str = key("cause, in one sentence", pattern=PLAIN)
    next: str = key("advice for users", pattern=PLAIN)
    consequence: bool = key("a symptom: reported only if no log shows another cause", default=False)


@record(frozen=True, slots=True, kw_only=True)
class Site:
    """A site profile: the description of one cluster by its admins. What is unknown is left out."""

    name: str = key("name of the site for `--site`", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*")
    title: str | None = key("full name", default=None)
    centre: str | None = key("computing centre that operates it", default=None)
    status: Literal["production", "retired", "generic"] = key(
        "production, retired, or generic (a starting point)", default="production"
    )
    confidence: Literal["high", "medium", "low"] | None = key("how certain the values are", default=None)
    note: str | None = key("note for users", default=None)
    extends: str | None = key(
        "profile whose values this one inherits and overrides; not its numbers of nodes",
        default=None,
        pattern=PLAIN,
    )
    sources: tuple[Citation, ...] = key("sources of the values", default=())
    unknown: tuple[Unstated, ...] = key(
        "keys whose values none of the sources state: `site check` does not ask for them", default=()
    )
    recognise: Recognise = key("how dlrun recognises this cluster", factory=Recognise)
    login: Login | None = key("the login node", default=None)
    scheduler: SchedulerSite = key("the scheduler and its configuration")
    launcher: LauncherSite = key("how ranks are started")
    partitions: Mapping[str, Partition] = key("partitions, by their name in specs", factory=dict)
    qos: Mapping[str, Qos] = key("QOS with their limits, by name", factory=dict)
    node_types: Mapping[str, NodeType] = key("node types, by name", factory=dict)
    fabric: FabricSite | None = key("the network between nodes", default=None)
    internet: bool | None = key(
        "compute nodes reach the internet; if not, `track` works offline", default=None
    )
    rendezvous: Rendezvous = key("rendezvous address and ports of the ranks", factory=Rendezvous)
    storage: Storage = key("node-local and shared storage", factory=Storage)
    environment: SiteEnvironment = key(
        "modules, variables and shell setup of every job", factory=SiteEnvironment
    )
    python: str | None = key(
        "Python of the nodes, 3.6 or later, that runs dlrun's own programs there; default: the system's `python3`, else the "
        "first one on PATH before or after modules are loaded",
        default=None,
        pattern=PLAIN,
    )
    gpu_binding: GpuBinding = key("which GPUs are visible to a rank", factory=GpuBinding)
    billing: Billing = key("what jobs cost", factory=Billing)
    node_checks: tuple[str, ...] = key(
        "shell lines that detect a bad node in jobs with `spare_nodes`: on such a node they exit with a code other than 0 and "
        "print the reason as their last line",
        default=(),
        single="text",
    )
    bad_nodes_for: Duration = key(
        "time for which a node that failed its checks is excluded from a job's later runs",
        default=Duration(86400),
    )
    failures: Mapping[str, FailurePattern] = key(
        "known failures, by a short name: `dlrun why` tries them before its own patterns",
        factory=dict,
        names=r"[a-z][a-z0-9-]*",
    )
    defaults: Mapping[str, Any] = key("default values for keys of specs", factory=dict)
