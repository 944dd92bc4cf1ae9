"""Horovod: MPI does it all, or Gloo and the key/value server that travels with the job."""

from __future__ import annotations

import pytest

from dlrun.frameworks import horovod
from tests.unit.frameworks.making import problems, roles, run_process, shape, told, words


@pytest.mark.parametrize("launcher", ["openmpi", "hydra", "intelmpi", "pals"])
def test_under_an_mpi_nothing_but_the_controller_is_said(launcher):
    found = roles(horovod, launcher=launcher)
    assert list(found) == ["rank"]
    assert told(found["rank"]) == {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}
    assert horovod.ports(shape(launcher=launcher), horovod.Options()) == 0


@pytest.mark.parametrize("launcher", ["srun", "ssh", "local"])
def test_elsewhere_a_server_runs_on_the_first_node(launcher):
    found = roles(horovod, launcher=launcher)
    server = found["rendezvous"]
    assert (server.place, server.service, server.ends, server.binds) == ("first", True, False, False)
    assert words(server.argv) == "python3 $DLRUN_JOB_DIR/hvd_rendezvous.py $DLRUN_MASTER_PORT 4 2"
    assert server.files == ("hvd_rendezvous.py",)
    assert "$DLRUN_MASTER_ADDR/$DLRUN_MASTER_PORT" in str(server.ready)
    assert told(found["rank"])["HOROVOD_CONTROLLER"] == "gloo"
    assert horovod.ports(shape(launcher=launcher), horovod.Options()) == 1


def test_the_spec_decides_controller_and_operations():
    options = horovod.Options(controller="gloo", cpu_operations="ccl")
    assert told(roles(horovod, options, launcher="openmpi")["rank"])["HOROVOD_CPU_OPERATIONS"] == "ccl"
    assert problems(horovod, horovod.Options(controller="mpi"), launcher="ssh") == ["DLR028"]
    assert problems(horovod, horovod.Options(controller="mpi"), launcher="srun") == []


@pytest.mark.parametrize(
    ("interface", "nodes", "there"), [("ib0", 2, True), ("ib0", 1, False), (None, 2, False)]
)
def test_the_interface_is_the_sites_between_nodes(interface, nodes, there):
    found = roles(horovod, interface=interface, nodes=nodes)
    assert ("HOROVOD_GLOO_IFACE" in told(found["rank"])) is there


@pytest.mark.parametrize(
    ("rank", "said"),
    [(0, "0/3 0/2 0/2 node0"), (1, "1/3 1/2 0/1 node0"), (2, "2/3 0/1 1/2 node1")],
)
def test_every_rank_knows_its_places_also_on_a_last_node_with_fewer(rank, said, tmp_path):
    show = (
        "printf '%s/%s %s/%s %s/%s %s' $HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_RANK $HOROVOD_LOCAL_SIZE "
        "$HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE $HOROVOD_HOSTNAME"
    )
    spec = f'framework: horovod\ncommand: [bash, -c, "{show}"]\nresources: {{nodes: 2, ranks_per_node: 2, ranks: 3}}'
    assert run_process(tmp_path, spec, "rank", rank).splitlines()[-1] == said
