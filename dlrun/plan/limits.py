"""Check of the request against the site's limits, before submission."""

from __future__ import annotations

import re

from dlrun import backends
from dlrun.model.site import SchedulerSite, Site
from dlrun.model.spec import Resources, Spec
from dlrun.model.units import Bytes, many
from dlrun.plan import capacity
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout, gpus_of_node
from dlrun.plan.site_names import not_allowed
from dlrun.schedulers.allocation import is_inside


def check_limits(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """Add a problem for each conflict between spec, layout and site."""
    # A queue limits allocations, not the jobs inside them.
    limited = set() if is_inside(site.scheduler.type) else _limits(spec, site, layout, ledger)
    _node(spec, site, layout, limited, ledger)
    _share(spec, site, layout, ledger)
    _allowed(spec, site, layout, ledger)
    check_options(spec, site, layout, ledger)
    _batch(spec, layout, ledger)
    most = backends.scheduler(site.scheduler.type).MOST_NODES
    if most is not None and layout.nodes > most:
        ledger.problem(
            "DLR010",
            f"site `{site.name}` is a single machine, but the job requests {layout.nodes} nodes",
            "resources.nodes",
            help="use `nodes: 1`, or select a cluster with `--site`",
        )


def _limits(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> set[str]:
    """Add a problem for each violated limit of partition and QOS, and for more nodes than there are; the keys of these."""
    # Partitions that accept the job are named for a limit of the partition, and for one of the QOS if another partition helps.
    qos = spec.resources.qos
    fitting = [f"`{name}`" for name in capacity.accepting(site, layout, qos)]
    other = f"use partition {' or '.join(fitting)}, which accepts it" if fitting else "use another partition"
    limited: set[str] = set()
    for name, owner in capacity.owners(site, layout, qos).items():
        elsewhere = other if name.startswith("partition") or fitting else "use another QOS"
        for violation in capacity.violations(owner, name, layout):
            limited.add(violation.key)
            ledger.problem(
                violation.code, violation.message, violation.key, help=f"{violation.way_out}, or {elsewhere}"
            )
    count = layout.node_type.count if layout.node_type else None
    if count is not None and layout.nodes > count and "resources.nodes" not in limited:
        ledger.problem(
            "DLR015",
            f"{many(layout.nodes, 'node')} of type `{layout.node_type_name}` are requested, but site `{site.name}` has {count}",
            "resources.nodes",
            "resources.spare_nodes",
            help=f"request at most {count}, or another node type",
        )
    return limited


def _allowed(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """Check who may use the partition and QOS, and where the QOS is valid."""
    account = spec.resources.account
    for name, owner in capacity.owners(site, layout, spec.resources.qos).items():
        if not_allowed(owner, spec.resources):
            ledger.problem(
                "DLR023",
                f"account `{account}` may not use {name}, whose accounts match `{owner.accounts}`",
                "resources.account",
                help="use another account, or leave out the name"
                if name.startswith("QOS")
                else "use another account or partition",
            )
    named = capacity.qos_of(site, spec.resources.qos, layout.partition)
    qos = site.qos.get(named or "")
    here = {layout.partition_name, layout.partition.queue if layout.partition else None}
    if qos is not None and qos.partitions and not here & set(qos.partitions):
        listed = " or ".join(f"`{name}`" for name in qos.partitions)
        ledger.problem(
            "DLR117",
            f"QOS `{named}` is not valid in partition `{layout.partition_name}`",
            "resources.qos",
            "resources.partition",
            help=f"use partition {listed}, or another QOS",
        )


def check_runs(spec: Spec, site: Site, layout: Layout, points: int, ledger: Ledger) -> None:
    """Add a problem for a sweep of more runs than a user may have in the queue."""
    for name, owner in capacity.owners(site, layout, spec.resources.qos).items():
        if (message := capacity.too_many_runs(owner, name, points)) is not None:
            ledger.problem(
                "DLR015", message, "sweep", help="submit fewer runs at a time, each with a part of the values"
            )


def _node(spec: Spec, site: Site, layout: Layout, limited: set[str], ledger: Ledger) -> None:
    """Check memory, GPUs and cores of one node; `limited`: keys with a problem already."""
    topology, wanted = layout.topology, spec.resources
    if layout.shares_gpus:
        pass  # several ranks for each, by request
    elif layout.gpus_per_node and layout.ranks_per_node > layout.gpus_per_node:
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
    if "resources.memory_per_node" in limited:
        memory = None
    if memory is not None and isinstance(layout.memory, Bytes) and layout.memory > memory:
        ledger.problem(
            "DLR017",
            f"{layout.memory} of memory is requested on each node, but jobs can use only {memory}",
            "resources.memory_per_node",
            help=f"request at most `{memory}`, or `all`",
        )
    there = gpus_of_node(topology, layout.node_type)
    if there is not None and layout.gpus_per_node > there:
        fewer = f"request at most {there}" if there else "leave `gpus_per_node` out to train on CPUs"
        ledger.problem(
            "DLR018",
            f"{many(layout.gpus_per_node, 'GPU')} per node, but "
            f"{f'`{layout.node_type_name}`' if layout.node_type_name else 'this machine'} has {there or 'none'}",
            "resources.gpus_per_node",
            help=f"{fewer}, or {_with_gpus(spec, site, layout)}",
        )
    if topology is None:
        return
    cpus, kept = wanted.cpus_per_rank, len(topology.cores_of(topology.reserved))
    # Slurm gives the reserved cores to jobs that set the number of specialised cores themselves (sbatch(1), --core-spec).
    if {"core-spec", "S"} & set(wanted.options):
        kept = 0
    cores = len(topology.cores) - kept
    if cpus != "auto" and cpus * layout.ranks_per_node > cores:
        has = f"{cores} for jobs ({kept} are kept for the system)" if kept else str(cores)
        ledger.problem(
            "DLR019",
            f"{layout.ranks_per_node} ranks of {cpus} cores need {cpus * layout.ranks_per_node}, but a node has {has}",
            "resources.cpus_per_rank",
            "resources.ranks_per_node",
            help=f"use at most `cpus_per_rank: {max(1, cores // layout.ranks_per_node)}`, or `auto`",
        )


def _with_gpus(spec: Spec, site: Site, layout: Layout) -> str:
    """Help with the partitions whose nodes have enough GPUs."""
    fitting = [f"`{name}`" for name in capacity.accepting(site, layout, spec.resources.qos)]
    if fitting:
        return f"use partition {' or '.join(fitting)}"
    return "another node type or partition" if site.node_types else "submit to another site (`--site`)"


def _share(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> None:
    """Warn if cores per rank are not set on shared nodes, where the scheduler grants only requested cores."""
    whole = layout.exclusive or backends.scheduler(site.scheduler.type).WHOLE_NODES
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


def check_options(spec: Spec, site: Site, layout: Layout | None, ledger: Ledger) -> None:
    """Check options that the site requires or forbids; without a layout (an unknown partition) those of the spec alone."""
    wanted, rules = spec.resources, site.scheduler
    partition = layout.partition if layout else None
    qos = wanted.qos or (partition.qos if partition else None)
    constraint = wanted.constraint or (partition.constraint if partition else None)
    requested = {
        "account": wanted.account,
        "partition": layout.partition_name if layout else wanted.partition,
        "qos": qos,
        "constraint": constraint,
        "walltime": layout.walltime if layout else wanted.walltime,
        "memory": wanted.memory_per_node if wanted.memory_per_node != "auto" else None,
        "exclusive": wanted.exclusive if wanted.exclusive != "auto" else None,
        "gpus": wanted.gpus_per_node if wanted.gpus_per_node != "auto" else None,
        "reservation": wanted.reservation,
        "nodes": wanted.nodes,
        "hosts": wanted.hosts or None,
        "array": spec.sweep.grid or spec.sweep.zip or spec.sweep.list or None,
    }
    # Names in `required` and `forbidden` of a profile that differ from the keys of a spec.
    spelled = {"memory": "memory_per_node", "gpus": "gpus_per_node"}
    of_partition = () if layout else ("partition", "qos", "constraint", "walltime")
    for option in rules.required:
        if requested[option] is None and option not in of_partition:
            key = spelled.get(option, option)
            why = (
                rules.account.help
                if option == "account" and rules.account.help
                else "a value that is always the same can be set in ~/.config/dlrun/settings.yaml"
            )
            ledger.problem(
                "DLR020", f"site `{site.name}` requires `{key}`, which the spec does not set", "resources:",
                help=f"add `{key}:` under `resources:`; {why}",
            )  # fmt: skip
    if "array" in rules.forbidden and requested["array"]:
        ledger.problem(
            "DLR021", f"site `{site.name}` does not allow job arrays, which `sweep` needs", "sweep",
            help="submit the points one by one with `--set`",
        )  # fmt: skip
    for option in rules.forbidden:
        key = spelled.get(option, option)
        if option == "gpus" and (layout is None or _is_whole(layout, wanted, rules)):
            # A spec for several sites: this one allocates the same number with the node.
            continue
        # Only if the user set it: some of these are also filled with defaults of the partition.
        if requested[option] is not None and ledger.given(f"resources.{key}"):
            ledger.problem(
                "DLR021", f"site `{site.name}` does not allow jobs to set `{key}`", f"resources.{key}",
                help=f"remove it: {rules.account.help if option == 'account' and rules.account.help else 'the site sets it'}",
            )  # fmt: skip
    _scheduler_options(wanted, site, spelled, ledger)
    for name, meaning in rules.mandatory.items():
        if name not in wanted.options:
            ledger.problem(
                "DLR022", f"site `{site.name}` requires the scheduler option `{name}`: {meaning}",
                "resources:",
                help=f"add `options: {{{name}: …}}` under `resources:`",
            )  # fmt: skip
    account = rules.account.pattern
    if account and wanted.account and not re.fullmatch(account, wanted.account):
        ledger.problem(
            "DLR023", f"`{wanted.account}` is not an account of `{site.name}`", "resources.account",
            help=rules.account.help or f"accounts of the site match `{account}`",
        )  # fmt: skip


def _scheduler_options(wanted: Resources, site: Site, spelled: dict[str, str], ledger: Ledger) -> None:
    """Add a problem for each option of `resources.options` by which a job would set what the site forbids."""
    rules = site.scheduler
    table = backends.scheduler(rules.type).OPTIONS
    other = {name.lstrip("-") for name in rules.forbidden_options}
    for name, value in wanted.options.items():
        for use in table.uses(name, value):
            part = table.part(use, value, rules)
            if part in rules.forbidden or use.name in other:
                what = f" (`{spelled.get(part, part)}`)" if part and use.name not in other else ""
                ledger.problem(
                    "DLR021", f"site `{site.name}` does not allow jobs to set the option {use.text}{what}",
                    f"resources.options.{name}", help="remove it",
                )  # fmt: skip
                break


def _is_whole(layout: Layout, wanted: Resources, rules: SchedulerSite) -> bool:
    """Whether the spec requests as many GPUs as each node has, where these come with the node."""
    there = gpus_of_node(layout.topology, layout.node_type) or 0
    return rules.gpus == "none" and wanted.gpus_per_node == there


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
