"""`dlrun why` on a corpus of failures with known answers: tests/captured/failures."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlrun.cli.main import COMMANDS
from dlrun.jobs.records import outcome
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.why import diagnose as why
from dlrun.why.command import lines
from dlrun.why.diagnose import answer
from dlrun.why.known.causes import CAUSES
from dlrun.why.known.programs.general import WAYS
from dlrun.why.known.table import WRITERS
from dlrun.why.patterns import BY_NOTE, BY_STATE, EXCEPTION, REPORTED, SIGNALS
from dlrun.why.verdict import plain
from tests import house
from tests.fakebin import FakeClients
from tests.unit.why import reported

REFERENCE = house.ROOT / "docs" / "reference"
FORMS = [form for writer in WRITERS for form in writer.forms]
CASES = sorted((house.ROOT / "tests" / "captured" / "failures").glob("*.txt"))


def lay_out(case: Path, run: Path) -> tuple[State, dict[str, str]]:
    """Make a job's directory of a case; its state, and what is known of it.

    `before`, `first` and `then` are processes that failed, in the order of their notes; `first` is to be named.
    """
    head, _, body = case.read_text("utf-8").partition("==> ")
    said = re.findall(r"# (\w+): (.*)", head)
    (run / "logs").mkdir(parents=True)
    (run / "failures").mkdir()
    for part in body.split("==> "):
        name, _, text = part.partition(" <==\n")
        (run / "logs" / name).write_text(text, "utf-8")
    known = dict(said)
    record = {"reason": known.get("reason"), "restarts": int(known.get("restarts", 0))}
    if any(record.values()):
        (run / "state.json").write_text(json.dumps({"state": "ended", **record}))
    for number, (key, note) in enumerate(said):
        if key in ("before", "first", "then") and note != "none":
            rank, code = note.split(" ", 1)
            (run / "failures" / f"rank-{rank}").write_text(
                f"{1795230000000000000 + number * 1000000} rank {rank} n{rank} {code}\n"
            )
    return State(known["state"]), known


def job_of(run: Path) -> Job:
    return Job(
        directory=run, name="x", site="there", scheduler="slurm", job_id="812", submitted=None, array=None
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_known_answer(case, tmp_path):
    state, known = lay_out(case, tmp_path)
    first = known["first"]
    found = answer(job_of(tmp_path), JobStatus(job_id="812", state=state, exit_code=1), tmp_path)
    assert found.cause == known["cause"], found
    shown = list(lines(job_of(tmp_path), found))
    assert 3 <= len(shown) <= 9
    assert shown[-1].startswith("next:  ")
    assert "{" not in re.sub(r"\{\w+: [^}]*\}", "", "\n".join(shown)), "every place is filled in"
    if first != "none":
        assert f"rank {first.split()[0]} on n{first.split()[0]}" in shown[2]
    assert known.get("says", "") in "\n".join(shown)
    assert not re.search(r"[\x00-\x1f\x7f]", "".join(shown)), "nothing of a log steers the terminal"


def test_the_corpus_knows_every_pattern():
    causes = {re.search(r"# cause: (.*)", case.read_text("utf-8"))[1] for case in CASES}
    known = (
        {*CAUSES, EXCEPTION.cause, REPORTED.cause}
        | {v[0] for v in SIGNALS.values()}
        | {v[0] for v in BY_STATE.values()}
    )
    known |= {v[0] for v in BY_NOTE.values()}
    assert causes - {"unknown", "job-script", "ports"} <= known  # and those of test_own_messages
    causes |= {case.cause for case in reported.CASES}
    assert known - causes == {"cancelled-by-admin", "lost"}


def test_the_line_that_tells_is_shown_with_its_log(tmp_path):
    (case,) = [c for c in CASES if c.stem == "peer-lost-because-of-an-exception"]
    lay_out(case, tmp_path)
    found = answer(job_of(tmp_path), JobStatus(job_id="812", state=State.FAILED, exit_code=1), tmp_path)
    assert (found.log, found.line) == ("logs/rank-3.log", "ModuleNotFoundError: No module named 'timm'")
    assert found.means == "Python has no module `timm` in the job's environment"


@pytest.mark.parametrize(
    ("state", "cause"), [(State.COMPLETED, "none"), (State.RUNNING, "open"), (State.PENDING, "open")]
)
def test_what_has_not_failed_is_not_explained(tmp_path, state, cause):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("CUDA out of memory\n")
    assert answer(job_of(tmp_path), JobStatus(job_id="1", state=state), tmp_path).cause == cause


def site_knows(run: Path, **failures) -> None:
    known = {name.replace("_", "-"): {"consequence": False, **it} for name, it in failures.items()}
    (run / "plan.json").write_text(json.dumps({"failures": known}))


def test_a_failure_that_the_site_knows_comes_before_those_known_to_all(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text(
        "LustreError: client evicted by scratch-OST0007, Input/output error\n"
    )
    site_knows(
        tmp_path,
        lustre_evicted={
            "pattern": r"evicted by ([\w-]+)",
            "means": "{1} lost its clients",
            "next": "report {1} to ops",
        },
    )
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=1), tmp_path)
    assert (found.cause, found.means) == ("lustre-evicted", "scratch-OST0007 lost its clients")
    assert found.next == "report scratch-OST0007 to ops"
    assert found.line.startswith("LustreError")


def test_a_consequence_of_the_sites_is_believed_last(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("Disk quota exceeded\nsite wrapper: job failed\n")
    site_knows(tmp_path, wrapper={"pattern": "site wrapper", "means": "m", "next": "n", "consequence": True})
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=1), tmp_path)
    assert found.cause == "quota"


def test_a_log_that_a_later_run_has_not_written_to_tells_nothing(tmp_path):
    """The second run ended before its ranks began."""
    (tmp_path / "logs").mkdir()
    old = tmp_path / "logs" / "rank-0.log"
    old.write_text("CUDA out of memory\n")
    os.utime(old, (1000, 1000))
    state = {"state": "ended", "exit_code": 1, "started": 5000, "restarts": 1}
    (tmp_path / "state.json").write_text(json.dumps(state))
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=1), tmp_path)
    assert found.cause == "unknown"
    (tmp_path / "state.json").write_text(json.dumps({**state, "restarts": 0}))
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=1), tmp_path)
    assert found.cause == "gpu-memory"


def test_what_is_to_be_typed_for_a_point_of_a_sweep_names_it(tmp_path):
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "rank-0").write_text("1795230000000000000 rank 0 n1 3\n")
    found = answer(job_of(tmp_path), JobStatus(job_id="1", task=4, state=State.FAILED, exit_code=3), tmp_path)
    assert found.next == f"`dlrun logs {tmp_path.name}:4 --rank 0`"


def test_only_the_word_itself_stands_for_the_job_in_a_next_step(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("no licence\n")
    site_knows(
        tmp_path,
        licence={"pattern": "no licence", "means": "none is free", "next": "give JOB and $SLURM_JOB_ID"},
    )
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=3), tmp_path)
    assert found.next == f"give {tmp_path.name} and $SLURM_JOB_ID"


def test_a_line_of_any_length_is_looked_at_in_no_time(tmp_path):
    """A state dict printed in one line, of which a pattern with two ends would try every pair."""
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "rank-0").write_text("1795230000000000000 rank 0 n1 1\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text(
        "module.layer " * 20000 + "\nNo space left on device\n" + "module: " * 9000
    )
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=1), tmp_path)
    assert found.cause == "disk-full"
    assert len(plain("module: " * 9000)) == 2000


def next_steps() -> list[str]:
    """Every next step that there is."""
    tables = (BY_STATE, BY_NOTE, SIGNALS)
    own = [text for form in FORMS for text in (form.next, form.check)]
    known = [text for advice in CAUSES.values() for text in (advice.next, advice.check)]
    return [EXCEPTION.next, REPORTED.next, *(way for _, way in WAYS), *own, *known] + [
        step for table in tables for *_, step in table.values()
    ]


def test_the_next_step_names_keys_and_commands_that_exist():
    """So that what it says can be typed."""
    schema = json.loads((REFERENCE / "spec.schema.json").read_text("utf-8"))
    site = json.loads((REFERENCE / "site.schema.json").read_text("utf-8"))
    for one in ("properties", "$defs"):
        schema[one] = {**site[one], **schema[one]}
    seen = set()
    for word in (word for step in next_steps() for word in re.findall(r"`([^`]*)`", step)):
        if match := re.match(r"(\w+)\.(\w+)(?=$|: )", word):
            section = schema["properties"][match[1]]
            options = [section, *section.get("anyOf", [])]
            found = [schema["$defs"][o["$ref"].rpartition("/")[2]] for o in options if "$ref" in o]
            assert any(match[2] in one["properties"] for one in found), word
            seen.add(match[1])
        elif word.startswith("dlrun "):
            assert word.split()[1] in COMMANDS, word
            seen.add("dlrun")
        elif word.endswith(":") or re.match(r"\w+: ", word):
            assert word.partition(":")[0] in schema["properties"], word
    assert seen >= {"resources", "environment", "on_failure", "dlrun"}


@pytest.mark.parametrize(("ended", "cause"), [(1062, "walltime"), (1030, "terminated")])
def test_a_job_that_is_asked_to_end_at_its_walltime(tmp_path, ended, cause):
    """PBS signals all processes at once; where the ranks end before the script hears of it, it reports their exit code."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps({"request": {"walltime": 60}}))
    state = {"state": "ended", "exit_code": 143, "started": 1000, "ended": ended}
    (tmp_path / "state.json").write_text(json.dumps(state))
    found = answer(job_of(tmp_path), JobStatus(job_id="1", state=State.FAILED, exit_code=143), tmp_path)
    assert found.cause == cause


@pytest.mark.parametrize(
    ("code", "signal", "rank", "cause"),
    [
        (None, 9, None, "killed"),
        (143, 9, 143, "killed"),
        (None, 9, 143, "killed"),
        (None, 9, 3, "unknown"),
        (143, None, 143, "terminated"),
        (None, 11, None, "segmentation-fault"),
    ],
)
def test_a_script_that_a_signal_ended_is_named_by_it(tmp_path, code, signal, rank, cause):
    """Its ranks are terminated because of that; a rank that failed in a way of its own is the cause itself."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "failures").mkdir()
    if rank is not None:
        (tmp_path / "failures" / "rank-0").write_text(f"1795230000000000000 rank 0 n1 {rank}\n")
    status = JobStatus(job_id="812", state=State.FAILED, exit_code=code, signal=signal)
    assert answer(job_of(tmp_path), status, tmp_path).cause == cause


@pytest.mark.parametrize(("state", "cause"), [("running", "killed"), ("ended", "mpi-ended")])
def test_what_slurm_calls_the_step_of_a_killed_script_is_not_its_cause(tmp_path, state, cause):
    """Slurm writes CANCELLED or FAILED, by which of its daemons is faster; a script that recorded its end was not killed."""
    (tmp_path / "logs").mkdir()
    line = "slurmstepd-n1: error: *** STEP 1.0 ON n1 FAILED (non-zero exit code or other failure mode) ***\n"
    (tmp_path / "logs" / "job.log").write_text(line)
    (tmp_path / "state.json").write_text(json.dumps({"state": state, "started": 1000}))
    for code, signal in ((137, None), (None, 9)):
        status = JobStatus(job_id="812", state=State.FAILED, exit_code=code, signal=signal)
        assert answer(job_of(tmp_path), status, tmp_path).cause == cause


def test_the_node_that_the_scheduler_names_is_named(tmp_path):
    (tmp_path / "logs").mkdir()
    status = JobStatus(job_id="812", state=State.NODE_FAILED, reason="node failure on n1 (rank 1)")
    found = answer(job_of(tmp_path), status, tmp_path)
    assert (found.cause, found.means) == (
        "node",
        "the scheduler counts a node as lost: node failure on n1 (rank 1)",
    )


@pytest.mark.parametrize(("state", "reason", "named"), [
    ("running", "node failure on n1 (rank 1)", True),
    ("running", "PBS lost the connection to its first node", True),
    ("running", "node failure on n12 (rank 4)", False),
    ("ended", "PBS lost the connection to its first node", False),
])  # fmt: skip
@pytest.mark.parametrize("scheduler", ["flux", "openpbs"])
def test_the_loss_of_the_scripts_node_is_named_and_has_a_way_out(tmp_path, state, reason, named, scheduler):
    """What runs beside the script can be gone without it: then it notes the end itself, and requests another start."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "state.json").write_text(json.dumps({"state": state, "started": 1000, "host": "n1"}))
    (tmp_path / "plan.json").write_text(json.dumps({"requeue": 1, "requeue_on": ["node_failed"]}))
    status = JobStatus(job_id="812", state=State.NODE_FAILED, reason=reason)
    found = answer(replace(job_of(tmp_path), scheduler=scheduler), status, tmp_path)
    assert ("n1, on which job.sh ran" in found.means) == named, found.means
    lost = scheduler == "flux" and state == "running"
    assert ("was on the lost node" in found.next) == lost, found.next
    assert f"`dlrun resubmit {tmp_path.name}`" in found.next


def test_a_rank_that_ended_well_too_early_is_named(tmp_path):
    """The others raise what their program makes of it, which no table knows."""
    run = tmp_path
    for name in ("logs", "failures", "ended"):
        (run / name).mkdir()
    (run / "logs/job.log").touch()
    (run / "logs/rank-0.log").write_text("Traceback (most recent call last):\nConnectionError: lost\n")
    (run / "logs/rank-1.log").write_text("done\n")
    (run / "failures/rank-0").write_text("1795230000000000000 rank 0 n0 1\n")
    (run / "ended/rank-1").write_text("1795229990000000000 rank 1 n1 0\n")
    failed = JobStatus(job_id="1", state=State.FAILED, exit_code=1)
    found = answer(job_of(run), failed, run)
    assert found.cause == "left-early"
    assert "rank 1 ended with exit code 0" in found.means
    (run / "ended/rank-1").write_text("1795230000900000000 rank 1 n1 0\n")  # after the failure
    assert answer(job_of(run), failed, run).cause == "exception"
    (run / "ended/rank-1").write_text("1795229990000000000 rank 1 n1 0\n")
    (run / "logs/rank-0.log").write_text("Traceback (most recent call last):\nValueError: bad batch\n")
    assert answer(job_of(run), failed, run).cause == "exception"


def test_a_node_that_got_its_data_slowly_is_named_whatever_the_cause(tmp_path):
    job = job_of(tmp_path)
    (tmp_path / "logs").mkdir(exist_ok=True)
    event = {
        "event": "slow",
        "host": "n7",
        "rate": 11_000_000,
        "others": 110_000_000,
        "node": 7,
        "name": "a",
        "version": 1,
    }
    (tmp_path / "logs" / "stage-0.jsonl").write_text(json.dumps(event) + "\n")
    found = answer(job, JobStatus(job_id="1", state=State.FAILED), tmp_path)
    assert "the network of n7 is slow: it got its data at 11MB/s, the others 110MB/s or more" in found.means


@pytest.mark.parametrize("second", ["7|RUNNING|None|0:0|1|debug|N/A|Unknown|n1\n", ""])
def test_who_cancelled_a_job_is_asked_again_until_accounting_has_it(second, tmp_path, monkeypatch):
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    monkeypatch.setattr(why, "_UNTIL_RECORDED", (0.0, 0.0))
    clients.answer("squeue", "812|CANCELLED|None|15|0|N/A|N/A||\n")
    clients.answer("sacct", second.replace("7|", "812|"))
    clients.answer("sacct", "812|CANCELLED by 0|None|0:15|1|debug|N/A|N/A|n1\n", call=3)
    (found,) = why.explain(job_of(tmp_path))
    assert found.cause == "cancelled-by-admin"
    assert len(clients.calls("sacct")) == 3


def test_a_job_that_dlrun_cancelled_is_asked_about_once(tmp_path, monkeypatch):
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    clients.answer("squeue", "812|CANCELLED|None|15|0|N/A|N/A||\n")
    clients.answer("sacct", "")
    outcome.note_cancelled(job_of(tmp_path), None)
    (found,) = why.explain(job_of(tmp_path))
    assert found.cause == "cancelled"
    assert len(clients.calls("sacct")) == 1


@pytest.mark.parametrize(
    ("notes", "unknown"),
    [
        ({"1": "0", "2": "0"}, "n1"),
        ({"1": "1", "2": "0"}, "n1, n2"),
        ({"0": "0", "1": "0", "2": "0"}, ""),
        ({"none": ""}, ""),
    ],
)
def test_nodes_whose_results_have_not_come_are_named_also_where_the_script_was_lost(tmp_path, notes, unknown):
    (tmp_path / "plan.json").write_text('{"results": {"to": "/r", "when": "always", "before_end": 10}}')
    (tmp_path / "hosts").write_text("n1\nn2\nn3\n")
    (tmp_path / "kept").mkdir()
    for name, code in notes.items():
        (tmp_path / "kept" / name).write_text(f"{code}\n")
    lost = JobStatus(job_id="1", state=State.NODE_FAILED)
    means = answer(job_of(tmp_path), lost, tmp_path).means
    assert means.partition("no word of the results on ")[2].partition(":")[0] == unknown


@pytest.mark.parametrize(("code", "cause"), [(137, "killed"), (1, "launcher")])
def test_steps_that_copy_results_after_the_training_are_not_why_it_was_killed(tmp_path, code, cause):
    (tmp_path / "logs").mkdir()
    (tmp_path / "state.json").write_text(json.dumps({"state": "ended", "exit_code": code, "reason": None}))
    (tmp_path / "logs" / "job.log").write_text(
        "dlrun: job 7 starts; rank 0 is on n1\ndlrun: copying the results to /r\n"
        "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
        f"srun: Step created for job 7\ndlrun: job 7 ended with exit code {code}\n"
    )
    found = answer(
        job_of(tmp_path), JobStatus(job_id="7", state=State.FAILED, exit_code=code, signal=None), tmp_path
    )
    assert found.cause == cause
