"""States of many jobs in few calls, and from the job's own record when nobody else knows."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from dlrun import backends
from dlrun.errors import OperationFailed
from dlrun.jobs.clusters import clients as cluster_clients, query
from dlrun.jobs.queue import control, status
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import outcome
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.system.process import Completed, NotInstalled
from tests.fakebin import CAPTURED, FakeClients


@pytest.fixture
def clients(tmp_path, monkeypatch):
    return FakeClients.on_path(tmp_path / "clients", monkeypatch)


@pytest.fixture
def job(tmp_path):
    """Makes jobs with directories."""

    def make(
        job_id: str | None, *, scheduler: str = "slurm", array: int | None = None, age: float = 0.0
    ) -> Job:
        directory = tmp_path / f"job-{job_id}"
        made = Job(
            directory=directory,
            name="x",
            site="s",
            scheduler=scheduler,
            job_id=job_id,
            submitted=time.time() - age,
            array=array,
        )
        for run in made.run_directories():
            run.mkdir(parents=True)
        return made

    return make


def one(job, **given):
    (found,) = status.of([job], **given)[job.directory]
    return found


def record(job, index=0, **state):
    (job.run_directories()[index] / "state.json").write_text(json.dumps({"version": 1, **state}))


def test_many_jobs_one_call_each(clients, job):
    clients.answer("squeue", (CAPTURED / "slurm" / "squeue.txt").read_text())
    clients.answer("sacct", (CAPTURED / "slurm" / "sacct.txt").read_text())
    jobs = {n: job(str(n)) for n in (1, 2, 4, 9, 12, 15)}
    found = {n: status.of(list(jobs.values()))[jobs[n].directory] for n in jobs}
    assert [found[n][0].state for n in jobs] == [
        State.COMPLETED,
        State.FAILED,
        State.TIMED_OUT,
        State.RUNNING,
        State.CANCELLED_BY_ADMIN,
        State.HELD,
    ]
    assert clients.calls("squeue")[0]["argv"][-1] == "--jobs=1,2,4,9,12,15"
    assert clients.calls("sacct")[0]["argv"][-1] == "--jobs=1,2,4,12"
    assert found[2][0].reason == "NonZeroExitCode"  # from the queue, the rest from accounting


def test_certain_ends_are_never_asked_for_again(clients, job):
    clients.answer("squeue", (CAPTURED / "slurm" / "squeue.txt").read_text())
    clients.answer("sacct", (CAPTURED / "slurm" / "sacct.txt").read_text())
    ended, running = job("2"), job("9")
    first = one(ended)
    assert one(ended) == first
    assert len(clients.calls("squeue")) == 1
    one(running)
    one(running)
    assert len(clients.calls("squeue")) == 3


def test_an_end_that_accounting_has_not_heard_of_is_asked_for_again(clients, job):
    clients.answer("squeue", "7|CANCELLED|None|15|0|N/A|N/A||\n")
    clients.answer("sacct", "7|RUNNING|None|0:0|1|debug|N/A|Unknown|n1\n")
    cancelled = job("7")
    assert one(cancelled).state is State.CANCELLED
    clients.answer("sacct", "7|CANCELLED by 0|None|0:15|1|debug|N/A|N/A|n1\n")
    assert one(cancelled).state is State.CANCELLED_BY_ADMIN
    assert one(cancelled).state is State.CANCELLED_BY_ADMIN
    assert len(clients.calls("squeue")) == 2


def test_an_end_once_seen_is_kept_where_the_scheduler_is_away(clients, job):
    """The job's own files know neither the preemption nor the second node."""
    clients.answer("squeue", "7|PREEMPTED|None|0|0|N/A|N/A|n[1-2]|\n")
    clients.answer("sacct", "", err="sacct: error: Unable to connect to database", code=1)
    preempted = job("7")
    record(preempted, state="ended", job_id="7", exit_code=143, host="n1")
    seen = one(preempted)
    assert (seen.state, seen.nodes) == (State.PREEMPTED, "n[1-2]")
    clients.answer("squeue", "", err="squeue: error: munge: Failed to access socket", code=1)
    assert one(preempted, unasked=lambda _: None) == seen
    # A run that began later says more than an old answer.
    place = preempted.directory / "state.json"
    os.utime(place, (time.time() + 60, time.time() + 60))
    assert one(preempted, unasked=lambda _: None).state is State.FAILED


@pytest.mark.parametrize(
    ("written", "age", "state"),
    [
        ({"state": "running", "job_id": "7"}, 100, State.FAILED),
        ({"state": "running", "job_id": "7"}, 0, State.UNKNOWN),  # what a node wrote may not be seen here yet
        ({"state": "running", "job_id": "7", "launched": 5}, 100, State.COMPLETED),
        ({"state": "running", "job_id": "6"}, 100, State.COMPLETED),
        ({"state": "ended", "job_id": "7", "exit_code": 0}, 100, State.COMPLETED),
    ],
)
def test_a_success_that_started_nothing_is_none(clients, job, written, age, state):
    """`exec` in a set-up line replaces the shell of job.sh: the scheduler sees exit code 0."""
    clients.answer("squeue", "")
    clients.answer("sacct", "7|COMPLETED|None|0:0|1|debug|N/A|N/A|n1\n")
    found = job("7")
    record(found, **written)
    for path in (found.directory / "state.json", *(found.directory / "logs").glob("*.log")):
        os.utime(path, (time.time() - age, time.time() - age))
    assert one(found).state is state


def test_an_outcome_belongs_to_one_submission(clients, job):
    clients.answer("squeue", "7|COMPLETED|None|0|0|N/A|N/A||\n8|RUNNING|None|0|0|N/A|N/A||\n")
    clients.answer("sacct", "7|COMPLETED|None|0:0|1|debug|N/A|N/A|n1\n")
    first = job("7")
    assert one(first).state is State.COMPLETED
    assert one(replace(first, job_id="8")).state is State.RUNNING


def test_without_accounting_the_queue_has_the_last_word(clients, job):
    clients.answer("squeue", "7|TIMEOUT|TimeLimit|15|0|N/A|N/A||\n")
    clients.answer("sacct", err="Slurm accounting storage is disabled\n", code=1)
    late = job("7")
    assert one(late).state is State.TIMED_OUT
    clients.answer("squeue", err="slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert one(late).state is State.TIMED_OUT


@pytest.mark.parametrize(
    ("written", "state", "code"),
    [
        ({"state": "ended", "exit_code": 0, "started": 1.0, "ended": 2.0, "host": "n1"}, State.COMPLETED, 0),
        ({"state": "ended", "exit_code": 4}, State.FAILED, 4),
        ({"state": "running", "started": 1.0}, State.LOST, None),
        (None, State.LOST, None),
    ],
)
def test_the_jobs_own_record_when_nobody_knows(clients, job, written, state, code):
    clients.answer("squeue", err="slurm_load_jobs error: Invalid job id specified\n", code=1)
    old = job("7", age=9999.0)
    if written:
        record(old, **written)
    found = one(old)
    assert (found.state, found.exit_code) == (state, code)
    assert (found.reason is None) == (state is not State.LOST)


def test_a_job_that_is_too_new_is_not_lost(clients, job):
    clients.answer("squeue", err="slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert one(job("7")).state is State.UNKNOWN


def test_what_is_lost_may_still_turn_up(clients, job):
    clients.answer("squeue", err="slurm_load_jobs error: Invalid job id specified\n", code=1)
    old = job("7", age=9999.0)
    assert one(old).state is State.LOST
    clients.answer("sacct", "7|TIMEOUT|None|0:0|1|debug|N/A|N/A|n1\n")
    assert one(old).state is State.TIMED_OUT


def test_points_of_a_sweep(clients, job):
    clients.answer("squeue", (CAPTURED / "slurm" / "squeue.txt").read_text())
    clients.answer("sacct", "14_4|COMPLETED|None|0:0|7001|debug|N/A|N/A|n1\n")
    sweep = job("14", array=6)
    record(sweep, 5, state="ended", exit_code=9)
    found = status.of([sweep])[sweep.directory]
    assert [s.task for s in found] == [0, 1, 2, 3, 4, 5]
    assert [s.state for s in found] == [
        State.FAILED,
        State.RUNNING,
        State.RUNNING,
        State.PENDING,
        State.COMPLETED,
        State.FAILED,
    ]


def test_pbs_arrays_have_codes_from_their_own_records(clients, job):
    clients.answer(
        "qstat", (CAPTURED / "openpbs" / "qstat.json").read_text(), err="qstat: Unknown Job Id 99\n", code=153
    )
    sweep = job("4[].pbsctl", scheduler="openpbs", array=5)
    record(sweep, 0, state="ended", exit_code=0)
    record(sweep, 1, state="ended", exit_code=7)
    found = status.of([sweep])[sweep.directory]
    assert [s.state for s in found[:4]] == [State.COMPLETED, State.FAILED, State.RUNNING, State.PENDING]
    assert found[1].exit_code == 7
    assert found[4].state is State.RUNNING  # not listed yet: as the array itself


def test_a_pbs_task_that_wrote_nothing_never_started(clients, job):
    clients.answer("qstat", (CAPTURED / "openpbs" / "several.txt").read_text())
    sweep = job("3[].login", scheduler="openpbs", array=3)
    found = status.of([sweep, job("2.login", scheduler="openpbs")])[sweep.directory]
    assert [s.state for s in found] == [State.HELD, State.CANCELLED, State.HELD]
    assert found[1].reason == "it never started"


def test_a_pbs_task_that_was_cancelled_before_it_began_is_cancelled_in_the_history_too(clients, job):
    """There it is `Subjob finished` with exit status 0, as is one that ended well."""
    ended = "".join(
        f"Job Id: 1[{task}].login\n    job_state = F\n    substate = 92\n    comment = Subjob finished\n    Exit_status = 0\n\n"
        for task in ("", 0, 1)
    )
    clients.answer("qstat", ended)
    sweep = job("1[].login", scheduler="openpbs", array=2)
    record(sweep, 0, state="ended", exit_code=0)
    assert [one.state for one in status.of([sweep])[sweep.directory]] == [State.COMPLETED, State.COMPLETED]
    (sweep.directory / "outcome.json").unlink(missing_ok=True)
    outcome.note_cancelled(sweep, [1])
    found = status.of([sweep])[sweep.directory]
    assert [(one.state, one.reason) for one in found][1] == (State.CANCELLED, "it never started")
    assert found[0].state is State.COMPLETED


@pytest.mark.parametrize(("of", "restarts"), [("6.login", 2), ("5.login", 0)])
def test_restarts_under_earlier_ids_count_too(clients, job, of, restarts):
    """PBS counts those of the last id alone; what another submission in this directory has counted is its own."""
    lines = "job_state = F\nsubstate = 92\nExit_status = 0\nrun_count = 1\nstime = Mon Nov 23 00:00:01 2026\n"
    clients.answer("qstat", "Job Id: 6.login\n" + "".join(f"    {line}\n" for line in lines.splitlines()))
    ended = job("6.login", scheduler="openpbs")
    record(ended, state="ended", exit_code=0, job_id=of, restarts=2)
    assert (one(ended).state, one(ended).restarts) == (State.COMPLETED, restarts)


def test_a_job_that_submits_itself_again_ends_with_its_last_run(clients, job):
    """PBS and Flux give each run an id of its own: the first one's end is seen by whoever still knows only its id."""
    clients.answer("qstat", (CAPTURED / "openpbs" / "qstat.json").read_text())
    chained = job("6.pbsctl", scheduler="openpbs")
    assert one(chained).state is State.COMPLETED
    (chained.directory / "job-id").write_text("2.pbsctl\n")
    assert (one(chained).state, one(chained).job_id) == (State.RUNNING, "2.pbsctl")
    (chained.directory / "job-id").write_text("; no id\n")  # a job can write its own directory
    assert one(chained).state is State.COMPLETED


def test_an_id_that_is_written_while_the_scheduler_is_asked_about_the_one_before(job):
    chained = job("6.pbsctl", scheduler="openpbs")

    def runner(argv):
        (chained.directory / "job-id").write_text("2.pbsctl\n")
        return Completed(returncode=0, stdout=(CAPTURED / "openpbs" / "qstat.json").read_text(), stderr="")

    assert one(chained, runner=runner).state is State.RUNNING


def test_several_schedulers_and_a_job_never_submitted(clients, job):
    clients.answer("squeue", "1|RUNNING|None|0|0|N/A|N/A|n1|\n")
    clients.answer("qstat", (CAPTURED / "openpbs" / "qstat.json").read_text())
    jobs = [job("1"), job("2.pbsctl", scheduler="openpbs"), job(None)]
    found = status.of(jobs)
    assert [[s.state for s in found[j.directory]] for j in jobs] == [[State.RUNNING], [State.RUNNING], []]


def test_a_busy_scheduler_is_asked_again(clients, job, monkeypatch):
    monkeypatch.setattr(query, "PAUSES", (0.0, 0.0))
    busy = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    clients.answer("squeue", err=busy, code=1, call=1)
    clients.answer("squeue", "1|RUNNING|None|0|0|N/A|N/A|n1|\n")
    assert one(job("1")).state is State.RUNNING
    assert len(clients.calls("squeue")) == 2


def test_a_scheduler_that_stays_silent_is_an_error(clients, job, monkeypatch):
    monkeypatch.setattr(query, "PAUSES", (0.0,))
    clients.answer("squeue", err="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(OperationFailed, match="Unable to contact") as caught:
        one(job("1"))
    assert "scontrol ping" in (caught.value.help or "")
    assert len(clients.calls("squeue")) == 2


def test_one_scheduler_that_fails_hides_no_job_of_another(clients, job):
    clients.answer("squeue", err="squeue: error: no such cluster\n", code=1)
    clients.answer("qstat", (CAPTURED / "openpbs" / "qstat.json").read_text())
    slurm, ended, pbs = job("7"), job("8"), job("2.pbsctl", scheduler="openpbs")
    record(slurm, state="running", started=1.0, host="n1")
    record(ended, state="ended", exit_code=3)
    told: list[str] = []
    found = status.of([slurm, ended, pbs], unasked=told.append)
    (run,) = found[slurm.directory]
    assert (run.state, run.reason, run.nodes) == (State.UNKNOWN, "slurm does not answer", "n1")
    assert (found[ended.directory][0].state, found[ended.directory][0].exit_code) == (State.FAILED, 3)
    assert found[pbs.directory][0].state is State.RUNNING
    assert told == ["slurm could not be asked about 2 jobs: `squeue` failed: squeue: error: no such cluster"]
    assert status.of([ended], unasked=told.append)[ended.directory][0].state is State.FAILED


@pytest.mark.parametrize(("reason", "state"), [("cancelled", State.CANCELLED), (None, State.FAILED)])
def test_a_script_that_ends_at_a_notice_of_grid_engine_was_cancelled(clients, job, reason, state):
    """Accounting has only that the script ended by itself, with exit code 143."""
    clients.answer("qstat", "<job_info></job_info>")
    clients.answer("qacct", "jobnumber 7\ntaskid undefined\nfailed 0\nexit_status 143 (Terminated)\n")
    noticed = job("7", scheduler="gridengine")
    record(noticed, state="ended", exit_code=143, reason=reason)
    assert one(noticed).state is state


def test_a_client_that_hangs_is_given_up(tmp_path, job, monkeypatch):
    client = tmp_path / "bin" / "squeue"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\nexec sleep 600\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("dlrun.jobs.clusters.clients.WITHIN", 0.5)
    told: list[str] = []
    (run,) = status.of([slurm := job("7")], unasked=told.append)[slurm.directory]
    assert (run.state, run.reason) == (State.UNKNOWN, "slurm does not answer")
    assert "`squeue` did not answer within" in told[0]


def test_other_failures_are_not_tried_again(clients, job):
    clients.answer("squeue", err="squeue: error: something new\n", code=1)
    with pytest.raises(OperationFailed, match="something new"):
        one(job("1"))
    assert len(clients.calls("squeue")) == 1


def test_clients_that_are_not_on_this_host(job):
    def missing(argv):
        raise NotInstalled("no")

    old = job("1", age=9999.0)
    assert one(old, runner=missing).state is State.UNKNOWN
    record(old, state="ended", exit_code=0)
    assert one(old, runner=missing).state is State.COMPLETED


def test_a_runner_elsewhere_is_used(job):
    asked = []

    def elsewhere(argv):
        asked.append(argv[0])
        return Completed(returncode=0, stdout="1|RUNNING|None|0|0|N/A|N/A|n1|\n", stderr="")

    assert one(job("1"), runner=elsewhere).state is State.RUNNING
    assert asked == ["squeue"]


def test_clients_get_a_clean_environment(clients, job, monkeypatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    clients.answer("squeue", "1|RUNNING|None|0|0|N/A|N/A|n1|\n")
    one(job("1"))
    environment = clients.calls("squeue")[0]["environment"]
    assert "SQUEUE_FORMAT" not in environment
    assert environment["SLURM_CONF"] == "/etc/slurm/slurm.conf"


@pytest.mark.slow
def test_thousands_of_jobs_in_a_few_calls(clients, job):
    clients.answer("squeue", "".join(f"{n}|RUNNING|None|0|0|N/A|N/A|n1|\n" for n in range(1500)))
    found = status.of([job(str(n)) for n in range(1500)])
    assert {s.state for states in found.values() for s in states} == {State.RUNNING}
    assert len(clients.calls("squeue")) == 2


def test_a_scheduler_that_only_knows_that_a_job_ended(clients, job):
    clients.answer("qstat", "Job Id:\t1\n\tjob_state = C\n\texec_host = n1/0\n")
    ended = job("1", scheduler="torque", age=9999.0)
    assert one(ended).state is State.LOST
    record(ended, state="ended", exit_code=3, host="n1")
    assert (one(ended).state, one(ended).exit_code, one(ended).nodes) == (State.FAILED, 3, "n1")


def test_a_code_that_tells_a_signal_is_whole(clients, job):
    """Of 139 sacct has 11; the run itself wrote what it was."""
    clients.answer("squeue", "")
    clients.answer("sacct", "7|FAILED|None|11:0|1|debug|N/A|N/A|n1\n8|FAILED|None|11:0|1|debug|N/A|N/A|n1\n")
    crashed, other = job("7"), job("8")
    record(crashed, state="ended", exit_code=139)
    record(other, state="ended", exit_code=11)
    assert (one(crashed).state, one(crashed).exit_code) == (State.FAILED, 139)
    assert one(other).exit_code == 11


@pytest.mark.parametrize(
    ("queue", "history"),
    [
        ("7|OUT_OF_MEMORY|OutOfMemory|35072|0|N/A|N/A|n1|\n", ""),
        ("", "7|OUT_OF_MEMORY|None|9:0|1|debug|N/A|N/A|n1\n"),
        ("", "7|OUT_OF_MEMORY|None|0:125|1|debug|N/A|N/A|n1\n"),
        ("7|FAILED|None|9|0|N/A|N/A|n1|\n", ""),
        ("", "7|FAILED|None|0:9|1|debug|N/A|N/A|n1\n"),
    ],
)
def test_the_exit_code_is_the_same_whoever_answers(clients, job, queue, history):
    clients.answer("squeue", queue)
    clients.answer("sacct", history)
    killed = job("7")
    record(killed, state="ended", exit_code=137)
    assert one(killed).exit_code == 137


def test_a_script_that_was_killed_has_the_code_of_its_signal(clients, job):
    clients.answer("squeue", "")
    clients.answer("sacct", "7|FAILED|None|0:9|1|debug|N/A|N/A|n1\n")
    killed = job("7")
    record(killed, state="running")
    assert one(killed).exit_code == 137


def test_points_that_slurm_forgot_when_they_were_cancelled(clients, job):
    """Slurm 22.05: tasks cancelled before they start are neither in squeue nor in sacct."""
    clients.answer("squeue", "")
    clients.answer("sacct", "14_0|COMPLETED|None|0:0|7001|debug|N/A|N/A|n1\n")
    sweep = job("14", array=4, age=9999.0)
    (sweep.directory / "plan.json").write_text("{}")
    list(control.cancel([Selection(job=sweep, tasks=(1,))]))
    list(control.cancel([Selection(job=sweep, tasks=(2,))]))
    found = status.of([sweep])[sweep.directory]
    assert [s.state for s in found] == [State.COMPLETED, State.CANCELLED, State.CANCELLED, State.LOST]
    assert [call["argv"][1:] for call in clients.calls("scancel")] == [["14_1"], ["14_2"]]
    new = replace(sweep, submitted=time.time())  # Slurm may not know point 3 yet
    states = [s.state for s in status.of([new])[sweep.directory]]
    assert states == [State.COMPLETED, State.CANCELLED, State.CANCELLED, State.UNKNOWN]


def test_a_job_that_lost_a_node_began_when_it_began(clients, job):
    """Under `--no-kill` it is resized, and sacct has a row for each size."""
    clients.answer("squeue", "")
    rows = (
        "7|RESIZING|None|0:0|7001|debug|2026-11-21T08:00:00|2026-11-21T08:10:00|n[1-2]\n"
        "7|COMPLETED|None|0:0|7001|debug|2026-11-21T08:10:00|2026-11-21T08:30:00|n1\n"
    )
    clients.answer("sacct", rows)
    found = one(job("7"))
    assert (found.state, found.started) == (State.COMPLETED, "2026-11-21T08:00:00")


def test_grid_engine_does_not_cut_the_names_of_queue_instances(clients):
    """qstat cuts them after 30 characters (qstat(1), SGE_LONG_QNAMES)."""
    clients.answer("qstat", "")
    back_end = backends.scheduler("gridengine")
    runs = JobStatus(job_id="8", state=State.RUNNING)
    for argv in (back_end.remarks([runs]), back_end.queue_rules()):
        cluster_clients.here(argv)
    calls = clients.calls("qstat")
    assert [call["argv"][1] for call in calls] == ["-f", "-f"]
    assert [call["environment"].get("SGE_LONG_QNAMES") for call in calls] == ["-1", "-1"]
