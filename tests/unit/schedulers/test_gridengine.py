"""Grid Engine: slots and complexes in `#$` lines, and what qstat and qacct printed."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.errors import OperationFailed
from dlrun.model.job import HELD_BY_CENTRE, UNNAMED, JobStatus, State
from dlrun.model.plan import Dependency
from dlrun.model.site import Complexes
from dlrun.model.units import Bytes
from tests.fakebin import CAPTURED
from tests.unit.schedulers.making import faults, lines, request, site

gridengine = backends.scheduler("gridengine")

COMMON = ["-N train", "-S /bin/bash", "-cwd", "-o logs/job.log", "-j y", "-r n", "-R y"]
PE = {"parallel_environment": "mpi-{slots}"}
ALL = Complexes(gpu="gpu", memory="h_vmem", exclusive="excl")
HERE = CAPTURED / "gridengine"


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({}, {}, ["-pe mpi-2 4"]),
        ({"cpus_per_rank": 4}, {}, ["-pe mpi-8 16"]),
        ({"cpus_per_rank": 4}, {"cpus": "none"}, ["-pe mpi-2 4"]),
        ({"cpus_per_node": 12, "gpus_per_node": 12}, {}, ["-pe mpi-12 24", "-l gpu=1"]),
        ({"cpus_per_node": 8, "memory_per_node": Bytes.parse("16GiB")}, {}, ["-pe mpi-8 16", "-l h_vmem=2048M"]),
        ({"gpus_per_node": 3, "memory_per_node": Bytes.parse("1GiB")},
         {"complexes": Complexes(gpu="gpu", memory="mem_free", gpus_counted="host", memory_counted="host")},
         ["-pe mpi-2 4", "-l gpu=3", "-l mem_free=1024M"]),
        ({"exclusive": True}, {}, ["-pe mpi-2 4", "-l excl=true"]),
        ({"cpus_per_node": 192, "gpus_per_node": 4}, {"gpus": "none", "complexes": Complexes(nodes="node_f")}, ["-l node_f=2"]),
        ({"nodes": 1, "ranks": 1, "ranks_per_node": 1}, {"parallel_environment": None}, []),
        ({"partition": "gpu.q", "account": "ai", "reservation": "7"}, {}, ["-pe mpi-2 4", "-q gpu.q", "-P ai", "-ar 7"]),
        ({"hosts": ("n1", "n3"), "constraint": "avx512=1"}, {}, ["-pe mpi-2 4", "-l avx512=1", "-l hostname=n1|n3"]),
        ({"exclude": ("n1", "n3")}, {}, ["-pe mpi-2 4", "-l hostname=!(n1|n3)"]),
        ({"after": (Dependency(job_id="1", when="any"), Dependency(job_id="2", when="any")), "hold": True}, {},
         ["-pe mpi-2 4", "-hold_jid 1,2", "-h"]),
        ({"array": 3, "at_once": 2}, {}, ["-t 1-3 -tc 2", "-pe mpi-2 4"]),
        ({"options": {"m": "e", "ac": "allow=L", "tmpspace": "1G"}}, {},
         ["-pe mpi-2 4", "-m e", "-ac allow=L", "-l tmpspace=1G"]),
    ],
)  # fmt: skip
def test_directives(asked, at, expected):
    here = site("gridengine", **{**PE, "complexes": ALL, **at})
    assert [x for x in lines(gridengine, request(**asked), here) if x not in COMMON] == expected


def test_an_account_that_the_site_forbids_is_not_written():
    assert "-P ai" not in lines(
        gridengine, request(account="ai"), site("gridengine", **PE, forbidden=("account",))
    )


def test_nodes_that_are_counted_need_no_parallel_environment_and_reserve_no_slots():
    found = lines(gridengine, request(), site("gridengine", gpus="none", complexes=Complexes(nodes="node_f")))
    assert "-l node_f=2" in found
    assert not [line for line in found if line.startswith("-pe") or line == "-R y"]


@pytest.mark.parametrize(
    "given",
    [{"qos": "q"}, {"gpu_type": "a100"}, {"node_local": Bytes(1)}, {"memory_per_node": "all"}, {"gpus_per_node": 3},
     {"after": (Dependency(job_id="1", when="ok"),)}, {"partition": "a b"}, {"options": {"pe": "x 4"}},
     {"options": {"-notify": ""}}, {"options": {"s_rt": "60"}}],
)  # fmt: skip
def test_refusals(given):
    assert len(faults(gridengine, request(**given), site("gridengine", **PE, complexes=ALL))) == 1


@pytest.mark.parametrize(
    "given", [{}, {"exclusive": True}, {"gpus_per_node": 2}, {"memory_per_node": Bytes(1)}]
)
def test_what_the_profile_must_name(given):
    at = site("gridengine", **({} if not given else PE))
    assert len(faults(gridengine, request(**given), at)) == 1


@pytest.mark.parametrize("output", ["a b.log", "$HOME/x.log"])
def test_logs_that_grid_engine_would_misread(output):
    assert len(faults(gridengine, request(), site("gridengine", **PE), output)) == 1


def test_points_write_their_logs_themselves():
    assert "-o /dev/null" in lines(
        gridengine, request(array=2), site("gridengine", **PE), "points/{index}/logs/job.log"
    )
    assert not gridengine.WRITES_IN_PLACE


def by_job(statuses):
    return {(int(status.job_id), status.task): status for status in statuses}


@pytest.mark.parametrize(
    ("job", "task", "state"),
    [
        (37, 0, State.RUNNING),
        (37, 1, State.PENDING),
        (37, 2, State.PENDING),
        (34, None, State.RUNNING),
        (39, None, State.ENDING),
        (38, None, State.PENDING),
        (36, None, State.HELD),
        (33, None, State.HELD),
        (35, None, State.PENDING),
    ],
)
def test_states_in_the_queue(job, task, state):
    assert by_job(gridengine.parse_queue((HERE / "qstat.xml").read_text()))[job, task].state is state


@pytest.mark.parametrize(
    ("word", "state"),
    [("Rq", State.PENDING), ("hRwq", State.HELD), ("Rr", State.RUNNING), ("EhRqw", State.HELD), ("dRr", State.ENDING)],
)  # fmt: skip
def test_the_states_of_a_job_that_is_started_again(word, state):
    """sge_status(5); a job of three nodes that has ended with 99 waits as `Rq` (seen with 8.1.9)."""
    row = f"<job_list state='pending'><JB_job_number>5</JB_job_number><state>{word}</state></job_list>"
    (job,) = gridengine.parse_queue(f"<job_info><queue_info>{row}</queue_info></job_info>")
    assert job.state is state


def test_what_a_job_waits_for():
    jobs = by_job(gridengine.parse_queue((HERE / "qstat.xml").read_text()))
    assert jobs[35, None].reason == "waits for 34"
    assert "qmod -cj" in (jobs[36, None].reason or "")
    assert jobs[34, None].started.startswith("2026-11-22T")


@pytest.mark.parametrize(
    ("job", "task", "state", "code"),
    [
        (6, None, State.TIMED_OUT, None),
        (7, None, State.FAILED, 3),
        (28, None, State.FAILED, 7),
        (29, 0, State.COMPLETED, 0),
        (29, 1, State.COMPLETED, 0),
        (31, None, State.FAILED, 124),
        (32, None, State.CANCELLED, None),
        (1, None, State.COMPLETED, 0),
    ],
)
def test_ends(job, task, state, code):
    status = by_job(gridengine.parse_history((HERE / "qacct.txt").read_text()))[job, task]
    assert (status.state, status.exit_code) == (state, code)
    assert status.ended.startswith("2026-11-22T20:")


def test_memory_is_the_other_limit():
    text = "====\njobnumber 5\nfailed 37  : qmaster enforced h_rt, h_cpu, or h_vmem limit\nru_wallclock 2s\ncategory -l h_rt=60\n"
    assert gridengine.parse_history(text)[0].state is State.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("failed", "category", "ran", "state"),
    [
        (
            "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit",
            "-l h_rt=300,s_rt=8 -pe mpi-1 2",
            9,
            State.TIMED_OUT,
        ),
        ("100 : assumedly after job", "-l h_rt=300,s_rt=8 -pe mpi-1 1", 8, State.TIMED_OUT),
        ("100 : assumedly after job", "-l h_rt=300,s_rt=8 -pe mpi-1 1", 5, State.CANCELLED),
        ("100 : assumedly after job", "-l h_rt=300 -pe mpi-1 1", 9, State.CANCELLED),
    ],
)
def test_a_soft_limit(failed, category, ran, state):
    """As qacct of 8.1.9 has jobs whose ranks qrsh has started; with two hosts the master one is killed by the limit."""
    text = f"====\njobnumber 5\nfailed {failed}\nexit_status 137\nru_wallclock {ran}s\ncategory {category}\n"
    assert gridengine.parse_history(text)[0].state is state


@pytest.mark.parametrize(
    "text", ["", "<a", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", "<?xml version='1.0' encoding='nope'?><x/>", "<x><job_list/></x>",
             "<x><job_list><JB_job_number>²</JB_job_number></job_list></x>"]
)  # fmt: skip
def test_other_answers_are_not_jobs(text):
    assert list(gridengine.parse_queue(text)) == []


@pytest.mark.parametrize("text", ["", "=====\n", "=====\njobnumber x\n", "jobnumber\n"])
def test_other_accounts_are_not_jobs(text):
    assert list(gridengine.parse_history(text)) == []


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("31\n", "31"), ("31.1-3:1\n", "31"), ('Your job 31 ("a b") has been submitted', "31"),
     ('Welcome\nYour job-array 31.1-3:1 ("x") has been submitted\n', "31")],
)  # fmt: skip
def test_ids(printed, expected):
    assert gridengine.submitted(printed) == expected


def test_no_id_is_a_failure():
    with pytest.raises(OperationFailed):
        gridengine.submitted("Unable to run job\n")


def test_tasks_count_from_one():
    assert gridengine.cancel([gridengine.task_id("31", 0)]) == ("qdel", "31.1")


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ('Unable to run job: Job was rejected because job requests unknown queue "nope"', "qconf -sql"),
        (
            'Unable to run job: job rejected: the requested parallel environment "x" does not exist',
            "qconf -spl",
        ),
        ('Unable to run job: Job 15 cannot run in PE "rr" because it only offers 6 slots', "less"),
        ('Unable to run job: unknown resource "foo"', "qconf -sc"),
        ('Unable to run job: job rejected: the requested project "x" does not exist', "account"),
    ],
)
def test_advice(said, word):
    assert word in (gridengine.advice(said) or "")


WAITS = JobStatus(job_id="31", state=State.PENDING)
HELD = JobStatus(job_id="37", state=State.HELD)
RUNS = JobStatus(job_id="20", state=State.RUNNING, nodes="n1")
ABOUT = """\
remark ==============================================================
remark job_number:                 31
remark hard_queue_list:            work
remark scheduling info:            queue instance "work@n1" dropped because it is disabled
remark                             queue instance "work@n2" dropped because it is disabled
held job-ID
held -----------------------------------------------------------------------------------------------------------------
held 37
silent queuename                      qtype resv/used/tot. load_avg arch          states
silent ---------------------------------------------------------------------------------
silent short@n3                       BIP   0/0/64         -NA-     lx-amd64      u
silent ---------------------------------------------------------------------------------
silent work@n3                        BIP   0/1/64         -NA-     lx-amd64      du
silent      20 0.50000 test       alice        r     12/01/2026 12:02:08     1
silent
silent ############################################################################
silent  - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS
silent ############################################################################
silent      31 0.75000 b          alice        qw    12/01/2026 12:06:06     5
"""
"""As 8.1.9 prints them, each line after the word of its question."""


def test_what_the_list_of_jobs_does_not_have():
    found = {one.job_id: one.reason for one in gridengine.parse_remarks([WAITS, HELD, RUNS], ABOUT)}
    assert found["31"] == "queue work on n[1-2] is disabled"
    assert found["37"] == HELD_BY_CENTRE
    assert found["20"] == "n3 does not answer: the node, its network or its sge_execd is down"


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        ("work@n3", False),
        ("work", False),
        ("work@n3                        BIP   0/1/64         4.91     linux-u", False),
        ("work@n3                        BIP   0/1/64         4.91     linux-u      d", False),
        ("work@n3                        BIP   0/1/64         -NA-     -NA-          auE", True),
    ],
)
def test_rows_of_queue_instances(row, lost):
    """Also one that is cut, and one without a state: what stands below it is not of the row before."""
    before = "short@n9                       BIP   0/0/64         -NA-     lx-amd64      u\n"
    job = "     20 0.50000 test       alice        r     12/01/2026 12:02:08     1\n"
    shown = "".join(f"silent {line}\n" for line in f"{before}{row}\n{job}".splitlines())
    (found,) = gridengine.parse_remarks([RUNS], shown)
    assert (found.reason or "").partition(":")[0] == ("n3 does not answer" if lost else "")
    down = [one.name for one in gridengine.parse_queue_rules(f"{row}\n{job}") if one.down]
    assert down == (["work"] if row.split()[-1] in ("d", "auE") else [])


def test_a_job_id_that_fills_its_column():
    running = JobStatus(job_id="1234567890", state=State.RUNNING)
    shown = """\
silent work@n3                        BIP   0/1/64         -NA-     lx-amd64      u
silent 1234567890 0.50000 test       alice        r     12/01/2026 12:02:08     1
"""
    (found,) = gridengine.parse_remarks([running], shown)
    assert found.reason is not None


def test_nothing_is_asked_where_all_is_known():
    done = JobStatus(job_id="1", state=State.COMPLETED)
    waits = JobStatus(job_id="2", state=State.PENDING, reason="waits for 1")
    assert gridengine.remarks([done, waits]) == ()
    assert list(gridengine.parse_remarks([WAITS, HELD, RUNS], "")) == [WAITS, HELD, RUNS]


def test_queues_that_start_nothing():
    shown = """\
queuename                      qtype resv/used/tot. load_avg arch          states
---------------------------------------------------------------------------------
short@n1                       BIP   0/0/64         4.91     lx-amd64
---------------------------------------------------------------------------------
work@n1                        BIP   0/0/64         4.91     lx-amd64      d
---------------------------------------------------------------------------------
work@n2                        BIP   0/0/64         -NA-     lx-amd64      du
"""
    assert [(one.name, one.down) for one in gridengine.parse_queue_rules(shown)] == [
        ("short", False),
        ("work", True),
    ]


def ended(**fields):
    lines = {
        "jobnumber": "18",
        "taskid": "undefined",
        "failed": "0",
        "exit_status": "0",
        "ru_wallclock": "0s",
        **fields,
    }
    text = "=" * 62 + "\n" + "".join(f"{name:<13}{value}\n" for name, value in lines.items())
    (found,) = gridengine.parse_history(text)
    return found


def test_a_forced_deletion_is_no_good_end():
    """`qdel -f` of a running job leaves times, and nothing that was measured (seen with 8.1.9)."""
    times = {"start_time": "Tue Dec  1 11:58:28 2026", "end_time": "Tue Dec  1 11:58:34 2026"}
    found = ended(**times)
    assert (found.state, found.reason) == (State.CANCELLED, UNNAMED)
    assert ended(**times, ru_wallclock="6s").state is State.COMPLETED
    assert ended(**{**times, "end_time": "Tue Dec  1 11:58:29 2026"}).state is State.COMPLETED


def test_an_end_before_its_start_is_no_run_time():
    """The clocks of two hosts differ by a second; a run over midnight is as long as it is."""
    times = {"start_time": "Tue Dec  1 11:58:28 2026", "end_time": "Tue Dec  1 11:58:27 2026"}
    assert ended(**times).state is State.COMPLETED
    late = {"start_time": "Tue Dec  1 23:59:58 2026", "end_time": "Wed Dec  2 00:00:04 2026"}
    assert (ended(**late).state, ended(**late).reason) == (State.CANCELLED, UNNAMED)
    over = {"start_time": "Wed Dec  2 00:00:00 2026", "end_time": "Tue Dec  1 23:59:59 2026"}
    assert ended(**over).state is State.COMPLETED


def test_a_job_whose_node_was_restarted():
    found = ended(failed="19 : before writing exit_status")
    assert found.state is State.NODE_FAILED
    assert "restarted" in found.reason
