"""The hosts that a spec lists: names, number, and those that are also excluded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlrun.model.hostlist import expand
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.model.units import many
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_NAME = lazy_pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_FROM_TO = lazy_pattern(r"(.*?)([0-9]+)-(?:\1)?([0-9]+)")


def check(spec: Spec, layout: Layout, ledger: Ledger) -> None:
    """Compare the listed hosts with the number of nodes and with `exclude`."""
    wrong = list(_wrong(spec))
    for key, name, way_out in wrong[:1]:
        ledger.problem("DLR128", f"`{name}` is not the name of a host", key, help=way_out)
    if wrong:
        return
    hosts, out = (
        [host for name in names for host in expand(name)]
        for names in (spec.resources.hosts, spec.resources.exclude)
    )
    nodes = layout.granted.nodes
    if both := sorted(set(hosts) & set(out)):
        ledger.problem(
            "DLR128",
            f"host `{both[0]}` is under `hosts` and under `exclude`",
            "resources.exclude",
            help="remove it from one of them",
        )
    if len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        ledger.problem(
            "DLR128", f"host `{twice}` is listed twice", "resources.hosts", help="remove one of them"
        )
    elif hosts and len(hosts) != nodes:
        fewer = f"write `nodes: {max(1, len(hosts) - layout.spare_nodes)}`, or list {many(nodes, 'host')}"
        range_ = _FROM_TO.fullmatch(hosts[0]) if len(hosts) == 1 and nodes > 1 else None
        ledger.problem(
            "DLR128",
            f"the job has {many(nodes, 'node')}, but `hosts` lists {len(hosts)}",
            "resources.hosts",
            help=f"a range has brackets: `{range_[1]}[{range_[2]}-{range_[3]}]`; else {fewer}"
            if range_
            else fewer,
        )


def _wrong(spec: Spec) -> Iterator[tuple[str, str, str]]:
    """Key, text and way out of each name that no host can have."""
    for key, names in (
        ("resources.hosts", spec.resources.hosts),
        ("resources.exclude", spec.resources.exclude),
    ):
        for name in names:
            try:
                bad = next((host for host in expand(name) if not _NAME.fullmatch(host)), None)
            except ValueError as error:
                yield key, name, f"{error}: write a range as `n[01-04]`"
                continue
            if len(name.split()) > 1 and "=" in name:
                bad = name
            if bad is None:
                continue
            plain = re.sub(r"^[^@]*@|:[0-9]+$|\s+slots=.*$", "", name.strip())
            slots = re.search(r":[0-9]+$|slots=", name)
            more = "; ranks of a node are `resources.ranks_per_node`" if slots else ""
            yield (
                key,
                name,
                f"write `{plain}`{more}"
                if _NAME.fullmatch(plain)
                else "write names as the scheduler lists them",
            )
