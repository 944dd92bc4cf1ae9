"""Torque: nodes and ppn, its text, its codes."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.job import State
from dlrun.model.plan import Dependency
from dlrun.model.units import Bytes
from dlrun.schedulers import refusals
from tests.fakebin import CAPTURED
from tests.unit.schedulers.making import faults, lines, request, site

torque = backends.scheduler("torque")

COMMON = ["-N train", "-S /bin/bash", "-o logs/job.log", "-j oe", "-r n"]


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({}, {}, ["-l nodes=2:ppn=2"]),
        ({"cpus_per_rank": 4}, {}, ["-l nodes=2:ppn=8"]),
        ({"cpus_per_rank": 4}, {"cpus": "none"}, ["-l nodes=2:ppn=2"]),
        ({"cpus_per_node": 9}, {}, ["-l nodes=2:ppn=9"]),
        ({"gpus_per_node": 4}, {"gpus": "ngpus"}, ["-l nodes=2:ppn=2:gpus=4"]),
        ({"constraint": "bigmem"}, {}, ["-l nodes=2:ppn=2:bigmem"]),
        ({"nodes": 3, "ranks": 5}, {}, ["-l nodes=2:ppn=2+1:ppn=1"]),
        ({"hosts": ("n1", "n3")}, {}, ["-l nodes=n1:ppn=2+n3:ppn=2"]),
        ({"exclusive": True}, {}, ["-l nodes=2:ppn=2", "-l naccesspolicy=singlejob"]),
        ({"memory_per_node": Bytes.parse("1GiB")}, {}, ["-l nodes=2:ppn=2", "-l mem=2gb"]),
        ({"array": 3}, {}, ["-t 0-2", "-l nodes=2:ppn=2"]),
        ({"after": (Dependency(job_id="1.s", when="ok"), Dependency(job_id="2[].s", when="not_ok"))}, {},
         ["-l nodes=2:ppn=2", "-W depend=afterok:1.s,afternotokarray:2[].s"]),
    ],
)  # fmt: skip
def test_directives(asked, at, expected):
    assert [x for x in lines(torque, request(**asked), site("torque", **at)) if x not in COMMON] == expected


def test_logs_of_tasks_lie_where_torque_can_number_them():
    assert "-o job.log" in lines(torque, request(array=3), site("torque"), "points/{index}/logs/job.log")
    assert not torque.WRITES_IN_PLACE


@pytest.mark.parametrize(
    "given", [{"exclude": ("n1",)}, {"reservation": "r"}, {"node_local": Bytes(1)}, {"qos": "q"}]
)
def test_refusals(given):
    assert len(faults(torque, request(**given), site("torque"))) == 1


@pytest.fixture(scope="module")
def jobs():
    statuses = torque.parse_queue((CAPTURED / "torque" / "qstat.txt").read_text())
    return {(s.job_id.partition(".")[0], s.task): s for s in statuses}


@pytest.mark.parametrize(
    ("job", "task", "state"),
    [
        ("47", None, State.RUNNING),
        ("48[]", 0, State.COMPLETED),
        ("48[]", 1, State.TIMED_OUT),
        ("48[]", 2, State.CANCELLED),
        ("49", None, State.TIMED_OUT),
        ("50", None, State.PENDING),
    ],
)
def test_states(jobs, job, task, state):
    assert jobs[job, task].state is state


def test_details(jobs):
    assert jobs["47", None].nodes == "n[01-02]"
    assert jobs["48[]", 0].exit_code == 0
    assert jobs["48[]", 0].ended == "2018-05-29T18:37:33"
    assert jobs["48[]", 2].restarts == 2


def test_slurms_torque_wrapper():
    (found,) = torque.parse_queue((CAPTURED / "torque" / "qstat-slurm-wrapper.txt").read_text())
    assert (found.job_id, found.state) == ("6", State.PENDING)


def test_clients():
    assert torque.queue(["1.s"]) == ("qstat", "-f", "1.s")
    assert torque.queue(["1.s", "2[].s"]) == ("qstat", "-t", "-f", "1.s", "2[].s")
    assert torque.history(["1.s"]) is None
    assert torque.unknown_jobs("qstat: Unknown Job Id Error 9.s\n", 1)
    assert torque.unknown_jobs("", 153)
    assert not torque.unknown_jobs("", 1)
    assert torque.submitted("6\n") == "6"


def test_slurms_torque_wrapper_does_not_say_how_a_job_ended():
    ended = "Job Id:\t1\n\tJob_Name = x\n\tjob_state = C\n\texec_host = n1/7+n2/1\n"
    (found,) = torque.parse_queue(ended)
    assert (found.state, found.nodes) == (State.LOST, "n[1-2]")
    (found,) = torque.parse_queue("Job Id:\t1\n\tjob_state = C\n")
    assert found.state is State.CANCELLED


def test_slurms_wrappers_without_a_slurm_are_told_in_one_line():
    said = """perl: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
perl: error: fetch_config: DNS SRV lookup failed
perl: fatal: Could not establish a configuration source
"""
    assert refusals.client_message(said) == "Could not establish a configuration source"
    assert "choose another site with `--site`" in torque.advice(said)
    assert refusals.client_message(" qsub: Unknown queue\n") == "qsub: Unknown queue"
