"""States as a real Slurm 22.05 told them, one job in each."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.job import UNMET, State
from dlrun.schedulers.slurm.states import parse_history, parse_queue
from tests.fakebin import CAPTURED

slurm = backends.scheduler("slurm")

SLURM = CAPTURED / "slurm"


def by_job(statuses):
    return {
        status.job_id if status.task is None else f"{status.job_id}_{status.task}": status
        for status in statuses
    }


@pytest.fixture(scope="module")
def queue():
    return by_job(slurm.parse_queue((SLURM / "squeue.txt").read_text()))


@pytest.fixture(scope="module")
def history():
    return by_job(slurm.parse_history((SLURM / "sacct.txt").read_text()))


@pytest.mark.parametrize(
    ("job", "state"),
    [
        ("1", State.COMPLETED),
        ("2", State.FAILED),
        ("3", State.FAILED),
        ("4", State.TIMED_OUT),
        ("5", State.OUT_OF_MEMORY),
        ("6", State.NODE_FAILED),
        ("7", State.PREEMPTED),
        ("11", State.CANCELLED),
        ("13", State.CANCELLED),
        ("14_0", State.FAILED),
        ("14_1", State.RUNNING),
        ("14_3", State.PENDING),
        ("15", State.HELD),
        ("16", State.PENDING),
        ("17", State.CANCELLED),
        ("20", State.PENDING),
        ("22", State.RUNNING),
    ],
)
def test_queue_and_accounting_agree(queue, history, job, state):
    assert queue[job].state is state
    assert history[job].state is state


def test_only_accounting_knows_who_cancelled(queue, history):
    assert queue["12"].state is State.CANCELLED
    assert history["12"].state is State.CANCELLED_BY_ADMIN
    assert history["12"].reason == "cancelled by user id 0"


def test_rows_that_slurmdbd_is_still_making_are_not_believed():
    rows = "7|CANCELLED by 7001|None|0:0|0||N/A|N/A|n1\n8|FAILED|None|4:0|0||N/A|N/A|n1\n"
    assert slurm.parse_history(rows) == []


def test_ends(queue, history):
    for found in (queue, history):
        assert (found["1"].exit_code, found["1"].signal) == (0, None)
        assert (found["2"].exit_code, found["2"].signal) == (3, None)
        assert (found["3"].exit_code, found["3"].signal) == (None, 9)
        assert (found["5"].exit_code, found["5"].signal) == (None, None)  # 125 is no signal
        assert found["4"].exit_code is None
        assert found["6"].exit_code is None
        assert found["14_0"].exit_code == 5
        assert found["14_1"].exit_code is None


def test_reasons_are_those_of_the_state(queue, history):
    assert queue["2"].reason == "NonZeroExitCode"
    assert queue["6"].reason == "NodeDown"
    assert queue["13"].reason == UNMET
    assert queue["15"].reason == "JobHeldUser"
    assert queue["17"].reason is None  # it was held before it was cancelled
    assert queue["20"].reason.startswith("Nodes required for job are DOWN")
    assert queue["21"].state is State.HELD
    assert queue["22"].reason == "suspended"
    assert history["9"].reason is None  # accounting keeps why it once waited


def test_places_and_times(queue, history):
    for found in (queue, history):
        assert found["1"].nodes == "n[1-2]"
        assert found["20"].nodes is None
        assert found["1"].started == "2026-11-21T08:41:58"
        assert found["1"].ended == "2026-11-21T08:41:58"
        assert found["22"].ended is None  # squeue tells when its time will be up
        assert found["15"].started is None
    assert queue["9"].restarts == 1
    assert queue["1"].restarts == 0
    assert history["9"].restarts is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [("3:0", (3, None)), ("0:9", (None, 9)), ("768", (3, None)), ("9", (None, 9)), ("0:125", (None, None)),
     ("15", (None, 15)), ("garbage", (None, None)), ("1:x", (None, None))],
)  # fmt: skip
def test_exit_codes_before_and_after_23_02(code, expected):
    (status,) = slurm.parse_queue(f"7|FAILED|None|{code}|0|N/A|N/A||\n")
    assert (status.exit_code, status.signal) == expected


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("CONFIGURING", State.PENDING, "configuring"),
        ("COMPLETING", State.ENDING, None),
        ("BOOT_FAIL", State.NODE_FAILED, "boot_fail"),
        ("DEADLINE", State.TIMED_OUT, "deadline"),
        ("REQUEUE_HOLD", State.HELD, "requeue_hold"),
        ("NEW_IN_27", State.UNKNOWN, "Slurm reports NEW_IN_27"),
    ],
)
def test_rarer_states(word, state, reason):
    (status,) = slurm.parse_queue(f"7|{word}|None|0|0|N/A|N/A||\n")
    assert (status.state, status.reason) == (state, reason)


def test_an_ended_job_has_no_reason_of_its_wait():
    """squeue and sacct keep why a job waited."""
    row = "7|{}|Priority|0:0|1|debug|N/A|N/A|n1\n"
    for word in ("COMPLETED", "FAILED", "TIMEOUT", "PREEMPTED"):
        (found,) = parse_history(row.format(word))
        assert found.reason is None, word
    (found,) = parse_queue("7|FAILED|NonZeroExitCode|256|0|N/A|N/A|n1|\n")
    assert found.reason == "NonZeroExitCode"


QUEUED = (
    "37+1|{second}|None|0:0|2|2026-11-29T12:10:21|N/A|c[1-2]|\n38|RUNNING|None|0|0|N/A|N/A|n9|\n"
    "37+0|{first}|None|{code}|2|2026-11-29T12:10:21|2026-11-29T12:10:29|n[1-2]|\n"
)
"""As squeue prints the components of a heterogeneous job, in its order."""


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ("RUNNING", "RUNNING", State.RUNNING),
        ("COMPLETING", "CANCELLED", State.ENDING),
        ("CANCELLED", "NODE_FAIL", State.NODE_FAILED),
        ("FAILED", "OUT_OF_MEMORY", State.OUT_OF_MEMORY),
        ("FAILED", "FAILED", State.FAILED),
        ("TIMEOUT", "NODE_FAIL", State.TIMED_OUT),
    ],
)
def test_a_heterogeneous_job_is_one_job(first, second, state):
    job, other = slurm.parse_queue(QUEUED.format(first=first, second=second, code="1:0"))
    assert (job.job_id, job.state, job.nodes, job.restarts) == ("37", state, "n[1-2],c[1-2]", 2)
    assert (other.job_id, other.nodes) == ("38", "n9")


def test_memory_that_a_step_of_another_component_lacked_is_the_state_of_the_job():
    rows = """\
37+1|FAILED||0:0|7001|cpu|2026-11-29T12:10:21|2026-11-29T12:10:29|c[1-2]
37+1.0|OUT_OF_MEMORY||0:125|||2026-11-29T12:10:21|2026-11-29T12:10:29|c[1-2]
37+0|FAILED||1:0|7001|gpu|2026-11-29T12:10:21|2026-11-29T12:10:29|n[1-2]
37+0.batch|FAILED||1:0|||2026-11-29T12:10:21|2026-11-29T12:10:29|n1
"""
    (job,) = slurm.parse_history(rows)
    assert (job.state, job.exit_code, job.nodes) == (State.OUT_OF_MEMORY, 1, "n[1-2],c[1-2]")


def test_het_components_and_noise():
    assert [s.job_id for s in slurm.parse_queue("37+1|RUNNING|None|0|0|N/A|NONE|n1|\nCLUSTER: x\n\n")] == [
        "37"
    ]
    assert slurm.parse_history("14_[3-9%2]|PENDING|None|0:0|1|debug|Unknown|Unknown|None assigned\n") == []
