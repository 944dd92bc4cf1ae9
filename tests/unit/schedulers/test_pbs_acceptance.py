"""Whether PBS would take a job, from what a real server printed of itself."""

from __future__ import annotations

import pytest

from dlrun.model.units import Bytes, Duration
from dlrun.schedulers.pbs import acceptance
from tests.fakebin import CAPTURED
from tests.unit.schedulers.making import request

SERVER, QUEUES, NODES = (
    (CAPTURED / "openpbs" / f"{name}.txt").read_text("utf-8") for name in ("server", "queues", "nodes")
)
RESERVATION = """\
Resv ID: R7.login
    Reserve_Name = course
    Reserve_Owner = bob@login
    reserve_state = RESV_CONFIRMED
    Authorized_Users = bob@login, alice@login
"""


def judge(asked, *, queues=QUEUES, server=SERVER, nodes=NODES, more=(), user="alice", groups=("alice",)):
    return acceptance.judge(asked, [server, queues, nodes, *more], user, groups)


def test_a_job_within_the_limits():
    found = judge(request(walltime=Duration(3600), cpus_per_rank=2))
    assert found.problems == []
    assert "queue `debug`" in found.accepted, "the server's default"
    assert "hooks" in found.accepted, "what nobody can know is said"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (
            {"walltime": Duration(3 * 3600)},
            "queue `debug` allows at most walltime 02:00:00, but resources.walltime exceeds it",
        ),
        ({"nodes": 3, "ranks": 6}, "queue `debug` allows at most nodect 2, but resources.nodes exceeds it"),
        ({"partition": "debg"}, "the server has no queue `debg`; the nearest is `debug`"),
        (
            {"cpus_per_rank": 12},
            "0 of 3 nodes satisfy the request for a node, but the job needs 2",
        ),
        (
            {"memory_per_node": Bytes(5 << 30)},
            "0 of 3 nodes satisfy the request for a node, but the job needs 2",
        ),
        (
            {"gpus_per_node": 1},
            "0 of 3 nodes satisfy the request for a node, but the job needs 2",
        ),
        ({"array": 20000}, "the server allows arrays of at most 10000 tasks, but the sweep has 20000 points"),
    ],
)
def test_what_speaks_against_a_job(asked, problem):
    found = [
        one.replace("of 2 nodes", "of 3 nodes").replace("of 4 nodes", "of 3 nodes")
        for one in judge(request(**asked)).problems
    ]
    assert problem in found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("enabled = False", "queue `debug` does not accept jobs now (enabled = False)"),
        ("from_route_only = True", "queue `debug` accepts jobs only from routing queues"),
        (
            "acl_user_enable = True\n    acl_users = bob@*,eve@login",
            "queue `debug` is restricted to the users bob@*,eve@login",
        ),
        (
            "acl_user_enable = True\n    acl_users = -alice@*,+",
            "queue `debug` is restricted to the users -alice@*,+",
        ),
        ("acl_group_enable = True\n    acl_groups = chem", "queue `debug` is restricted to the groups chem"),
        (
            "resources_min.nodect = 4",
            "queue `debug` requires at least nodect 4, but resources.nodes is less",
        ),
    ],
)
def test_what_a_queue_says_of_itself(line, problem):
    key = line.partition(" ")[0]
    stanza = "\n".join(one for one in QUEUES.splitlines() if key not in one)
    other = stanza.replace("    resources_max.nodect = 2\n", f"    {line}\n")
    assert judge(request(), queues=other).problems == [problem]


@pytest.mark.parametrize(
    "line",
    ["acl_user_enable = True\n    acl_users = alice@login", "acl_user_enable = False\n    acl_users = bob",
     "acl_group_enable = True\n    acl_groups = chem,alice", "acl_user_enable = True\n    acl_users = -bob,+"],
)  # fmt: skip
def test_who_is_let_in(line):
    other = QUEUES.replace("    resources_max.nodect = 2\n", f"    {line}\n")
    assert judge(request(), queues=other).problems == []


def test_a_stopped_queue_takes_jobs_that_wait():
    stopped = QUEUES.replace("started = True", "started = False")
    found = judge(request(), queues=stopped)
    assert found.problems == []
    assert "it would wait, because queue `debug` is stopped" in found.accepted


def test_nodes_that_are_down_may_come_back():
    found = judge(request(), nodes=NODES.replace("state = free", "state = down,offline"))
    assert found.problems == []
    assert "it would wait, because only 0 of them are up" in found.accepted


def test_a_client_that_fails_says_nothing():
    assert judge(request(walltime=Duration(9**9)), queues="", nodes="").problems == []


def test_reservations():
    asked = request(reservation="R7")
    assert acceptance.questions(asked)[-1] == ("pbs_rstat", "-f", "R7")
    assert judge(asked, more=[RESERVATION]).problems == []
    assert judge(asked, more=[""]).problems == [
        "PBS has no reservation `R7`: `pbs_rstat` lists those that you may use"
    ]
    (told,) = judge(asked, more=[RESERVATION.replace(", alice@login", "")]).problems
    assert told == "the reservation `R7` is restricted to bob@login"
    (told,) = judge(asked, more=[RESERVATION.replace("CONFIRMED", "UNCONFIRMED")]).problems
    assert told == "the reservation `R7` is not confirmed (RESV_UNCONFIRMED)"


def test_a_queue_of_another_server_is_asked_for_there():
    """`NAME@SERVER` under `queue:` of a partition: a site with two servers."""
    asked = request(partition="debug@pbs2", walltime=Duration(3 * 3600))
    assert acceptance.questions(asked) == [
        ("qstat", "-B", "-f", "pbs2"),
        ("qstat", "-Q", "-f", "@pbs2"),
        ("pbsnodes", "-a", "-s", "pbs2"),
    ]
    (problem,) = judge(asked).problems
    assert problem.startswith("queue `debug` allows at most walltime 02:00:00")


TORQUE_SERVER = "Server: torque01\n    server_state = Active\n    default_queue = batch\n"
TORQUE_QUEUES = """\
Queue: batch
    queue_type = Execution
    resources_max.nodect = 4
    resources_max.walltime = 24:00:00
    enabled = True
    started = True
"""
TORQUE_NODES = """\
n01
     state = free
     power_state = Running
     np = 8
     properties = fast,gpu
     ntype = cluster
     status = rectime=1328810402,state=free,ncpus=8,physmem=8193724kb,availmem=13922548kb,totmem=16581304kb,opsys=linux
     mom_service_port = 15002
     mom_manager_port = 15003
     gpus = 2

n02
     state = down
     np = 4
     properties = slow
     ntype = cluster
     mom_service_port = 15002
     mom_manager_port = 15003
"""


@pytest.mark.parametrize(
    ("asked", "problems"),
    [
        ({"cpus_per_rank": 4}, []),
        ({"cpus_per_rank": 4, "memory_per_node": Bytes(7 << 30), "gpus_per_node": 2}, []),
        ({"cpus_per_rank": 4, "constraint": "fast:gpu"}, []),
        ({"cpus_per_rank": 2, "constraint": "slow"}, []),
        ({"cpus_per_rank": 4, "constraint": "slow"}, ["0 of 2 nodes"]),
        ({"cpus_per_rank": 5}, ["0 of 2 nodes"]),
        ({"gpus_per_node": 3}, ["0 of 2 nodes"]),
        ({"memory_per_node": Bytes(9 << 30), "cpus_per_rank": 4}, ["0 of 2 nodes"]),
        ({"walltime": Duration(25 * 3600)}, ["queue `batch` allows at most walltime"]),
    ],
)
def test_nodes_of_torque_are_known_by_other_names(asked, problems):
    """Written after pbsnodes(8) of Torque 6: `np`, `gpus`, `properties`, and the memory in `status`."""
    wanted = request(**{"nodes": 1, "ranks": 2, **asked})
    found = judge(wanted, server=TORQUE_SERVER, queues=TORQUE_QUEUES, nodes=TORQUE_NODES).problems
    assert [one.startswith(start) for one, start in zip(found, problems, strict=True)] == [True] * len(
        problems
    ), found


def test_a_node_of_torque_that_is_down_may_come_back():
    wanted = request(nodes=1, ranks=2, cpus_per_rank=2, constraint="slow")
    found = judge(wanted, server=TORQUE_SERVER, queues=TORQUE_QUEUES, nodes=TORQUE_NODES)
    assert "it would wait, because only 0 of them are up" in found.accepted


def test_clients_of_slurm_that_are_named_like_those_of_torque_leave_it_open():
    """Its `qstat -B -f` is a table of jobs: nothing is known of a default queue then."""
    found = judge(request(), server="Job id  Name\n------  ----\n1       a.sh\n", queues="", nodes="")
    assert found.problems == []
    assert "its default queue" in found.accepted
