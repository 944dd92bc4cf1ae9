"""The request against the limits of the site, before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dlrun import backends
from dlrun.model.nearest import nearest
from dlrun.model.site import Partition, Site
from dlrun.model.spec import Spec
from dlrun.model.units import Bytes, Duration
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout


def check(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """Add a problem for each conflict between spec, layout and site."""
    _partition(spec, site, layout, ledger)
    _limits(site, layout, ledger)
    _node(spec, layout, ledger)
    _share(spec, site, layout, ledger)
    _options(spec, site, layout, ledger)
    _batch(spec, layout, ledger)
    if layout.nodes > 1 and backends.scheduler(site.scheduler.type).ON_THIS_MACHINE:
        ledger.problem(
            "DLR010",
            f"site `{site.name}` is a single machine, but the job requests {layout.nodes} nodes",
            "resources.nodes",
            help="use `nodes: 1`, or select a cluster with `--site`",
        )


def _near(name: str, known: Iterable[str], otherwise: str) -> str:
    close = nearest(name, known)
    return f"the nearest is `{close}`" if close else otherwise


def _partition(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    wanted = spec.resources
    if wanted.partition is not None and site.partitions and layout.partition is None:
        known = ", ".join(f"`{n}`" for n in site.partitions)
        ledger.problem(
            "DLR012",
            f"site `{site.name}` has no partition `{wanted.partition}`",
            "resources.partition",
            help=f"{_near(wanted.partition, site.partitions, 'none is near')}; it has {known}",
        )
    if wanted.node_type is not None and layout.node_type is None:
        ledger.problem(
            "DLR013",
            f"site `{site.name}` has no node type `{wanted.node_type}`",
            "resources.node_type",
            help=_near(wanted.node_type, site.node_types, "`dlrun site show` lists them"),
        )


def _limits(site: Site, layout: Layout, ledger: Ledger) -> None:
    partition, name = layout.partition, layout.partition_name
    if partition is None:
        return
    other = _another(site, layout)
    for code, key, message, way_out in _exceeded(partition, name, layout):
        ledger.problem(code, message, key, help=f"{way_out}, or {other}")


def _exceeded(partition: Partition, name: str | None, layout: Layout) -> Iterator[tuple[str, str, str, str]]:
    """Code, spec key, message and way out for each limit of the partition that the job exceeds."""
    nodes, walltime = layout.nodes, layout.walltime
    least, most = partition.min_walltime, partition.max_walltime
    if most is not None and walltime is not None and walltime > most:
        yield (
            "DLR014",
            "resources.walltime",
            f"walltime {walltime} exceeds the limit of partition `{name}`, {most}",
            f"request at most `{most}`, set `chain: true`",
        )
    if least is not None and walltime is not None and walltime < least:
        yield (
            "DLR014",
            "resources.walltime",
            f"walltime {walltime} is below the minimum of partition `{name}`, {least}",
            f"request at least `{least}`",
        )
    if partition.max_nodes is not None and nodes > partition.max_nodes:
        yield (
            "DLR015",
            "resources.nodes",
            f"{nodes} nodes exceed the limit of partition `{name}`, {partition.max_nodes}",
            f"request at most {partition.max_nodes}",
        )
    if partition.min_nodes is not None and nodes < partition.min_nodes:
        yield (
            "DLR015",
            "resources.nodes",
            f"partition `{name}` requires at least {partition.min_nodes} nodes, but the job requests {nodes}",
            f"request at least {partition.min_nodes}",
        )
    together = partition.max_node_hours
    if together is not None and walltime is not None and nodes * walltime > together * 3600:
        yield (
            "DLR015",
            "resources.walltime",
            f"{nodes} × {walltime} are {nodes * walltime / 3600:g} node-hours; the limit of partition `{name}` is {together:g}",
            f"request at most `{Duration(int(together * 3600 / nodes))}` on {nodes} {'node' if nodes == 1 else 'nodes'}",
        )


def _another(site: Site, layout: Layout) -> str:
    """Partitions with the same nodes that would accept the job."""
    fitting = [
        f"`{name}`"
        for name, one in site.partitions.items()
        if one.node_type == layout.node_type_name and not any(_exceeded(one, name, layout))
    ]
    return f"use partition {' or '.join(fitting)}, which accepts it" if fitting else "use another partition"


def _node(spec: Spec, layout: Layout, ledger: Ledger) -> None:
    """Memory, GPUs and cores of one node."""
    topology, wanted = layout.topology, spec.resources
    if layout.gpus_per_node and layout.ranks_per_node > layout.gpus_per_node:
        ledger.problem(
            "DLR016",
            f"{layout.ranks_per_node} ranks share {layout.gpus_per_node} GPUs on each node",
            "resources.ranks_per_node",
            "resources.gpus_per_node",
            help="frameworks expect one rank per GPU: use `ranks_per_node: auto`",
            warning=True,
        )
    elif layout.gpus_per_node % layout.ranks_per_node:
        ledger.problem(
            "DLR016",
            f"{layout.gpus_per_node} GPUs cannot be divided evenly among {layout.ranks_per_node} ranks on each node",
            "resources.ranks_per_node",
            "resources.gpus_per_node",
            help="use a divisor, or `ranks_per_node: auto` for one rank per GPU",
        )
    memory = layout.node_type.memory if layout.node_type else None
    if memory is not None and isinstance(layout.memory, Bytes) and layout.memory > memory:
        ledger.problem(
            "DLR017",
            f"{layout.memory} of memory is requested on each node, but jobs can use only {memory}",
            "resources.memory_per_node",
            help=f"request at most `{memory}`, or for `all`",
        )
    if topology is None:
        return
    if layout.gpus_per_node > len(topology.gpus):
        ledger.problem(
            "DLR018",
            f"{layout.gpus_per_node} GPUs per node, but `{layout.node_type_name or 'this machine'}` has {len(topology.gpus)}",
            "resources.gpus_per_node",
            help=f"request at most {len(topology.gpus)}, or another node type or partition",
        )
    cores, cpus = len(topology.cores), wanted.cpus_per_rank
    if cpus != "auto" and cpus * layout.ranks_per_node > cores:
        ledger.problem(
            "DLR019",
            f"{layout.ranks_per_node} ranks of {cpus} cores need {cpus * layout.ranks_per_node}, but a node has {cores}",
            "resources.cpus_per_rank",
            "resources.ranks_per_node",
            help=f"use at most `cpus_per_rank: {max(1, cores // layout.ranks_per_node)}`, or `auto`",
        )


def _share(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """On shared nodes a scheduler grants only the requested cores, by default one per rank."""
    whole = layout.exclusive or backends.scheduler(site.scheduler.type).ON_THIS_MACHINE
    raw = (*spec.resources.options, *site.scheduler.directives)
    if layout.cpus_per_rank is None and not whole and not any("cpus" in option for option in raw):
        ledger.problem(
            "DLR068",
            "cores per rank are not set; on shared nodes each rank gets the scheduler's default, usually one core",
            "resources.ranks_per_node",
            "resources",
            help="set `cpus_per_rank`, or `exclusive: true` for whole nodes, or describe the nodes under `node_types` of "
            "the site profile",
            warning=True,
        )


def _options(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """Options that the site requires or forbids."""
    wanted, rules = spec.resources, site.scheduler
    qos = wanted.qos or (layout.partition.qos if layout.partition else None)
    constraint = wanted.constraint or (layout.partition.constraint if layout.partition else None)
    given = {
        "account": wanted.account,
        "partition": layout.partition_name,
        "qos": qos,
        "constraint": constraint,
        "walltime": layout.walltime,
        "memory": wanted.memory_per_node if wanted.memory_per_node != "auto" else None,
        "exclusive": wanted.exclusive if wanted.exclusive != "auto" else None,
        "gpus": wanted.gpus_per_node if wanted.gpus_per_node != "auto" else None,
        "reservation": wanted.reservation,
        "nodes": wanted.nodes,
        "array": spec.sweep.grid or spec.sweep.zip or spec.sweep.list or None,
    }
    spelled = {"memory": "memory_per_node", "gpus": "gpus_per_node"}
    for option in rules.required:
        if given[option] is None:
            key = spelled.get(option, option)
            why = (
                rules.account.help
                if option == "account" and rules.account.help
                else "a value that is always the same can be set in ~/.config/dlrun/settings.yaml"
            )
            ledger.problem(
                "DLR020", f"site `{site.name}` requires `{key}`, which the spec does not set", "resources",
                help=f"add `{key}:` under `resources:`; {why}",
            )  # fmt: skip
    if "array" in rules.forbidden and given["array"]:
        ledger.problem(
            "DLR021", f"site `{site.name}` does not allow job arrays, which `sweep` needs", "sweep",
            help="submit the points one by one with `--set`",
        )  # fmt: skip
    for option in rules.forbidden:
        key = spelled.get(option, option)
        if given[option] is not None and ledger.given(f"resources.{key}"):
            ledger.problem(
                "DLR021", f"site `{site.name}` does not allow jobs to set `{key}`", f"resources.{key}",
                help="remove it: the site sets it",
            )  # fmt: skip
    for name, meaning in rules.mandatory.items():
        if name not in wanted.options:
            ledger.problem(
                "DLR022", f"site `{site.name}` requires the scheduler option `{name}`: {meaning}", "resources.options",
                "resources",
                help=f"add `options: {{{name}: …}}` under `resources:`",
            )  # fmt: skip
    account = rules.account.pattern
    if account and wanted.account and not re.fullmatch(account, wanted.account):
        ledger.problem(
            "DLR023", f"`{wanted.account}` is not an account of `{site.name}`", "resources.account",
            help=rules.account.help or f"accounts of the site match `{account}`",
        )  # fmt: skip


LARGE_BATCH = 8192
"""Global batch above which plain SGD with a linearly scaled learning rate loses accuracy
(Goyal et al. 2017, arXiv:1706.02677, figure 1)."""


def _batch(spec: Spec, layout: Layout, ledger: Ledger) -> None:
    if spec.batch_per_rank is not None and spec.batch_per_rank * layout.ranks > LARGE_BATCH:
        total = spec.batch_per_rank * layout.ranks
        ledger.problem(
            "DLR030",
            f"the global batch is {total} ({spec.batch_per_rank} × {layout.ranks} ranks), more than {LARGE_BATCH}",
            "batch_per_rank",
            help="scale the learning rate with warm-up and check convergence, or use LARS/LAMB or fewer ranks",
            warning=True,
        )
