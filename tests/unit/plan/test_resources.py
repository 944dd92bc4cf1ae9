"""How much of the cluster a job gets: one line a rule."""

from __future__ import annotations

import pytest

from dlrun.config.topology.short import build
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import LauncherSite, NodeType, Partition, SchedulerSite, Site
from dlrun.model.spec import Resources
from dlrun.model.topology_short import ShortGpus, ShortTopology
from dlrun.model.units import Bytes, Duration
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import lay_out, node_type_of, partition_of

CPU = build(ShortTopology(packages=2, cores=24, name="cpu"))
GPU = build(ShortTopology(packages=2, cores=32, gpus=ShortGpus(count=4, numa=(0, 0, 1, 1)), name="gpu"))
SLURM = SchedulerSite(type="slurm")
SRUN = LauncherSite(name="srun")


def site(scheduler=SLURM, **more) -> Site:
    return Site(name="there", scheduler=scheduler, launcher=SRUN, **more)


def layout(wanted: Resources, topology=None, where: Site | None = None):
    """The layout, and the rule of each decision."""
    ledger = Ledger({})
    found = lay_out(wanted, where or site(), topology, ledger)
    return found, {d.key.partition(".")[2]: d.rule for d in ledger.decisions}, ledger.problems


@pytest.mark.parametrize(
    ("wanted", "topology", "ranks_per_node", "ranks", "rule"),
    [
        ({}, None, 1, 1, "rank-per-node"),
        ({"nodes": 3}, CPU, 2, 6, "rank-per-numa-node"),
        ({"nodes": 2}, GPU, 4, 8, "rank-per-gpu"),
        ({"nodes": 2, "gpus_per_node": 2}, GPU, 2, 4, "rank-per-gpu"),
        ({"nodes": 2, "gpus_per_node": 0}, GPU, 2, 4, "rank-per-numa-node"),
        ({"nodes": 2, "gpus_per_node": 3}, None, 3, 6, "rank-per-gpu"),
        ({"nodes": 3, "ranks": 7}, CPU, 3, 7, "ranks-over-nodes"),
        ({"nodes": 2, "ranks_per_node": 5}, GPU, 5, 10, "as-written"),
        ({"nodes": 3, "ranks_per_node": 4, "ranks": 10}, CPU, 4, 10, "as-written"),
    ],
)
def test_ranks(wanted, topology, ranks_per_node, ranks, rule):
    found, rules, problems = layout(Resources(**wanted), topology)
    assert (found.ranks_per_node, found.ranks, rules["ranks_per_node"]) == (ranks_per_node, ranks, rule)
    assert not problems


@pytest.mark.parametrize(("ranks", "per_node"), [(4, 2), (7, 2), (8, 4), (1, 1)])
def test_ranks_that_do_not_fill_the_nodes(ranks, per_node):
    _, _, problems = layout(Resources(nodes=3, ranks=ranks, ranks_per_node=per_node))
    (problem,) = problems
    assert problem.code == "DLR011"
    assert f"use {2 * per_node + 1} to {3 * per_node} ranks" in problem.help


@pytest.mark.parametrize(
    ("wanted", "topology", "partition", "cpus", "rule"),
    [
        ({}, None, None, None, None),
        ({}, CPU, None, 24, "equal-share"),
        ({"ranks_per_node": 5}, CPU, None, 9, "equal-share"),
        ({"ranks_per_node": 100}, CPU, None, 1, "equal-share"),
        ({"cpus_per_rank": 3}, CPU, None, 3, "as-written"),
        ({}, GPU, None, 16, "equal-share"),
        ({"gpus_per_node": 1}, GPU, None, 16, "equal-share"),
        ({"gpus_per_node": 2, "ranks_per_node": 1}, GPU, None, 32, "equal-share"),
        ({"gpus_per_node": 2, "exclusive": True}, GPU, None, 32, "equal-share"),
        ({"gpus_per_node": 2}, GPU, Partition(cpus_per_gpu=8), 8, "cpus-per-gpu"),
        ({"gpus_per_node": 2, "ranks_per_node": 1}, GPU, Partition(cpus_per_gpu=8), 16, "cpus-per-gpu"),
        ({"gpus_per_node": 2, "exclusive": True}, GPU, Partition(cpus_per_gpu=8), 32, "equal-share"),
        ({"gpus_per_node": 0}, GPU, Partition(cpus_per_gpu=8), 32, "equal-share"),
    ],
)
def test_cores_of_a_rank(wanted, topology, partition, cpus, rule):
    where = site(partitions={"p": partition} if partition else {})
    chosen = {"partition": "p"} if partition else {}
    found, rules, _ = layout(Resources(**wanted, **chosen), topology, where)
    assert (found.cpus_per_rank, rules.get("cpus_per_rank")) == (cpus, rule)


@pytest.mark.parametrize(
    ("wanted", "rule", "memory"),
    [
        ("auto", "none", None),
        ("auto", "all", "all"),
        ("auto", "ask", Bytes(180)),
        ("all", "none", "all"),
        (Bytes(7), "ask", Bytes(7)),
    ],
)
def test_memory(wanted, rule, memory):
    where = site(SchedulerSite(type="slurm", memory=rule), node_types={"n": NodeType(memory=Bytes(180))})
    assert layout(Resources(memory_per_node=wanted), None, where)[0].memory == memory


def test_memory_is_not_asked_for_where_nobody_knows_it():
    assert layout(Resources(), None, site(SchedulerSite(type="slurm", memory="ask")))[0].memory is None


@pytest.mark.parametrize(
    ("wanted", "partition", "by_site", "exclusive", "rule"),
    [
        ("auto", None, False, False, "site-rule"),
        ("auto", None, True, True, "site-rule"),
        ("auto", True, False, True, "partition-rule"),
        ("auto", False, True, False, "partition-rule"),
        (True, False, False, True, "as-written"),
        (False, True, True, False, "as-written"),
    ],
)
def test_whole_nodes(wanted, partition, by_site, exclusive, rule):
    where = site(
        SchedulerSite(type="slurm", exclusive=by_site),
        partitions={"p": Partition(exclusive=partition, default=True)},
    )
    found, rules, _ = layout(Resources(exclusive=wanted), None, where)
    assert (found.exclusive, rules["exclusive"]) == (exclusive, rule)


def test_walltime_is_the_specs_else_the_partitions():
    where = site(partitions={"p": Partition(default=True, default_walltime=Duration(60))})
    assert layout(Resources(walltime=Duration(5)), None, where)[0].walltime == 5
    found, rules, _ = layout(Resources(), None, where)
    assert (found.walltime, rules["walltime"]) == (60, "partition-default")
    assert layout(Resources())[0].walltime is None


def test_the_partition_named_else_the_default_else_none():
    where = site(partitions={"a": Partition(), "b": Partition(default=True)})
    assert partition_of(Resources(partition="a"), where) == "a"
    assert partition_of(Resources(), where) == "b"
    assert partition_of(Resources(partition="c"), where) == "c"
    assert partition_of(Resources(), site()) is None
    found, rules, _ = layout(Resources(), None, where)
    assert (found.partition_name, found.partition, rules["partition"]) == (
        "b",
        where.partitions["b"],
        "default-partition",
    )
    assert layout(Resources(partition="c"), None, where)[0].partition is None


def test_the_node_type_named_else_the_partitions_else_the_only_one():
    one, two = NodeType(), NodeType(memory=Bytes(1))
    where = site(
        partitions={"p": Partition(node_type="two"), "q": Partition()}, node_types={"one": one, "two": two}
    )
    assert node_type_of(Resources(partition="p"), where) == "two"
    assert node_type_of(Resources(partition="p", node_type="one"), where) == "one"
    assert node_type_of(Resources(partition="q"), where) is None
    assert node_type_of(Resources(node_type="three"), where) == "three"
    assert node_type_of(Resources(), site(node_types={"one": one})) == "one"
    assert layout(Resources(partition="p"), None, where)[0].node_type is two
    assert layout(Resources(node_type="three"), None, where)[0].node_type is None


def test_what_is_written_keeps_its_place():
    place = Origin(layer=Layer.FLAG, name="--set resources.nodes=2")
    ledger = Ledger({"resources.nodes": place})
    lay_out(Resources(nodes=2), site(), None, ledger)
    assert next(d for d in ledger.decisions if d.key == "resources.nodes").origin == place
