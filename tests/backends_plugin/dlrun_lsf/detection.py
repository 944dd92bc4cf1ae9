"""What a cluster of LSF tells about itself: lsid, bqueues and bhosts with formats of their own (`-o`)."""

from __future__ import annotations

from dlrun.schedulers.facts import Cluster, Commands, Nodes, Queue, kind_name
from dlrun_lsf.lsf import identified

CLIENT = "bqueues"


def cluster(commands: Commands) -> Cluster:
    """The queues that accept jobs, and the hosts with equal numbers of slots as one kind."""
    name = identified(commands.required("lsid"))
    queues = commands.required("bqueues", "-noheader", "-o", "queue_name status delimiter='^'")
    hosts = commands.required("bhosts", "-noheader", "-o", "host_name max delimiter='^'")
    alike: dict[int, list[str]] = {}
    for host, slots in (line.split("^") for line in hosts.splitlines() if "^" in line):
        if slots.strip().isdigit():
            alike.setdefault(int(slots), []).append(host.strip())
    opened = [line.split("^")[0].strip() for line in queues.splitlines() if "Open" in line]
    kinds: list[Nodes] = []
    for slots, names in alike.items():
        kinds.append(
            Nodes(name=kind_name(names[0], kinds), count=len(names), memory_mib=0, cpus=slots, hosts=tuple(names),
                  queues=frozenset(opened))
        )  # fmt: skip
    found = tuple(Queue(name=one, kinds=tuple(kind.name for kind in kinds)) for one in opened)
    return commands.finish(Cluster(scheduler="lsf", name=name, queues=found, nodes=tuple(kinds)))
