"""What `dlrun site test` makes of the answers of nodes: a verdict on each key, and the right line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrun.model.problem import InvalidFile
from dlrun.model.site import NodeType
from dlrun.node.checks import check_site, describe
from dlrun.schedulers.facts import Cluster, Nodes, Queue
from dlrun.site import verdicts
from dlrun.site.testing import limits, places
from dlrun.site.testing.answers import MARK, parsed
from dlrun.site.testing.fact import Fact, merged
from dlrun.site.testing.hardware import hardware
from dlrun.site.testing.run import Verdicts, _WithOrigin
from dlrun.site.testing.surroundings import surroundings
from dlrun.site.verdicts import lines_of
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import load_site

PROFILE = """\
name: crag
scheduler: {type: slurm}
launcher: {name: srun}
partitions:
  debug: {default: true, node_type: n, max_walltime: 2h, max_nodes: 4}
  long: {node_type: n, min_walltime: 1h, min_nodes: 3}
node_types:
  n: {count: 8}
fabric: {name: infiniband, interfaces: [ib0, ib1]}
storage: {node_local: {path: /local, size: 1TiB}, shared: [/work]}
environment: {modules: [gcc/13, cuda/12.6]}
"""


@pytest.fixture
def loaded(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(PROFILE)
    return load_site(str(path))


def node(host="n1", tree=None, **rest):
    """The answers of a node as its log has them, between lines of others."""
    facts = {
        "version": 1, "host": host, "starters": {}, "environment": {},
        "tree": tree if tree is not None else {"sys/class/net/eth0/operstate": "up", "sys/class/net/ib1/operstate": "up"},
        "file_systems": [{"path": "/tmp", "type": "xfs", "device": "/dev/sda1", "shared": False, "writable": True,
                          "free": 2**40, "rotational": False}],
        **rest,
    }  # fmt: skip
    lines = ["a module's greeting", f"[0] dlrun-site {json.dumps(facts)}", 'dlrun-site {"cut": ']
    (answers,) = parsed(lines)
    return answers


def lines(facts):
    return {fact.key: (fact.verdict, fact.line) for fact in facts}


@pytest.mark.parametrize(("stated", "verdict", "line"), [(4, "holds", None), (2, "differs", "gpus: 4")])
def test_gpus_of_nodes_whose_cores_are_not_described(stated, verdict, line):
    live = Nodes(name="n", count=1, memory_mib=1000, gpus=4)
    found = hardware("n", NodeType(gpus=stated), None, [node()], live)
    assert lines(found) == {"node_types.n.gpus": (verdict, line)}


def test_gpus_are_stated_once(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(PROFILE.replace("{count: 8}", "{gpus: 4, topology: {packages: 1, cores: 8}}"))
    with pytest.raises(InvalidFile, match="GPUs are part of it: remove `gpus`"):
        topology_for_site(load_site(str(path)), "n")


def test_interfaces_that_are_up_stay_in_the_corrected_line(loaded):
    found = lines(surroundings(loaded.site, [node()]))
    assert found["fabric.interfaces"] == ("differs", "interfaces: [ib1]")
    assert found["fabric.name"] == ("differs", "name: ethernet")


def test_a_fabric_is_proved_by_its_devices(loaded):
    tree = {
        "sys/class/infiniband/mlx5_0": "-> x",
        "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
        "sys/class/net/ib0/operstate": "up",
        "sys/class/net/ib1/operstate": "up",
    }
    found = lines(surroundings(loaded.site, [node(tree=tree)]))
    assert found["fabric.name"] == ("holds", None)
    assert found["fabric.interfaces"] == ("holds", None)


@pytest.mark.parametrize(
    ("there", "key", "verdict", "line"),
    [
        ({"path": "/local", "exists": False, "writable": False, "type": ""}, "path", "differs", "path: /tmp"),
        ({"path": "/local", "exists": True, "writable": False, "type": "xfs"}, "path", "differs", "path: /tmp"),
        ({"path": "/local", "exists": True, "writable": True, "type": "xfs", "size": 2**39, "rotational": False},
         "size", "differs", "size: 512GiB"),
        ({"path": "/local", "exists": True, "writable": True, "type": "tmpfs", "size": 2**41, "rotational": None},
         "kind", "differs", "kind: memory"),
        ({"path": "/local", "exists": True, "writable": True, "type": "xfs", "size": 2**41, "rotational": False},
         "path", "holds", None),
    ],
)  # fmt: skip
def test_node_local_storage(loaded, there, key, verdict, line):
    found = lines(surroundings(loaded.site, [node(node_local=there)]))
    assert found[f"storage.node_local.{key}"] == (verdict, line)


def test_a_module_is_replaced_by_the_nearest_that_there_is(loaded):
    tried = {
        "gcc/13": {"loads": True, "output": ""},
        "cuda/12.6": {
            "loads": False,
            "output": "ERROR: Unable to locate a modulefile for 'cuda/12.6'",
            "available": ["/apps/modules:", "cuda/11.8", "cuda/12.4(default)"],
        },
    }
    facts = [f for f in surroundings(loaded.site, [node(modules=tried)]) if f.key == "environment.modules"]
    assert merged(facts)[0].line == "modules: [gcc/13, cuda/12.4]"
    assert "Unable to locate" in merged(facts)[0].seen


def test_a_job_for_each_partition_within_its_limits(loaded):
    debug, long = places.places(loaded.site)
    assert (debug.nodes, debug.walltime) == (2, 600)
    assert (long.nodes, long.walltime) == (3, 3600)
    assert places.places(loaded.site, ("long",)) == [long]


def test_limits_that_the_scheduler_lists_and_those_it_is_asked_about(loaded):
    hosts = tuple(f"n{i}" for i in range(1, 7))
    cluster = Cluster(
        scheduler="slurm",
        queues=(Queue(name="debug", default=True, max_walltime="01:00:00", max_nodes=4, kinds=("n",)),),
        nodes=(Nodes(name="n", count=6, memory_mib=1000, hosts=hosts),),
    )
    site = loaded.site
    found = lines(
        [
            *limits.of_partition("debug", site.partitions["debug"], cluster),
            *limits.of_partition("long", site.partitions["long"], cluster),
            *limits.counts(site, {"n": cluster.nodes[0]}),
        ]
    )
    assert found["partitions.debug.max_walltime"] == ("differs", "max_walltime: 1h")
    assert found["partitions.debug.max_nodes"] == ("holds", None)
    assert found["partitions.long"][0] == "differs"
    assert found["node_types.n.count"] == ("differs", "count: 6")

    def accepts(resources):
        return "QOSMaxNodePerJobLimit" if "nodes" in resources else None

    asked = {fact.key: fact for fact in limits.by_acceptance("debug", site.partitions["debug"], accepts)}
    assert asked["partitions.debug.max_walltime"].verdict == "holds"
    assert (
        "a job of 4 nodes would be refused: QOSMaxNodePerJobLimit" in asked["partitions.debug.max_nodes"].seen
    )


def test_the_profile_is_printed_with_the_right_line_below_each_that_is_wrong(loaded):
    at = _WithOrigin(loaded)
    facts = [
        at(
            Fact(
                key="fabric.interfaces",
                verdict="differs",
                seen="up is eth0",
                where="n1",
                line="interfaces: [eth0]",
            )
        ),
        at(Fact(key="fabric.name", verdict="holds", seen="mlx5_0", where="n1")),
        at(Fact(key="launcher", verdict="holds", seen="ranks began on n1, n2", where="debug")),
        at(Fact(key="rendezvous", verdict="not seen", seen="nothing", where="debug")),
    ]
    text = "\n".join(lines_of(Verdicts(loaded=loaded, facts=facts, jobs=1)))
    assert "wrong   interfaces: [ib0, ib1]  # n1: up is eth0\n->      interfaces: [eth0]\n" in text
    assert "\nok      name: infiniband  # n1: mlx5_0\n" in text
    assert "\nok    launcher:  # debug: ranks began on n1, n2\n" in text
    assert "# Not in the profile:\n?     rendezvous  # debug: nothing" in text


def test_modules_are_tried_one_after_the_other_in_a_shell_of_the_site(tmp_path):
    setup = """module() {
  if [[ $1 == -t ]]; then echo none/2; elif [[ $2 == bad ]]; then echo "ERROR: bad" >&2; fi
  [[ $1 != load || $2 == good* || $2 == bad ]] || { echo "no $2" >&2; return 1; }
}"""
    found = check_site.modules(
        {"setup": [setup], "hygiene": "purge", "modules": ["good/1", "good/2", "none/1", "good/3"]}
    )
    assert [found[name]["loads"] for name in ("good/1", "good/2", "none/1")] == [True, True, False]
    assert "no none/1" in found["none/1"]["output"]
    assert found["none/1"]["available"] == ["none/2"]
    assert "good/3" not in found
    silent = check_site.modules({"setup": [setup], "modules": ["bad"]})
    assert not silent["bad"]["loads"], "old versions of Environment Modules fail with exit code 0"


def test_a_directory_is_looked_at_after_its_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH_HERE", str(tmp_path))
    found = check_site.describe_directory("$SCRATCH_HERE")
    assert (found["path"], found["exists"], found["writable"]) == (str(tmp_path), True, True)
    assert found["size"] >= found["free"] > 0
    assert check_site.describe_directory(str(Path(tmp_path) / "none"))["exists"] is False


BILLED = """\
name: crag
scheduler: {type: slurm, exclusive: true}
launcher: {name: srun}
billing: {unit: SUs, factor: 3}
partitions:
  debug: {default: true, node_type: n, max_walltime: 6m}
  huge: {node_type: n, min_nodes: 513}
node_types:
  n: {count: 1000, topology: {packages: 2, cores: 4}}
"""


def priced(path, *options):
    from click.testing import CliRunner

    from dlrun.site.command import command

    done = CliRunner().invoke(
        command, ["test", str(path), "--dry-run", *options], standalone_mode=False, catch_exceptions=False
    )
    return done.output.splitlines()


def test_what_the_jobs_cost_is_known_before_any_is_submitted(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(BILLED)
    debug, huge, total = priced(path)
    assert debug == "debug (n): 2 nodes for at most 6m, 12 node-minutes (0.6 SUs)"
    assert huge.startswith("huge (n): 513 nodes for at most 10m, 5130 node-minutes (256 SUs): not submitted")
    assert total == "1 job, together at most 12 node-minutes (0.6 SUs)"


def test_a_large_job_is_submitted_only_where_its_partition_is_named(tmp_path, loaded):
    path = tmp_path / "crag.yaml"
    path.write_text(BILLED)
    assert priced(path, "--partition", "huge")[-1] == "1 job, together at most 5130 node-minutes (256 SUs)"
    assert [places.is_run(place, ()) for place in places.places(loaded.site)] == [True, True]


SPOILT = [
    {"memory_kib": "x"}, {"memory_kib": 10**400}, {"memory_kib": -1}, {"memory_kib": True}, {"names": []}, {"gpu_devices": ["x"]},
    {"shared": {"/x": None}}, {"node_local": {"path": "/x"}}, {"modules": {"a": {"loads": 1, "output": ""}}},
    {"file_systems": [{"path": "/x"}]}, {"file_systems": [1]}, {"starters": 1}, {"environment": [[]]},
]  # fmt: skip


@pytest.mark.parametrize("spoilt", SPOILT, ids=str)
def test_an_answer_of_another_shape_is_passed_over(spoilt):
    whole = {"version": 1, "host": "n1", "tree": {}, "file_systems": [], "starters": {}, "environment": {}}
    place = {"path": "/x", "exists": True, "writable": True, "type": "ext4", "size": 1, "rotational": None}
    file_system = {
        "path": "/x",
        "type": "",
        "shared": False,
        "writable": True,
        "free": 0,
        "rotational": False,
    }
    good = whole | {
        "memory_kib": 5,
        "shared": {"/x": place},
        "gpu_devices": [1, 2],
        "file_systems": [file_system],
    }
    lines = [MARK + json.dumps(one) for one in (whole | spoilt, good)]
    assert [one.rest for one in parsed(lines)] == [good]


def test_a_mount_at_a_path_with_blanks():
    """Any user may mount one: what follows the blank is neither its type nor another file system."""
    assert describe.mount("me /tmp/a\\040nfs4 fuse.x rw 0 0") == ["me", "/tmp/a nfs4", "fuse.x"]


def test_output_of_several_lines_is_one_comment():
    fact = Fact(
        key="partitions.p", verdict="differs", seen="sbatch: error: no\n\n  Batch job failed", where="p"
    )
    assert verdicts._note(fact) == "p: sbatch: error: no / Batch job failed"
