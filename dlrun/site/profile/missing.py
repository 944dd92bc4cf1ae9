"""What a good profile has and this one lacks, worst first, with what its absence costs and the command that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dlrun.model.record import record
from dlrun.model.site import NodeType, Partition, Recognise, Site

_SCHEDULER = "dlrun site detect"
_NODE = "dlrun site detect --probe"


@record(frozen=True, slots=True, kw_only=True)
class Missing:
    """A key that is not given: its path, what dlrun cannot do without it, and the command that finds its value."""

    key: str
    cost: str
    command: str

    def plain(self) -> dict[str, str]:
        """The three texts, for `--json`."""
        return {"key": self.key, "cost": self.cost, "command": self.command}


def missing(site: Site) -> tuple[Missing, ...]:
    """The missing keys of a profile, worst first; those under `unknown:` are left out."""
    if site.status == "generic":
        return ()
    return tuple(
        entry
        for entry in [*_whole(site), *_of_nodes(site), *_of_partitions(site), *_rest(site)]
        if not _is_unknown(entry.key, site)
    )


def _is_unknown(key: str, site: Site) -> bool:
    first, _, rest = key.partition(".")
    general = (
        f"{first}.{rest.partition('.')[2]}" if first in ("node_types", "partitions") and "." in rest else key
    )
    return bool({key, general} & set(site.unknown))


def _whole(site: Site) -> Iterator[Missing]:
    if not site.node_types:
        yield Missing(key="node_types", cost="ranks cannot be bound to cores and GPUs", command=_NODE)
    if not site.partitions:
        yield Missing(
            key="partitions", cost="requests that are too large are not rejected", command=_SCHEDULER
        )
    if site.recognise == Recognise():
        yield Missing(key="recognise", cost="users must name the site", command=_SCHEDULER)
    if site.fabric is None:
        yield Missing(key="fabric", cost="no variable of the network is set", command=_NODE)


def _of_nodes(site: Site) -> Iterator[Missing]:
    checks: tuple[tuple[str, Callable[[NodeType], bool], str, str], ...] = (
        ("topology", lambda kind: kind.topology is None and kind.capture is None,
         "ranks cannot be bound to cores", "lscpu"),
        ("topology.gpus.numa", _without_locality, "ranks are not placed near their GPU", "nvidia-smi topo -m"),
        ("memory", lambda kind: kind.memory is None, "requests for too much memory are not rejected", _SCHEDULER),
        ("count", lambda kind: kind.count is None, "requests for too many nodes are not rejected", _SCHEDULER),
        ("topology.nics", lambda kind: kind.topology is not None and kind.topology.gpus is not None and not kind.topology.nics,
         "ranks are not placed near their adapter", "lstopo"),
    )  # fmt: skip
    for part, is_missing, cost, command in checks:
        for name, kind in site.node_types.items():
            if is_missing(kind):
                yield Missing(key=f"node_types.{name}.{part}", cost=cost, command=command)


def _without_locality(kind: NodeType) -> bool:
    gpus = kind.topology.gpus if kind.topology is not None else None
    return gpus is not None and not gpus.numa and not gpus.cpus


def _of_partitions(site: Site) -> Iterator[Missing]:
    checks: tuple[tuple[str, Callable[[Partition], bool], str], ...] = (
        ("max_walltime", lambda partition: partition.max_walltime is None and partition.qos not in site.qos,
         "walltimes that are too long are not rejected"),
        ("node_type", lambda partition: partition.node_type is None and len(site.node_types) > 1,
         "jobs are planned without the hardware of their nodes"),
    )  # fmt: skip
    for part, is_missing, cost in checks:
        for name, partition in site.partitions.items():
            if is_missing(partition):
                yield Missing(key=f"partitions.{name}.{part}", cost=cost, command=_SCHEDULER)


def _rest(site: Site) -> Iterator[Missing]:
    if site.fabric is not None and not site.fabric.interfaces:
        cost = "libraries choose an interface themselves, often a slow one"
        yield Missing(key="fabric.interfaces", cost=cost, command="ip -brief address")
    if site.storage.node_local is None:
        yield Missing(
            key="storage.node_local", cost="data sets cannot be copied to the nodes", command="df -hT"
        )
    if not site.storage.shared:
        cost = "file systems are known to be shared only by their type"
        yield Missing(key="storage.shared", cost=cost, command="df -hT")
    if site.scheduler.version is None:
        cost = "only options that all versions accept are written"
        yield Missing(key="scheduler.version", cost=cost, command=_SCHEDULER)
    if not site.sources:
        cost = "the values and their age cannot be checked"
        yield Missing(key="sources", cost=cost, command="dlrun keys --schema site")


def missing_lines(unset: Sequence[Missing]) -> Iterator[str]:
    """A line per key, in columns, below a heading; none if nothing is missing."""
    if not unset:
        return
    yield "not in the profile, worst first:"
    keys, costs = max(len(entry.key) for entry in unset), max(len(entry.cost) for entry in unset)
    for entry in unset:
        yield f"  {entry.key:<{keys}}  {entry.cost:<{costs}}  {entry.command}"
    yield "a key that no source states belongs in `unknown:`"
