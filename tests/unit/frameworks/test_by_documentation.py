"""Rows that follow documentation alone: MPI programs, IBM DDL's variable, Caffe2's flags."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.frameworks import caffe2
from dlrun.frameworks.mpi import ibm_ddl, mpi
from tests.unit.frameworks.making import COMMAND, RUN, roles, run_process, told, words


@pytest.mark.parametrize("name", ["chainermn", "cntk", "nvcaffe", "caffe_mpi", "torch_mpi", "theano_mpi"])
def test_mpi_programs_need_nothing_but_mpi(name):
    framework = backends.framework(name)
    assert roles(framework) == roles(mpi)
    assert name == framework.NAME
    assert framework.LAUNCHERS == mpi.LAUNCHERS


def test_ddl_is_told_the_shape_of_the_cluster():
    assert told(roles(ibm_ddl, nodes=3, ranks_per_node=4)["rank"]) == {"DDL_OPTIONS": "-mode p:4x3x1x1"}
    assert told(roles(ibm_ddl, ibm_ddl.Options(mode="b"))["rank"]) == {"DDL_OPTIONS": "-mode b:2x2x1x1"}


def test_caffe2_is_one_shard_a_node(tmp_path):
    spec = "framework: caffe2\ncommand: [echo, train]\nresources: {nodes: 2, ranks_per_node: 2}"
    assert run_process(tmp_path, spec, "shard", 1).splitlines()[-1] == (
        f"train --num_shards 2 --shard_id 1 --run_id {RUN} --file_store_path {tmp_path}"
    )
    shard = roles(caffe2, gpus_per_node=8, interface="ib0")["shard"]
    assert words(shard.argv).endswith("--num_gpus 8 --distributed_interfaces ib0")
    assert shard.argv[: len(COMMAND)] == COMMAND


def test_every_framework_keeps_the_protocol():
    for name in backends.FRAMEWORKS:
        framework = backends.framework(name)
        assert name == framework.NAME
        assert framework.TITLE
        found = roles(framework)
        training = [role for role in found.values() if not role.service]
        assert len(training) == 1, name
        assert framework.ports is not None
        assert framework.comm_cores(framework.Options()) >= 0
        assert framework.Options.__doc__
