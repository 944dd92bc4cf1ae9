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
            "queue `debug` allows walltime up to 02:00:00, and resources.walltime is more",
        ),
        ({"nodes": 3, "ranks": 6}, "queue `debug` allows nodect up to 2, and resources.nodes is more"),
        ({"partition": "debg"}, "the server has no queue `debg`; the nearest is `debug`"),
        (
            {"cpus_per_rank": 12},
            "0 of 3 nodes have what each node of the job needs, and it needs 2",
        ),
        (
            {"memory_per_node": Bytes(5 << 30)},
            "0 of 3 nodes have what each node of the job needs, and it needs 2",
        ),
        (
            {"gpus_per_node": 1},
            "0 of 3 nodes have what each node of the job needs, and it needs 2",
        ),
        ({"array": 20000}, "the server allows arrays of 10000, and the sweep has 20000 points"),
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
        ("enabled = False", "queue `debug` takes no jobs now (enabled = False)"),
        ("from_route_only = True", "queue `debug` takes jobs from routing queues alone"),
        (
            "acl_user_enable = True\n    acl_users = bob@*,eve@login",
            "queue `debug` is for the users bob@*,eve@login",
        ),
        ("acl_user_enable = True\n    acl_users = -alice@*,+", "queue `debug` is for the users -alice@*,+"),
        ("acl_group_enable = True\n    acl_groups = chem", "queue `debug` is for the groups chem"),
        (
            "resources_min.nodect = 4",
            "queue `debug` takes jobs from nodect 4 up, and resources.nodes is less",
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
    assert "it waits, for queue `debug` is stopped" in found.accepted


def test_nodes_that_are_down_may_come_back():
    found = judge(request(), nodes=NODES.replace("state = free", "state = down,offline"))
    assert found.problems == []
    assert "it waits, for 0 of those are up" in found.accepted


def test_a_client_that_fails_says_nothing():
    assert judge(request(walltime=Duration(9**9)), queues="", nodes="").problems == []


def test_reservations():
    asked = request(reservation="R7")
    assert acceptance.questions(asked)[-1] == ("pbs_rstat", "-f", "R7")
    assert judge(asked, more=[RESERVATION]).problems == []
    assert judge(asked, more=[""]).problems == [
        "PBS knows no reservation `R7`: `pbs_rstat` lists those that you may use"
    ]
    (told,) = judge(asked, more=[RESERVATION.replace(", alice@login", "")]).problems
    assert told == "the reservation `R7` is for bob@login"
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
    assert problem.startswith("queue `debug` allows walltime up to 02:00:00")
