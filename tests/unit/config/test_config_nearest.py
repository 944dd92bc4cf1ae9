"""Which key an unknown one is taken for: of this mapping, by another program's word for it, or of another place."""

from __future__ import annotations

import pytest

from dlrun.config.hints import keys
from dlrun.config.wording import unknown_key
from dlrun.model.data import NodeLocal
from dlrun.model.site import NodeType, Partition, SchedulerSite, Site
from dlrun.model.spec import Resources, Spec
from dlrun.model.topology_short import ShortTopology

TOPOLOGY = ("node_types", "cpu", "topology")


@pytest.mark.parametrize(
    ("root", "path", "schema", "name", "expected"),
    [
        # a slip of the finger
        (Spec, ("resources",), Resources, "walltme", "walltime"),
        (Site, TOPOLOGY, ShortTopology, "package", "packages"),
        # other programs' words
        (Site, TOPOLOGY, ShortTopology, "threads", "smt"),
        (Site, TOPOLOGY, ShortTopology, "threads_per_core", "smt"),
        (Site, TOPOLOGY, ShortTopology, "threads-per-core", "smt"),
        (Site, TOPOLOGY, ShortTopology, "sockets", "packages"),
        (Site, TOPOLOGY, ShortTopology, "cores_per_socket", "cores"),
        (Spec, ("resources",), Resources, "ntasks_per_node", "ranks_per_node"),
        (Spec, ("resources",), Resources, "gpus", "gpus_per_node"),
        (Spec, ("resources",), Resources, "Queue", "partition"),
        # a word in common, or a beginning
        (Site, TOPOLOGY, ShortTopology, "l3", None),
        (Site, TOPOLOGY, ShortTopology, "l3_caches", None),
        (Site, TOPOLOGY, ShortTopology, "per_numa", "cores_per_numa"),
        (Site, TOPOLOGY, ShortTopology, "reserve", "reserved"),
        (Spec, ("resources",), Resources, "part", "partition"),
        # a key of another place
        (Spec, (), Spec, "walltime", "resources.walltime"),
        (Spec, (), Spec, "time_limit", "resources.walltime"),
        (Spec, (), Spec, "walltimes", "resources.walltime"),
        (Spec, (), Spec, "queue", "resources.partition"),
        (Site, (), Site, "node_local", "storage.node_local"),
        (Site, ("scheduler",), SchedulerSite, "quota", "storage.node_local.quota"),
        # limits of a partition
        (Site, (), Site, "max_gpus", "partitions.NAME.max_gpus"),
        # no key at all: `shared` has only letters in common with `threads`
        (Site, ("storage", "node_local"), NodeLocal, "threads", None),
        (Spec, (), Spec, "zzz", None),
    ],
)
def test_the_key_that_was_meant(root, path, schema, name, expected):
    said = unknown_key(name, keys(schema), root, path, "site")
    listed = "`dlrun keys --profile` lists the keys"
    assert said == (f"the nearest key is `{expected}`; {listed}" if expected else listed)


@pytest.mark.parametrize(
    ("name", "written"),
    [("directives", "{scheduler: {directives: …}}"), ("fabric", "{fabric: …}"), ("interfaces", "{fabric: {interfaces: …}}"),
     ("modules", "{environment: {modules: …}}")],
)  # fmt: skip
@pytest.mark.parametrize(("place", "schema"), [("partitions", Partition), ("node_types", NodeType)])
def test_what_holds_for_some_nodes_is_an_override(name, written, place, schema):
    said = unknown_key(name, keys(schema), Site, (place, "x"), "site")
    assert (
        said
        == f"write it under `overrides:` here, `overrides: {written}`; `dlrun keys --profile` lists the keys"
    )
