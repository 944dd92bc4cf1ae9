"""Horovod: MPI does it all, or Gloo and the key/value server that travels with the job."""

from __future__ import annotations

import os

import pytest

from dlrun.frameworks.mpi import horovod
from tests.unit.frameworks.making import placed, problems, roles, run_process, shape, told, words


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


def test_the_background_thread_has_the_communication_core_that_the_placement_keeps():
    ranks = placed((3,), (7,), siblings=(((19,),), ((23,),)))
    assert told(roles(horovod, ranks=ranks)["rank"])["HOROVOD_THREAD_AFFINITY"] == "3,7"
    assert horovod.comm_cores(horovod.Options()) == 0
    options = horovod.Options(cpu_operations="ccl")
    said = told(roles(horovod, options, ranks=ranks)["rank"])
    assert (said["CCL_WORKER_COUNT"], said["CCL_WORKER_AFFINITY"]) == ("1", "3,7")
    assert said["HOROVOD_THREAD_AFFINITY"] == "19,23"  # oneCCL's worker has the core's first hardware thread
    assert horovod.comm_cores(options) == 1
    assert "HOROVOD_THREAD_AFFINITY" not in told(roles(horovod, options)["rank"])


NODE = """
name: box
scheduler: {{type: openpbs}}
launcher: {{name: ssh}}
node_types: {{box: {{topology: {{packages: 1, cores: {cores}}}}}}}
partitions: {{work: {{node_type: box, default: true, exclusive: true}}}}
"""


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")
@pytest.mark.parametrize(("cores", "said"), [(2, "1 and none"), (4096, "none and none")])
def test_a_rank_is_told_its_loader_cores_if_they_were_granted(cores, said, tmp_path):
    show = "echo ${DLRUN_LOADER_CPUS:-none} and ${DLRUN_COMM_CPUS:-none}"
    spec = f'framework: horovod\ncommand: [bash, -c, "{show}"]\nresources: {{ranks_per_node: 1}}\n'
    spec += "placement: {loader_cores: 1, memory: none}\n"
    printed = run_process(tmp_path, spec, "rank", 0, site=NODE.format(cores=cores)).splitlines()
    assert printed[-1] == said
    assert any("was not granted" in line for line in printed) == (cores > 2)
