"""The site profile: how one cluster is built, as its admins describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from dlrun.model.keys import BACK_END, PLAIN, VARIABLE_NAME, key
from dlrun.model.record import record
from dlrun.model.topology_short import ShortTopology
from dlrun.model.units import Bytes, Duration

Option = Literal[
    "account",
    "partition",
    "qos",
    "constraint",
    "walltime",
    "memory",
    "exclusive",
    "gpus",
    "reservation",
    "nodes",
    "array",
]
"""Parts of a resource request that a site may demand or refuse."""

Transport = Literal["ib", "roce", "efa", "cxi", "psm2", "psm3", "opx", "tcp"]
"""What a communication library can talk over."""


OVERRIDES = (
    "scheduler",
    "launcher",
    "fabric",
    "rendezvous",
    "storage",
    "environment",
    "gpu_binding",
    "billing",
    "node_checks",
)
"""Parts of a profile that a node type or a partition may give otherwise, under `overrides:`."""


@record(frozen=True, slots=True, kw_only=True)
class Source:
    """Where values of the profile come from."""

    covers: tuple[str, ...] = key(
        "keys (dotted paths) that this source is for; empty: the whole profile", default=()
    )
    cite: str = key("URL, or repository:path@commit, or who said so")
    date: str | None = key("when it was read (YYYY-MM or YYYY-MM-DD)", default=None)
    note: str | None = key("what is inferred rather than read", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Recognise:
    """How dlrun knows that it stands on this cluster."""

    cluster_name: str | None = key("Slurm's ClusterName", default=None)
    pbs_server: str | None = key("PBS server name", default=None)
    hosts: tuple[str, ...] = key("patterns of login host names", default=())


@record(frozen=True, slots=True, kw_only=True)
class Login:
    """The login node, for submission from elsewhere."""

    host: str = key("host name, as ssh knows it", pattern=PLAIN)
    transport: Literal["openssh", "paramiko"] = key("how to reach it", default="openssh")


@record(frozen=True, slots=True, kw_only=True)
class Account:
    """How the paying project is named."""

    option: str = key("the option as the scheduler spells it: --account, -A, -P, -W group_list", default="")
    pattern: str | None = key("regular expression that accounts here match", default=None)
    help: str | None = key("how a user finds theirs", default=None)


@record(frozen=True, slots=True, kw_only=True)
class SchedulerSite:
    """The scheduler and this site's dialect of it."""

    type: str = key("slurm, openpbs, torque or local", pattern=BACK_END)
    version: str | None = key("its version, such as 23.11", default=None)
    account: Account = key("how the paying project is named", factory=Account)
    required: tuple[Option, ...] = key("what every request must give", default=())
    forbidden: tuple[Option, ...] = key("what no request may give", default=())
    mandatory: Mapping[str, str] = key(
        "further options that a user must give under resources.options, with what they mean", factory=dict
    )
    directives: tuple[str, ...] = key(
        "directives of every job, as they stand after the prefix", default=(), pattern=PLAIN, lone="text"
    )
    arithmetic: Literal["per_node", "whole_job"] = key(
        "PBS: resources per chunk, or totals of the job", default="per_node"
    )
    gpus: Literal["gpus_per_node", "gres", "gpus_per_task", "ngpus", "none"] = key(
        "how GPUs are asked for; none: they come with the node", default="gpus_per_node"
    )
    gpu_type: str | None = key("type name in a GPU request (gpu:TYPE:n)", default=None)
    cpus: Literal["cores", "threads", "none"] = key(
        "what the scheduler counts as a CPU; none: never ask", default="cores"
    )
    memory: Literal["ask", "all", "none"] = key(
        "memory when the spec says auto: ask what the node type has, all (--mem=0), or never ask",
        default="none",
    )
    exclusive: bool = key("jobs get whole nodes", default=False)
    place: str = key("PBS: the place statement", default="scatter", pattern=PLAIN)
    start: Literal["submit_directory", "home"] = key("PBS: where jobs start", default="home")


@record(frozen=True, slots=True, kw_only=True)
class Billing:
    """What jobs cost: hours × what is counted × the factor."""

    unit: str = key("name of the unit, such as node-hours or GPU-hours", default="node-hours", pattern=PLAIN)
    per: Literal["node", "gpu", "core"] = key("what is counted", default="node")
    factor: float = key("units that one of these costs in an hour", default=1.0)


@record(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition or queue with its limits."""

    queue: str | None = key(
        "its name for the scheduler; default: this key; `-` means never name it", default=None
    )
    qos: str | None = key("QOS that goes with it", default=None)
    default: bool = key("used when the spec names none", default=False)
    node_type: str | None = key("node type of its nodes", default=None)
    constraint: str | None = key("constraint that goes with it", default=None)
    max_walltime: Duration | None = key("longest walltime", default=None)
    min_walltime: Duration | None = key("shortest walltime", default=None)
    default_walltime: Duration | None = key("walltime when none is given", default=None)
    min_nodes: int | None = key("fewest nodes of a job", default=None, minimum=1)
    max_nodes: int | None = key("most nodes of a job", default=None, minimum=1)
    max_node_hours: float | None = key("most nodes × walltime of a job, in node-hours", default=None)
    exclusive: bool | None = key("jobs get whole nodes here; default: the scheduler's rule", default=None)
    cpus_per_gpu: int | None = key("CPUs that must go with each GPU", default=None, minimum=1)
    billing: Billing | None = key("what jobs cost here; default: the site's rule", default=None)
    preemptable: bool = key("jobs here may be stopped for others", default=False)
    overrides: Mapping[str, Any] = key(
        "parts of the profile that differ in this partition, written as for the whole site: such as `fabric`, `storage`, "
        "`environment`; they win over those of the node type",
        factory=dict,
    )
    note: str | None = key("what users should know", default=None)


@record(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A kind of node."""

    count: int | None = key("how many there are", default=None, minimum=1)
    memory: Bytes | None = key("memory that jobs can use", default=None)
    topology: ShortTopology | None = key("packages, cores, GPUs and NICs by numbers", default=None)
    capture: str | None = key(
        "file beside the profile that says what a node is made of: `tune-affinity --capture`, the facts that "
        "`site detect --probe` wrote, `lstopo` XML, `lscpu -p`, or a copy of /sys and /proc",
        default=None,
    )
    constraint: str | None = key("constraint that selects these nodes", default=None)
    overrides: Mapping[str, Any] = key(
        "parts of the profile that differ on these nodes, written as for the whole site: such as `fabric`, `storage`, "
        "`environment`",
        factory=dict,
    )
    note: str | None = key("what users should know", default=None)


@record(frozen=True, slots=True, kw_only=True)
class LauncherSite:
    """How ranks start here."""

    name: str = key("srun, openmpi, hydra, intelmpi, pals, ibrun, ssh or local", pattern=BACK_END)
    program: str | None = key("program name, where it is not the usual one", default=None)
    arguments: tuple[str, ...] = key("arguments of every launch", default=(), lone="never")
    mpi: str | None = key("srun --mpi=", default=None)


@record(frozen=True, slots=True, kw_only=True)
class FabricSite:
    """The network that ranks talk over."""

    name: str = key("infiniband, omni-path, slingshot, roce, efa or ethernet", pattern=BACK_END)
    generation: str | None = key("its product name", default=None)
    interfaces: tuple[str, ...] = key("IP interface names on compute nodes, fastest first", default=())
    versions: Mapping[str, str] = key("library versions that matter, such as nccl: 2.21", factory=dict)
    libraries: tuple[str, ...] = key(
        "libraries present here that settings depend on, such as aws-ofi-nccl or cray-mpich", default=()
    )
    settings: Mapping[str, str] = key(
        "fabric variables that this site sets", factory=dict, names=VARIABLE_NAME
    )
    multi_node: Mapping[str, str] = key(
        "fabric variables that this site sets in jobs of several nodes only",
        factory=dict,
        names=VARIABLE_NAME,
    )
    drop: tuple[str, ...] = key("fabric variables never to set here", default=())
    expect: tuple[Transport, ...] = key(
        "transports that libraries choose here when all is well; default: by the fabric's name", default=()
    )
    advice: str | None = key("what users should do when a library falls back to another", default=None)


@record(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """The address at which ranks meet: rank 0's node, by this site's rule."""

    address: Literal["hostname", "fqdn", "ip", "interface", "loopback"] = key(
        "hostname: as the scheduler names the first node; fqdn; ip: `hostname -i`; interface: the address "
        "of `interface`; loopback: one machine only",
        default="hostname",
    )
    suffix: str = key("appended to the host name", default="", pattern=r"[A-Za-z0-9.-]*")
    interface: str | None = key("interface whose address is used", default=None, pattern=r"[A-Za-z0-9_.:-]+")
    ports: tuple[int, int] = key("first and last port to use", default=(20000, 29999))


SCRIPT_LINE = r"#(?!SBATCH|PBS)[A-Za-z]+ [^\x00-\x1f\x7f]+"
"""A line of a job script that another program than the scheduler's own parser reads."""


@record(frozen=True, slots=True, kw_only=True)
class NodeLocal:
    """Fast storage on each node, or one that a job's nodes share while it runs."""

    path: str = key("its path; `$NAME` expands on the node", pattern=PLAIN)
    size: Bytes | None = key("space that a job can use", default=None)
    kind: Literal["ssd", "disk", "memory"] = key("what it is", default="ssd")
    quota: Bytes | None = key(
        "what all data sets of a user may fill on a node, also those kept for later jobs; unused longest goes first",
        default=None,
    )
    scope: Literal["node", "job"] = key(
        "node: each node has its own; job: one file system that all nodes of a job share, and no other job, such as BeeOND "
        "or a burst buffer",
        default="node",
    )
    request: str | None = key(
        "directive that asks for it, as it stands after the prefix; `{gb}` in it is `resources.node_local` in GB, of all "
        "nodes together where they share it",
        default=None,
        pattern=PLAIN,
    )
    lines: tuple[str, ...] = key(
        "lines of the job script that ask for it and are no directives of the scheduler, such as "
        "`#DW jobdw type=scratch access_mode=striped capacity={gb}GB`",
        default=(),
        pattern=SCRIPT_LINE,
        expected="one line that begins with `#` and a word that is not the scheduler's own prefix",
        lone="text",
    )


@record(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where data can lie."""

    node_local: NodeLocal | None = key("fast storage on each node", default=None)
    shared: tuple[str, ...] = key("mount points that every node sees", default=())
    REMOVED: ClassVar[Mapping[str, str]] = {
        "mover": "delete it: dlrun itself copies data from node to node, with one read of the source"
    }


@record(frozen=True, slots=True, kw_only=True)
class SiteEnvironment:
    """What every job's environment needs here."""

    setup: tuple[str, ...] = key(
        "shell lines before modules are loaded, as they stand", default=(), lone="text"
    )
    modules: tuple[str, ...] = key("modules of every job", default=())
    hygiene: Literal["keep", "reset", "purge"] = key("what to do with modules already loaded", default="keep")
    variables: Mapping[str, str] = key(
        "environment variables of every job", factory=dict, names=VARIABLE_NAME
    )


@record(frozen=True, slots=True, kw_only=True)
class GpuBinding:
    """Which GPUs a rank sees."""

    policy: Literal["visible", "all", "scheduler"] = key(
        "visible: dlrun sets the visible devices of each rank; all: every rank sees all; "
        "scheduler: it isolates them",
        default="all",
    )
    variable: str | None = key("visibility variable; default: by the GPUs' kind", default=None)


@record(frozen=True, slots=True, kw_only=True)
class FailurePattern:
    """What a failure that is known here looks like in a log."""

    pattern: str = key(
        "regular expression over one line; `{1}` in the texts is its first group", pattern=PLAIN
    )
    means: str = key("what it means, in one sentence", pattern=PLAIN)
    next: str = key("what users should do", pattern=PLAIN)
    consequence: bool = key("believe it only where no log shows another cause", default=False)


@record(frozen=True, slots=True, kw_only=True)
class Site:
    """A site profile: one cluster as its admins describe it. Unknown stays out of the file."""

    name: str = key("name of the site, as `--site` takes it", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*")
    title: str | None = key("its proper name", default=None)
    centre: str | None = key("who runs it", default=None)
    status: Literal["production", "retired", "generic"] = key(
        "production, retired, or generic (a starting point)", default="production"
    )
    confidence: Literal["high", "medium", "low"] | None = key(
        "how well the profile is known to be right", default=None
    )
    note: str | None = key("what users should know", default=None)
    extends: str | None = key("profile that this one is built on", default=None, pattern=PLAIN)
    sources: tuple[Source, ...] = key("where the values come from", default=())
    recognise: Recognise = key("how to know this cluster", factory=Recognise)
    login: Login | None = key("the login node", default=None)
    scheduler: SchedulerSite = key("the scheduler and its dialect here")
    launcher: LauncherSite = key("how ranks start")
    partitions: Mapping[str, Partition] = key("partitions, by the name that specs use", factory=dict)
    node_types: Mapping[str, NodeType] = key("kinds of node, by name", factory=dict)
    fabric: FabricSite | None = key("the network between nodes", default=None)
    rendezvous: Rendezvous = key("the address at which ranks meet", factory=Rendezvous)
    storage: Storage = key("where data can lie", factory=Storage)
    environment: SiteEnvironment = key("what every job's environment needs", factory=SiteEnvironment)
    gpu_binding: GpuBinding = key("which GPUs a rank sees", factory=GpuBinding)
    billing: Billing = key("what jobs cost", factory=Billing)
    node_checks: tuple[str, ...] = key(
        "shell lines that tell a bad node, where `spare_nodes` are asked for: an exit code other than 0, and why as the "
        "last line of output",
        default=(),
        lone="text",
    )
    bad_nodes_for: Duration = key(
        "how long a node that failed its checks is left out of a job's further runs", default=Duration(86400)
    )
    failures: Mapping[str, FailurePattern] = key(
        "failures that are known here, by a short name: `dlrun why` looks for them before those it knows itself",
        factory=dict,
        names=r"[a-z][a-z0-9-]*",
    )
    defaults: Mapping[str, Any] = key("spec keys with this site's defaults", factory=dict)
