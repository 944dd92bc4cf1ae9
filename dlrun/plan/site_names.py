"""Check of the names in a spec against those of the site profile, before anything is derived from them.

A wrong partition or node type would make every limit, the topology and the QOS those of something else, so that a misspelled
name would be followed by errors about values that are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dlrun import backends
from dlrun.model.nearest import nearest
from dlrun.model.site import Limits, Site
from dlrun.model.spec import Resources, Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import is_any, partition_names

_FEATURE = lazy_pattern(r"[A-Za-z_][\w.:-]*")
"""Features in a constraint such as `gpu&hbm80g`, `[rack1|rack2]` or `ib*4` (sbatch(1), --constraint)."""

_MIG = lazy_pattern(r"\dg\.\d+gb", re.IGNORECASE)
"""Part of the names of MIG slices: an administrator creates them, so that a profile rarely has all."""

_LIKE = 0.8
"""Similarity above which an unknown name in an open list is a misspelling of a known one."""


def check_names(spec: Spec, site: Site, ledger: Ledger) -> bool:
    """Add a problem for each unknown name. False: the partition or node type is unknown, and with it limits and topology."""
    wanted = spec.resources
    before = len(ledger.problems)
    _partition(wanted, site, ledger)
    _node_type(wanted, site, ledger)
    known = len(ledger.problems) == before
    _qos(wanted, site, ledger)
    _constraint(wanted, site, ledger)
    _gpu_type(wanted, site, ledger)
    return known


def near(name: str, known: Iterable[str], otherwise: str) -> str:
    """`the nearest is NAME`, or other words if none is near."""
    close = nearest(name, known)
    return f"the nearest is `{close}`" if close else otherwise


def _partition(wanted: Resources, site: Site, ledger: Ledger) -> None:
    names = partition_names(wanted)
    if len(names) > 1 and not site.partitions and not backends.scheduler(site.scheduler.type).SEVERAL_QUEUES:
        ledger.problem(
            "DLR075",
            f"a job of site `{site.name}` is in one queue, but the spec names {len(names)}",
            "resources.partition",
            help=f"name one of them, such as `{names[0]}`; of queues in the profile, dlrun takes the first that accepts the job",
        )
        return
    if is_any(wanted, site) and site.partitions:
        return
    known = ", ".join(f"`{n}`" for n in site.partitions)
    for name in names if site.partitions else ():
        if name not in site.partitions:
            ledger.problem(
                "DLR012",
                f"site `{site.name}` has no partition `{name}`",
                "resources.partition",
                help=f"{near(name, site.partitions, 'none is near')}; it has {known}",
            )


def _node_type(wanted: Resources, site: Site, ledger: Ledger) -> None:
    if wanted.node_type is None or wanted.node_type in site.node_types:
        return
    ledger.problem(
        "DLR013",
        f"site `{site.name}` has no node type `{wanted.node_type}`",
        "resources.node_type",
        help=near(wanted.node_type, site.node_types, "`dlrun site show` lists them"),
    )


def _qos(wanted: Resources, site: Site, ledger: Ledger) -> None:
    """A name like a known one is misspelled; centres have more QOS than a profile lists, so another one is a warning."""
    if wanted.qos is None:
        return
    of_partitions = {partition.qos for partition in site.partitions.values() if partition.qos}
    known = [*site.qos, *sorted(of_partitions - set(site.qos))]
    if wanted.qos in known or not known:
        return
    close = nearest(wanted.qos, known, cutoff=_LIKE)
    listed = ", ".join(f"`{name}`" for name in known)
    ledger.problem(
        "DLR117",
        f"site `{site.name}` has no QOS `{wanted.qos}`"
        if close
        else f"the profile of `{site.name}` does not know QOS `{wanted.qos}`",
        "resources.qos",
        help=f"the nearest is `{close}`; it has {listed}; a new one belongs under `qos:` of the profile"
        if close
        else f"its limits are not checked; the profile has {listed}",
        warning=close is None,
    )


def _constraint(wanted: Resources, site: Site, ledger: Ledger) -> None:
    """Profiles name few features, so an unknown one is an error only if it resembles a known one."""
    if wanted.constraint is None:
        return
    texts = [
        *(partition.constraint for partition in site.partitions.values()),
        *(node_type.constraint for node_type in site.node_types.values()),
    ]
    known = {name for text in texts if text for name in _FEATURE.findall(text)}
    for name in _FEATURE.findall(wanted.constraint):
        if name not in known and (close := nearest(name, known, cutoff=_LIKE)):
            ledger.problem(
                "DLR118",
                f"site `{site.name}` has no node feature `{name}`",
                "resources.constraint",
                help=f"the nearest is `{close}`; if nodes have `{name}`, add it as a node type's `constraint:` to the profile",
            )


def _gpu_type(wanted: Resources, site: Site, ledger: Ledger) -> None:
    known = set(_gpu_types(site))
    if wanted.gpu_type is None or not known or wanted.gpu_type in known or _MIG.search(wanted.gpu_type):
        return
    listed = ", ".join(f"`{name}`" for name in sorted(known))
    ledger.problem(
        "DLR119",
        f"site `{site.name}` has no GPUs of type `{wanted.gpu_type}`",
        "resources.gpu_type",
        "resources.gpus_per_node",
        help=f"{near(wanted.gpu_type, known, 'none is near')}; it has {listed}; leave the type out for the partition's",
    )


def _gpu_types(site: Site) -> Iterator[str]:
    """The scheduler's names of the GPUs: of the site, and in the overrides of partitions and node types."""
    yield from site.scheduler.gpu_types
    if site.scheduler.gpu_type:
        yield site.scheduler.gpu_type
    overrides = [
        *(partition.overrides for partition in site.partitions.values()),
        *(node_type.overrides for node_type in site.node_types.values()),
    ]
    for override in overrides:
        scheduler = override.get("scheduler")
        if isinstance(scheduler, Mapping) and isinstance(scheduler.get("gpu_type"), str):
            yield scheduler["gpu_type"]


def not_allowed(limits: Limits, wanted: Resources) -> bool:
    """Whether a partition or QOS is for other accounts only."""
    pattern = limits.accounts
    return pattern is not None and wanted.account is not None and not re.fullmatch(pattern, wanted.account)
