"""`dlrun why` on a corpus of failures with known answers: tests/captured/failures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlrun.cli.why import lines
from dlrun.effects.jobs import Job
from dlrun.effects.why import answer
from dlrun.effects.why_patterns import BY_NOTE, BY_STATE, PATTERNS, SIGNALS
from dlrun.model.job import JobStatus, State

CASES = sorted((Path(__file__).parents[2] / "captured" / "failures").glob("*.txt"))


def lay_out(case: Path, run: Path) -> tuple[State, str, str | None]:
    """Make a job's directory of a case; its state, its known cause, and the log that shows it."""
    head, _, body = case.read_text("utf-8").partition("==> ")
    said = dict(re.findall(r"# (\w+): (.*)", head))
    (run / "logs").mkdir(parents=True)
    (run / "failures").mkdir()
    for part in body.split("==> "):
        name, _, text = part.partition(" <==\n")
        (run / "logs" / name).write_text(text, "utf-8")
    if "reason" in said:
        (run / "state.json").write_text(json.dumps({"state": "ended", "reason": said["reason"]}))
    if said["first"] != "none":
        rank, code = said["first"].split(" ", 1)
        (run / "failures" / f"rank-{rank}").write_text(f"1795230000000000000 rank {rank} n{rank} {code}\n")
    return State(said["state"]), said["cause"], said["first"]


def job_of(run: Path) -> Job:
    return Job(
        directory=run, name="x", site="there", scheduler="slurm", job_id="812", submitted=None, array=None
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_known_answer(case, tmp_path):
    state, cause, first = lay_out(case, tmp_path)
    found = answer(job_of(tmp_path), JobStatus(job_id="812", state=state, exit_code=1), tmp_path)
    assert found.cause == cause, found
    shown = list(lines(job_of(tmp_path), found))
    assert 3 <= len(shown) <= 5
    assert shown[-1].startswith("next:  ")
    assert "{" not in re.sub(r"\{\w+: [^}]*\}", "", "\n".join(shown)), "every place is filled in"
    if first != "none":
        assert f"rank {first.split()[0]} on n{first.split()[0]}" in shown[2]


def test_the_corpus_knows_every_pattern():
    causes = {re.search(r"# cause: (.*)", case.read_text("utf-8"))[1] for case in CASES}
    known = {p.cause for p in PATTERNS} | {v[0] for v in SIGNALS.values()} | {v[0] for v in BY_STATE.values()}
    known |= {v[0] for v in BY_NOTE.values()}
    assert causes - {"unknown"} <= known
    assert known - causes == {"abort", "cancelled-by-admin", "lost"}


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
