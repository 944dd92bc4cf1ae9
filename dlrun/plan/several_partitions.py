"""Jobs that may start in any of several partitions (`partition: a,b`, or `any`).

One job script is for all of them, so they must be alike in everything that the plan depends on: the hardware, the QOS and what
is requested with them. Only their limits may differ.
"""

from __future__ import annotations

from dataclasses import replace

from dlrun import backends
from dlrun.model.site import Partition, Site
from dlrun.model.spec import Resources
from dlrun.plan import capacity
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout, is_any, partition_names

_SAME = ("node_type", "qos", "constraint", "exclusive", "cpus_per_gpu", "default_walltime", "overrides")
"""Keys of a partition on which more than its limits depends."""


def choose(wanted: Resources, site: Site, layout: Layout, ledger: Ledger) -> Layout:
    """The layout with all partitions of the job; adds a problem for each that cannot be one of them."""
    if is_any(wanted, site):
        return _any(wanted, site, layout, ledger)
    first, *rest = partition_names(wanted) or ("",)
    own = site.partitions.get(first)
    if not rest or own is None:
        return layout
    if not backends.scheduler(site.scheduler.type).SEVERAL_QUEUES:
        return _in_order((first, *rest), wanted, site, layout, ledger)
    for name in (name for name in rest if _is_alike(name, first, site, ledger)):
        for violation in capacity.violations(site.partitions[name], f"partition `{name}`", layout.granted):
            way_out = f"{violation.way_out}, or leave out this partition"
            ledger.problem(violation.code, violation.message, violation.key, help=way_out)
    return replace(layout, others=tuple(dict.fromkeys(rest)))


def _in_order(
    names: tuple[str, ...], wanted: Resources, site: Site, layout: Layout, ledger: Ledger
) -> Layout:
    """The first of the queues that accepts the job, for schedulers whose jobs are in one; if none does, the first is reported."""
    alike = [name for name in names if _is_alike(name, names[0], site, ledger)]
    fits = (*_own(site, layout, wanted), *capacity.accepting(site, layout.granted, wanted.qos))
    name = next((name for name in alike if name in fits), names[0])
    ledger.decide(
        "resources.partition", name, "first-that-accepts", "the first queue of the spec that accepts the job"
    )
    return replace(layout, partition_name=name, partition=site.partitions[name])


def _own(site: Site, layout: Layout, wanted: Resources) -> list[str]:
    """The partition of a layout, if it accepts the job."""
    owners = capacity.owners(site, layout.granted, wanted.qos)
    fits = not any(any(capacity.violations(owner, name, layout.granted)) for name, owner in owners.items())
    return [layout.partition_name] if fits and layout.partition_name is not None else []


def _is_alike(name: str, first: str, site: Site, ledger: Ledger) -> bool:
    """Whether one plan is right for two partitions; adds a problem otherwise."""
    if (key := _difference(site.partitions[first], site.partitions[name])) is not None:
        ledger.problem(
            "DLR075",
            f"partitions `{first}` and `{name}` cannot be used together: their `{key}` differs in the site profile",
            "resources.partition",
            help="name partitions that differ only in their limits, or `any` for all that accept the job",
        )
    return key is None


def _any(wanted: Resources, site: Site, layout: Layout, ledger: Ledger) -> Layout:
    """All partitions that accept the job and are like the default one; where only others accept it, like the first of these."""
    own = layout.partition_name
    if layout.partition is None or own is None:
        return layout
    fitting = [*_own(site, layout, wanted), *capacity.accepting(site, layout.granted, wanted.qos)]
    like = [name for name in fitting if _difference(layout.partition, site.partitions[name]) is None]
    if not backends.scheduler(site.scheduler.type).SEVERAL_QUEUES:
        like = like[:1]
    # Without one, the limits of the default partition are reported, with the partitions of other nodes as the way out.
    chosen = like or [own]
    because = (
        "the partitions that accept the job, on nodes like those of the default one"
        if like
        else "the default partition"
    )
    ledger.decide("resources.partition", ",".join(chosen), "partitions-that-accept", because)
    return replace(
        layout, partition_name=chosen[0], partition=site.partitions[chosen[0]], others=tuple(chosen[1:])
    )


def _difference(partition: Partition, other: Partition) -> str | None:
    """The first key in which two partitions differ so that one plan is not right for both."""
    if partition is not other and "-" in (partition.queue, other.queue):
        return "queue"
    return next((key for key in _SAME if getattr(partition, key) != getattr(other, key)), None)
