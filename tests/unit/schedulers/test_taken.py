"""What a scheduler took a job as, from the output of each one's client, and how that differs from the request."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.plan import Request
from dlrun.model.units import Duration
from dlrun.schedulers.taken import Taken, differences

SLURM = """JobId=7 JobName=x UserId=a(1) GroupId=a(1) Priority=1 Nice=0 Account=proj QOS=normal JobState=PENDING \
Reason=None Dependency=(null) TimeLimit=1-01:30:00 TimeMin=N/A SubmitTime=2026-01-01T00:00:00 Partition=low \
NumNodes=2-2 NumCPUs=8
"""
SEVERAL_TYPES = "JobId=7 HetJobId=7 Partition=low NumNodes=1\nJobId=8 HetJobId=7 Partition=b NumNodes=2-2\n"
PBS = """Job Id: 7.server
    Job_Name = x
    queue = low
    Account_Name = proj
    Resource_List.nodect = 2
    Resource_List.walltime = 25:30:00
"""
GRID_ENGINE = """==============================================================
job_number:                 7
hard resource_list:         h_rt=91800,h_vmem=4G
hard_queue_list:            low
parallel environment:  mpi range: 8
"""


@pytest.mark.parametrize(
    ("scheduler", "shown", "taken"),
    [
        ("slurm", SLURM.replace("\\\n", ""), Taken(partition="low", walltime=91800, nodes=2, account="proj", qos="normal")),
        ("slurm", SEVERAL_TYPES, Taken(partition="low", nodes=3)),
        ("slurm", "JobId=7 Account=(null) TimeLimit=UNLIMITED Partition=low NumNodes=1", Taken(partition="low", nodes=1)),
        ("slurm", "", None),
        ("openpbs", PBS, Taken(partition="low", walltime=91800, nodes=2, account="proj")),
        ("torque", PBS, Taken(partition="low", walltime=91800, nodes=2, account="proj")),
        ("gridengine", GRID_ENGINE, Taken(partition="low", walltime=91800)),
        ("flux", "low|91800.0\n", Taken(partition="low", walltime=91800)),
        ("flux", "", None),
    ],
)  # fmt: skip
def test_what_a_job_was_taken_as(scheduler, shown, taken):
    back_end = backends.scheduler(scheduler)
    assert back_end.taken("7")
    assert back_end.parse_taken(shown) == taken


def test_only_what_was_requested_and_differs_is_named():
    asked = Request(
        name="x", nodes=2, ranks=2, ranks_per_node=1, walltime=Duration(3600), partition="a,b", account="Proj", qos="high"
    )  # fmt: skip
    same = Taken(partition="b", walltime=3630, nodes=2, account="proj", qos="high")
    assert list(differences(asked, same)) == []
    other = Taken(partition="low", walltime=1800, nodes=1, account="other", qos="normal")
    assert list(differences(asked, other)) == [
        "partition `low`, not `a,b`",
        "walltime 30m, not 1h",
        "1 nodes, not 2",
        "account `other`, not `Proj`",
        "QOS `normal`, not `high`",
    ]
    assert list(differences(Request(name="x", nodes=2, ranks=2, ranks_per_node=1), other)) == [
        "1 nodes, not 2"
    ]
