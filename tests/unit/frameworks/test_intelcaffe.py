"""Intel Caffe: what its script computes, from the placement; and oneCCL's programs, which want the same."""

from __future__ import annotations

import pytest

from dlrun.frameworks.mpi import intelcaffe, oneccl
from tests.making import plan_of
from tests.unit.frameworks.making import placed, problems, roles, run_process, told

NODE = """\
name: here
scheduler: {{type: openpbs, exclusive: true}}
launcher: {{name: intelmpi}}
partitions: {{work: {{node_type: skx, default: true}}}}
node_types: {{skx: {{topology: {{packages: 2, cores: {cores}, smt: {smt}}}}}}}
"""


def site(cores=24, smt=1):
    return NODE.format(cores=cores, smt=smt)


def planned(place, spec="", **node):
    """The variables of one process of a plan, and how many threads it computes with."""
    text = f"framework: intelcaffe\nresources: {{nodes: 2, ranks_per_node: 2}}\n{spec}"
    plan = plan_of(place, text, site(**node))
    variables = {v.name: str(v.value) for v in (*plan.variables, *plan.roles[0].variables)}
    return plan, variables


@pytest.mark.parametrize(
    ("smt", "pins"),
    [
        (1, "20,21 44,45"),  # the formula would give the servers' cores
        (2, "70,71 94,95"),  # total × (ht - 1) + total × (p + 1) / ppn - 1, and the one before
    ],
)
def test_the_published_example_comes_out(smt, pins, tmp_path):
    plan, told = planned(tmp_path, smt=smt)
    assert told["MLSL_NUM_SERVERS"] == "2"
    assert told["OMP_NUM_THREADS"] == "22"
    assert told["KMP_AFFINITY"] == "granularity=fine,compact,1,0"
    assert told.get("KMP_HW_SUBSET") == {1: None, 2: "1t"}[smt]
    assert told["KMP_BLOCKTIME"] == "1"
    assert sorted(map(int, told["MLSL_SERVER_AFFINITY"].split(","))) == [22, 23, 46, 47]
    assert f"set -- {pins};" in told["INTERNAL_THREADS_PIN"]
    assert [rank.threads for rank in plan.binding.placement.ranks] == [22, 22]


@pytest.mark.parametrize(("ppn", "servers", "threads"), [(1, 2, 46), (2, 4, 20), (4, 2, 10), (2, 0, 24)])
def test_threads_are_the_cores_that_servers_leave(ppn, servers, threads, tmp_path):
    options = f"intelcaffe: {{servers: {servers}}}"
    text = f"framework: intelcaffe\nresources: {{nodes: 2, ranks_per_node: {ppn}}}\n{options}"
    plan = plan_of(tmp_path, text, site())
    variables = {v.name: str(v.value) for v in (*plan.variables, *plan.roles[0].variables)}
    assert variables["OMP_NUM_THREADS"] == str(threads)
    assert variables["MLSL_NUM_SERVERS"] == str(servers)
    assert ("I_MPI_SPAWN" in variables) is (servers > 0)
    of_servers = variables.get("MLSL_SERVER_AFFINITY", "")
    assert len([cpu for cpu in of_servers.split(",") if cpu]) == ppn * servers


def test_one_rank_a_node_has_its_threads_in_its_mask(tmp_path):
    """The script names the cores; the rank's mask holds the same ones, in the same order."""
    text = "framework: intelcaffe\nresources: {nodes: 2, ranks_per_node: 1}"
    plan = plan_of(tmp_path, text, site())
    variables = {v.name: str(v.value) for v in plan.roles[0].variables}
    assert variables["KMP_AFFINITY"] == "granularity=fine,compact,1,0"
    assert plan.binding.placement.ranks[0].mask == tuple(range(46))


def test_each_rank_has_its_own_internal_threads(tmp_path):
    script = 'framework: intelcaffe\ncommand: [bash, -c, "echo pins $INTERNAL_THREADS_PIN"]\n'
    spec = f"{script}intelcaffe: {{mlsl_root: /m}}\nresources: {{nodes: 2, ranks_per_node: 2}}"
    for rank, pins in ((0, "20,21"), (1, "44,45"), (3, "44,45")):
        place = tmp_path / str(rank)
        place.mkdir()
        said = run_process(place, spec, "rank", rank, site=site())
        assert said.splitlines()[-1] == f"pins {pins}"


@pytest.mark.parametrize(
    ("fabric", "interface", "nodes", "said"),
    [
        ("omni-path", None, 2, {"FI_PROVIDER": "psm2"}),
        ("ethernet", "eth1", 2, {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth1"}),
        ("infiniband", "ib0", 2, {}),
        ("omni-path", None, 1, {}),
    ],
)
def test_fabrics_are_said_in_todays_words(fabric, interface, nodes, said):
    variables = told(roles(intelcaffe, fabric=fabric, interface=interface, nodes=nodes)["rank"])
    assert {n: v for n, v in variables.items() if n.startswith(("FI_", "I_MPI_FAB", "I_MPI_TMI"))} == said


def test_options_are_passed_on():
    options = intelcaffe.Options(message_priority=True, allreduce="4", mlsl_root="/opt/mlsl", servers=1)
    variables = told(roles(intelcaffe, options)["rank"])
    assert variables["MLSL_MSG_PRIORITY_THRESHOLD"] == "10000"
    assert variables["I_MPI_ADJUST_IALLREDUCE"] == "4"
    assert variables["MLSL_ROOT"] == "/opt/mlsl"
    assert intelcaffe.comm_cores(options) == 1


def test_what_cannot_work():
    assert problems(intelcaffe) == ["DLR048!"]
    assert problems(intelcaffe, intelcaffe.Options(servers=0)) == []
    priority = intelcaffe.Options(message_priority=True)
    ranks = placed((8, 9), (12, 13))
    assert problems(intelcaffe, priority, ranks=ranks, world_size=6) == ["DLR049"]
    assert problems(intelcaffe, priority, ranks=ranks, world_size=8) == []


def test_oneccl_workers_have_the_communication_cores():
    ranks = placed((8,), (12,))
    variables = told(roles(oneccl, ranks=ranks)["rank"])
    assert variables == {"CCL_ATL_TRANSPORT": "mpi", "CCL_WORKER_COUNT": "1", "CCL_WORKER_AFFINITY": "8,12"}
    assert oneccl.comm_cores(oneccl.Options(workers=2)) == 2
    assert problems(oneccl, ranks=ranks) == []
    assert problems(oneccl) == ["DLR048!"]
    assert problems(oneccl, variables={"CCL_WORKER_AFFINITY": "1"}) == []
