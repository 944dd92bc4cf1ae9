"""What an allocation of Slurm has, as scontrol prints it."""

from __future__ import annotations

import pytest

from dlrun.schedulers.protocol import Granted
from dlrun.schedulers.slurm.granted import parse

BEGIN = (
    "JobId=12 JobName=interactive UserId=ada(1000) JobState=RUNNING EndTime=2026-11-25T22:10:00 Partition=gpu ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList={nodes} BatchHost=n1 NumNodes=2 NumCPUs=16 NumTasks=2 CPUs/Task=1 "
    "Socks/Node=* NtasksPerN:B:S:C={tasks}:0:*:* CoreSpec=* JOB_GRES=gpu:4 "
)


@pytest.mark.parametrize(
    ("nodes", "tasks", "rest", "granted"),
    [
        (
            "n[1-2]",
            "4",
            "  Nodes=n[1-2] CPU_IDs=0-7 Mem=4000 GRES=gpu:a100:2(IDX:0-1) MinCPUsNode=4",
            Granted(hosts=("n1", "n2"), cpus=8, gpus=2, tasks=4, partition="gpu", ends="2026-11-25T22:10:00"),
        ),
        (
            "n1,m7",
            "0",
            "  Nodes=n1 CPU_IDs=0-3,8 Mem=0 GRES=gpu:2(IDX:0,3),shard:4   Nodes=m7 CPU_IDs=1 Mem=0 GRES= MinCPUsNode=1",
            Granted(hosts=("n1", "m7"), cpus=1, gpus=0, partition="gpu", ends="2026-11-25T22:10:00"),
        ),
        (
            "n1",
            "0",
            " MinCPUsNode=1",
            Granted(hosts=("n1",), partition="gpu", ends="2026-11-25T22:10:00"),
        ),
        ("(null)", "0", "", Granted(hosts=(), partition="gpu", ends="2026-11-25T22:10:00")),
    ],
)
def test_the_node_with_fewest_counts(nodes, tasks, rest, granted):
    assert parse(BEGIN.format(nodes=nodes, tasks=tasks) + rest + "\n") == granted


def test_no_answer():
    assert parse("") == Granted(hosts=())
