"""MXNet: the scheduler, the servers and the workers of ps-lite, which all run the same command."""

from __future__ import annotations

import re

import pytest

from dlrun.frameworks import mxnet
from tests.library import call
from tests.making import plan_of, scripts_of
from tests.unit.frameworks.making import COMMAND, SSH, problems, roles, run_process, told


def test_three_roles_run_one_command():
    found = roles(mxnet, mxnet.Options(servers_per_node=3))
    assert [(r.name, r.place, r.per_node, r.service, r.ends) for r in found.values()] == [
        ("scheduler", "first", 1, True, True),
        ("server", "node", 3, True, True),
        ("worker", "rank", 1, False, False),
    ]
    assert {r.argv for r in found.values()} == {COMMAND}
    assert [told(r)["DMLC_ROLE"] for r in found.values()] == ["scheduler", "server", "worker"]
    for role in found.values():
        assert told(role)["DMLC_NUM_SERVER"] == "6"
        assert told(role)["DMLC_NUM_WORKER"] == "4"


def test_the_root_is_an_address_in_numbers(tmp_path):
    spec = 'framework: mxnet\ncommand: [bash, -c, "echo $DMLC_PS_ROOT_URI:$DMLC_PS_ROOT_PORT"]\nresources: {nodes: 2}'
    assert run_process(tmp_path, spec, "scheduler", 0).splitlines()[-1] == "10.0.0.1:20000"


@pytest.mark.parametrize(
    ("interface", "nodes", "name", "value"),
    [
        ("ib0", 2, "DMLC_INTERFACE", "ib0"),
        (None, 2, "DMLC_NODE_HOST", "$DLRUN_OWN_ADDRESS"),
        ("ib0", 1, "DMLC_NODE_HOST", "$DLRUN_OWN_ADDRESS"),
    ],
)
def test_nodes_are_reached_by_the_sites_interface_or_their_own_address(interface, nodes, name, value):
    variables = told(roles(mxnet, interface=interface, nodes=nodes)["server"])
    assert {n: v for n, v in variables.items() if n in ("DMLC_INTERFACE", "DMLC_NODE_HOST")} == {name: value}


@pytest.mark.parametrize(
    ("packages", "codes"),
    [
        ({"mxnet": "1.9.1", "numpy": "1.24.0"}, ["DLR043!"]),
        ({"mxnet": "1.9.1", "numpy": "2.4"}, ["DLR043!"]),
        ({"mxnet": "1.9.1", "numpy": "1.23.5"}, []),
        ({"mxnet": "2.0.0b1", "numpy": "1.26"}, []),
        ({"numpy": "2.4"}, []),
        (None, []),
    ],
)
def test_numpy_must_still_have_bool(packages, codes):
    assert problems(mxnet, packages=packages) == codes


def test_the_loopback_address_is_no_address_for_several_hosts():
    assert problems(mxnet, variables={"DMLC_NODE_HOST": "127.0.0.1"}) == ["DLR040"]
    assert problems(mxnet, variables={"DMLC_NODE_HOST": "127.0.0.1"}, nodes=1) == []
    assert problems(mxnet, variables={"DMLC_NODE_HOST": "10.0.0.1"}) == []


def test_open_mpi_has_slots_for_each_roles_processes(tmp_path):
    """Each role's mpirun reads a host file of its own, and refuses to start more than that says."""
    spec = "framework: mxnet\nlauncher: openmpi\nmxnet: {servers_per_node: 3}\nresources: {nodes: 2, ranks_per_node: 2}"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["job.sh"]
    assert re.findall(r'dlrun_openmpi (\d) .*hostfile "\$DLRUN_HOSTS"(\S+) --map-by ppr:(\d):node', script) == [
        ("1", "-first-x1", "1"), ("3", "-x3", "3"), ("2", "-x2", "2"),
    ]  # fmt: skip
    (tmp_path / "hosts").write_text("n1\nn2\n")
    (tmp_path / "hosts-first").write_text("n1\n")
    said = call(
        tmp_path,
        "dlrun_source openmpi; export NCCL_DEBUG='a b'; dlrun_openmpi 3 mpirun -np 6",
        mpirun='printf "%s\n" "$@"',
    )
    assert "-x\nNCCL_DEBUG\n" in said.stdout
    assert said.stdout.endswith("\n-np\n6\n")
    assert (tmp_path / "hosts-x3").read_text() == "n1 slots=3\nn2 slots=3\n"
    assert (tmp_path / "hosts-first-x3").read_text() == "n1 slots=3\n"
