"""The placement of a node's ranks (cores, memory, GPUs, NIC), and the request for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.keys import PLAIN, VARIABLE_NAME, key, saved
from dlrun.model.record import record
from dlrun.model.text import Text, digits
from dlrun.model.topology import Core, Topology

CommPolicy: TypeAlias = Literal["own", "spread"]
Smt: TypeAlias = Literal["one", "all"]
RankOrder: TypeAlias = Literal["gpu", "numa"]
MemoryPolicy: TypeAlias = Literal["strict", "preferred", "none"]
Locality: TypeAlias = Literal["auto", "strict", "balance"]
L3Borders: TypeAlias = Literal["free", "strict"]

VERSION = 1
"""Version of the placement's JSON; keys are added, never removed, within one version."""


@record(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """CPU, memory and GPU binding of ranks; the defaults suit synchronous data-parallel training."""

    bind: Literal["auto", "plan", "job", "scheduler", "none"] = key(
        "what binds the ranks: plan (the table in the plan), job (equal shares of the granted cores), "
        "scheduler, or none; auto: plan on whole nodes of known topology, else job",
        default="auto",
    )
    threads: int | Literal["auto"] = key(
        "compute threads of each rank (OMP_NUM_THREADS); auto: one per compute core",
        default="auto",
        minimum=1,
    )
    comm_cores: int | Literal["auto"] = key(
        "cores of each rank reserved for communication threads; auto: as many as the framework needs",
        default="auto",
        minimum=0,
    )
    loader_cores: int = key("cores of each rank reserved for data-loading processes", default=0, minimum=0)
    comm_policy: Literal["own", "spread"] = key(
        "own: communication cores in the rank's own package; spread: distributed over all packages",
        default="own",
    )
    smt: Literal["one", "all"] = key("hardware threads of each core to use: one or all", default="one")
    rank_order: Literal["gpu", "numa"] = key(
        "order of local ranks: by GPU index or by NUMA node", default="gpu"
    )
    memory: Literal["strict", "preferred", "none"] = key(
        "NUMA memory policy of each rank", default="preferred"
    )
    reserve: str = key(
        "cores to leave idle in addition to those the site reserves: a CPU list, `first-core-per-l3` or `N-per-node`",
        default="none",
        pattern=r"none|first-core-per-l3|[0-9]+-per-node|[0-9]+(-[0-9]+)?(:[0-9]+)?(,[0-9]+(-[0-9]+)?(:[0-9]+)?)*",
        expected="a CPU list such as `0,64-71`, `first-core-per-l3`, `N-per-node` or `none`",
    )
    locality: Literal["auto", "strict", "balance"] = key(
        "auto: ranks stay within the NUMA nodes of their GPUs, and use the rest of their packages, then the whole node, where "
        "cores are too few or more than a quarter would be idle; strict: only cores local to the GPU, even if others stay "
        "idle; balance: all cores are used, some of them further from the rank's GPU",
        default="auto",
    )
    l3_borders: Literal["free", "strict"] = key(
        "free: a rank may span two last-level caches where that gives every rank one more core; strict: never, where "
        "whole caches can be assigned",
        default="free",
    )
    oversubscribe: bool = key("allow ranks to share cores if there are fewer cores than ranks", default=False)


@record(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Cores reserved from ranks: those of the PUs `cpus`, the first `per_l3` of each L3 group, and the first `per_node` of the
    node (alternating between packages)."""

    cpus: tuple[int, ...] = ()
    per_l3: int = 0
    per_node: int = 0

    @classmethod
    def parse(cls, text: str) -> Reserve:
        """Read `none`, a CPU list such as `0,8,16-18`, `first-core-per-l3` or `N-per-node`.

        Raises ValueError for anything else.
        """
        words = text.strip()
        if words in ("", "none"):
            return cls()
        if words == "first-core-per-l3":
            return cls(per_l3=1)
        number, _, rest = words.partition("-")
        if rest == "per-node" and digits(number):
            return cls(per_node=int(number))
        try:
            return cls(cpus=parse_list(words))
        except ValueError:
            raise ValueError(
                f"`{text}` is neither a CPU list, `first-core-per-l3` nor `N-per-node`"
            ) from None

    def pus(self, topology: Topology) -> tuple[int, ...]:
        """The reserved PUs of a node, ascending; always whole cores."""
        l3s, packages = Counter[int](), Counter[int]()
        in_turn: list[tuple[int, int, Core]] = []
        taken = list(topology.cores_of(self.cpus))
        for core in sorted(topology.cores, key=lambda c: (c.package, c.die, c.core_id, c.pus)):
            if l3s[core.l3] < self.per_l3:
                taken.append(core)
            in_turn.append((packages[core.package], core.package, core))
            l3s[core.l3] += 1
            packages[core.package] += 1
        first = sorted(in_turn, key=lambda item: item[:2])[: self.per_node]
        taken += [core for _, _, core in first]
        return tuple(sorted({pu for core in taken for pu in core.pus}))


@record(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What to place on a node, and how.

    Most fields are keys of `PlacementOptions`. `comm_cores` and `loader_cores` are per rank. `gpus_per_rank`: None divides
    all GPUs of the node, 0 is a CPU job. `shares_gpus`: more ranks than GPUs are wanted. `server`: the one rank of the node
    cannot be replaced by several with a part of it each.
    """

    ranks_per_node: int
    comm_cores: int = 0
    loader_cores: int = 0
    comm_policy: CommPolicy = "own"
    smt: Smt = "one"
    reserve: Reserve = Reserve()
    rank_order: RankOrder = "gpu"
    membind: MemoryPolicy = "strict"
    gpus_per_rank: int | None = None
    shares_gpus: bool = False
    server: bool = False
    locality: Locality = "auto"
    l3_borders: L3Borders = "free"
    oversubscribe: bool = False


@record(frozen=True, slots=True, kw_only=True)
class MemoryBinding:
    """Memory policy of a rank (`MPOL_BIND`, `MPOL_PREFERRED`, or the kernel's default) and its nodes."""

    policy: MemoryPolicy = "none"
    nodes: tuple[int, ...] = ()

    def numactl(self) -> str:
        """The numactl option for this policy; empty for the kernel's default."""
        if self.policy == "none" or not self.nodes:
            return ""
        if self.policy == "strict":
            return f"--membind={format_list(self.nodes)}"
        # `--preferred` takes a single node; `--preferred-many` needs numactl 2.0.15 and Linux 5.15.
        return f"--preferred{'-many' if len(self.nodes) > 1 else ''}={format_list(self.nodes)}"


@record(frozen=True, slots=True, kw_only=True)
class RankPlacement:
    """The placement of one local rank; all numbers are operating-system ids.

    `cores`: first PU of each compute core, ascending. `mask`: all PUs of those cores, ascending. `comm`: first PU of
    each communication core (its other PUs in `comm_siblings`, one tuple a core), `loader` likewise for
    data-loading threads, `spare`: cores that no rank uses. `gpus` are device indexes, `nic` a name.
    """

    rank: int
    threads: int
    cores: tuple[int, ...]
    mask: tuple[int, ...]
    comm: tuple[int, ...] = ()
    comm_siblings: tuple[tuple[int, ...], ...] = ()
    loader: tuple[int, ...] = ()
    numa: tuple[int, ...] = ()
    memory: MemoryBinding = MemoryBinding()
    gpus: tuple[int, ...] = ()
    nic: str | None = None
    spare: tuple[int, ...] = ()

    def background_cpu(self, *, shared: bool) -> int:
        """The PU of a background communication thread: the first communication core, or with `shared` (a library's worker uses
        it) another hardware thread of that core. Raises IndexError without a communication core."""
        siblings = self.comm_siblings[0] if self.comm_siblings else ()
        return siblings[0] if shared and siblings else self.comm[0]


@record(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """The node of a placement in numbers; `gpu_kind` determines the variable for visible GPUs.

    `gpu_cpus` are the lists of hardware threads next to each GPU, by index; empty where they are unknown. `kept_free` is the list
    of those that no rank may have, whatever is granted: reserved, isolated, or left out of the node's description.
    """

    name: str = ""
    packages: int = 1
    numa_nodes: int = 1
    cores: int = 1
    pus: int = 1
    usable_cores: int = 1
    gpus: int = 0
    gpu_kind: str = ""
    nics: tuple[str, ...] = ()
    gpu_cpus: tuple[str, ...] = ()
    kept_free: str = ""


@record(frozen=True, slots=True, kw_only=True)
class AppliedRule:
    """A rule that was applied: its name, and its effect with numbers."""

    rule: str
    because: str


@record(frozen=True, slots=True, kw_only=True)
class Placement:
    """The ranks of one node with their resources, warnings, and the rules that were applied."""

    node: NodeSummary
    ranks: tuple[RankPlacement, ...]
    warnings: tuple[str, ...] = ()
    steps: tuple[AppliedRule, ...] = ()

    def cpus(self) -> tuple[int, ...]:
        """The hardware threads of all ranks, ascending."""
        return tuple(sorted({cpu for r in self.ranks for cpu in (*r.mask, *r.comm, *r.loader)}))

    def to_json(self) -> dict[str, Any]:
        """As plain data, without `steps`, which follow from topology and request."""
        node = {
            "name": self.node.name,
            "packages": self.node.packages,
            "numa_nodes": self.node.numa_nodes,
            "cores": self.node.cores,
            "pus": self.node.pus,
            "usable_cores": self.node.usable_cores,
            "gpus": self.node.gpus,
            "gpu_kind": self.node.gpu_kind,
            "nics": list(self.node.nics),
            "gpu_cpus": list(self.node.gpu_cpus),
            "kept_free": self.node.kept_free,
        }
        ranks = [_rank_to_json(rank) for rank in self.ranks]
        return {"version": VERSION, "node": node, "ranks": ranks, "warnings": list(self.warnings)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        """Read `to_json`'s data; raises ValueError, KeyError or TypeError for data of another shape."""
        if data["version"] != VERSION:
            raise ValueError(f"placement version {data['version']} is not {VERSION}")
        lists = {name: tuple(data["node"].get(name, ())) for name in ("nics", "gpu_cpus")}
        return cls(
            node=NodeSummary(**{**data["node"], **lists}),
            ranks=tuple(_rank_from_json(rank) for rank in data["ranks"]),
            warnings=tuple(data["warnings"]),
        )


def _rank_to_json(rank: RankPlacement) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "threads": rank.threads,
        "cores": list(rank.cores),
        "mask": list(rank.mask),
        "comm": list(rank.comm),
        "numa": list(rank.numa),
        "gpus": list(rank.gpus),
        "nic": rank.nic,
        "spare": list(rank.spare),
        "comm_siblings": [list(siblings) for siblings in rank.comm_siblings],
        "loader": list(rank.loader),
        "memory": {"policy": rank.memory.policy, "nodes": list(rank.memory.nodes)},
    }


def _rank_from_json(data: Mapping[str, Any]) -> RankPlacement:
    memory = MemoryBinding(policy=data["memory"]["policy"], nodes=tuple(data["memory"]["nodes"]))
    siblings = tuple(tuple(pus) for pus in data["comm_siblings"])
    lists: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    lists |= {"memory": memory, "comm_siblings": siblings}
    return RankPlacement(**lists)


OpenMP: TypeAlias = Literal["gomp", "gomp-old", "iomp", "iomp-list", "none"]
"""OpenMP runtime and method of binding single threads: libgomp; libgomp without `OMP_PLACES` (GCC 4.8 and older); libiomp5 in
its own order of the cores; libiomp5 by a list of CPUs; or none."""
CommLibrary: TypeAlias = Literal["none", "mlsl", "ccl", "horovod", "horovod-ccl"]


@record(frozen=True, slots=True, kw_only=True)
class Preset:
    """Placement needs of a framework: its OpenMP runtime, communication library and default number of communication cores per
    rank, whether its own thread pools replace OpenMP or share its cores, and the reason."""

    openmp: OpenMP = "gomp"
    library: CommLibrary = "none"
    comm_cores: int = 0
    thread_pools: bool = False
    shares_cores: bool = False
    because: str = ""


@record(frozen=True, slots=True, kw_only=True)
class GpuShare:
    """The GPUs of a role that shares its nodes: `variable` shows them to it, by `indexes`; `order`: name and value of another
    that numbers GPUs as the plan does."""

    variable: str = saved(pattern=VARIABLE_NAME)
    indexes: tuple[int, ...] = ()
    order: tuple[str, ...] = saved(default=(), pattern=PLAIN)


@record(frozen=True, slots=True, kw_only=True)
class CpuShare:
    """The `cores` of a role on nodes that it shares, their hardware threads, and its `ranks` on each; `own`: the plan is its."""

    own: bool
    ranks: int
    cores: int
    cpus: tuple[int, ...]


@record(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """The job of all points: `nodes` with `places` on each, or one on `nodes_per_point` of them. Each runs one point at a time.

    The request of the plan is that of one point. `start`: arguments before the program that a point begins with on its node,
    where `$DLRUN_FIRST_HOST` is the host; empty on this machine. `unset`: variables of the batch job that `start` would read.
    `mps_share`: percent of a GPU's threads for each point under NVIDIA's MPS; 0: without it.
    """

    nodes: int
    places: int
    start: tuple[Text, ...] = ()
    unset: tuple[str, ...] = ()
    mps_share: int = 0
    nodes_per_point: int = 1

    @property
    def share(self) -> float:
        """The nodes that a point has, or its part of one."""
        return self.nodes_per_point / self.places

    @property
    def at_once(self) -> int:
        """How many points run at a time."""
        return self.nodes // self.nodes_per_point * self.places
