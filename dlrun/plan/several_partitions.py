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
    for name in rest:
        _check(name, own, first, site, layout, ledger)
    return replace(layout, others=tuple(dict.fromkeys(rest)))


def _check(name: str, own: Partition, first: str, site: Site, layout: Layout, ledger: Ledger) -> None:
    other = site.partitions[name]
    if (key := _difference(own, other)) is not None:
        ledger.problem(
            "DLR075",
            f"partitions `{first}` and `{name}` cannot be used together: their `{key}` differs in the site profile",
            "resources.partition",
            help="name partitions that differ only in their limits, or `any` for all that accept the job",
        )
        return
    for one in capacity.violations(other, f"partition `{name}`", layout.granted):
        ledger.problem(one.code, one.message, one.key, help=f"{one.way_out}, or leave out this partition")


def _any(wanted: Resources, site: Site, layout: Layout, ledger: Ledger) -> Layout:
    """All partitions that accept the job and are like the default one; where only others accept it, like the first of these."""
    own, there = layout.partition_name, layout.granted
    if layout.partition is None or own is None:
        return layout
    owners = capacity.owners(site, there, wanted.qos)
    fits = not any(any(capacity.violations(owner, name, there)) for name, owner in owners.items())
    fitting = [own] if fits else []
    fitting += capacity.accepting(site, there, wanted.qos)
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


def _difference(one: Partition, other: Partition) -> str | None:
    """The first key in which two partitions differ so that one plan is not right for both."""
    if one is not other and "-" in (one.queue, other.queue):
        return "queue"
    return next((key for key in _SAME if getattr(one, key) != getattr(other, key)), None)
