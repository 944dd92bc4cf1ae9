"""A scaling study on a login node: its submissions broken off wherever they can be, its results read there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.clusters import login
from dlrun.jobs.queue import study as studies
from dlrun.jobs.queue.study import Size, Study
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import TransportFailed
from dlrun.trials.scale import submit as scaling_submit
from dlrun.trials.scale.measured import measured_runs
from tests.examples import chosen
from tests.unit.system.transport.far import Wire


@pytest.fixture
def far(far):
    """One whose scheduler has let go of every job: what became of them, they say themselves."""
    for name in ("squeue", "sacct"):
        (far.home / "programs" / name).write_text("#!/bin/bash\n")
        (far.home / "programs" / name).chmod(0o755)
    return far


@pytest.fixture
def study(far) -> Study:
    found = Study(
        directory=far.home / "study", name="job", origin=Path.cwd(), spec=Path("spec.yaml").absolute(), site=None,
        sets=(), mode="weak", repeat=2, sizes=(Size(nodes=1), Size(nodes=2)), host="there", transport="local",
    )  # fmt: skip
    found.save()
    return found


def wire(monkeypatch, count: int | None) -> Wire | LocalTransport:
    """The connection that the next call uses; one with a `count` breaks there."""
    found = LocalTransport("there") if count is None else Wire(count)
    monkeypatch.setattr(login, "_ways", {("there", "local"): found})
    return found


def go_on(study: Study, far, **how) -> None:
    studies.settle(study)
    place = scaling_submit.submitter(study)
    checked = scaling_submit.checked(study, place)
    scaling_submit.carry_out(checked, place, wait=False, notice=far.said.append, **{"at_once": False, **how})


def sizes_there(far) -> dict[str, int]:
    """The job directories that were submitted from, each with its nodes."""
    return {
        place: json.loads((Path(place) / "plan.json").read_text())["request"]["nodes"]
        for place in far.calls()
    }


def end(far, speed: float, rank: int = 0) -> None:
    """All jobs have run well, and say so in their directories there."""
    for place, nodes in sizes_there(far).items():
        for run in (Path(place) / "points").iterdir():
            (run / f"logs/rank-{rank}.log").write_text(f"{speed * nodes} images/s\n")
            record = {"version": 1, "state": "ended", "exit_code": 0, "started": 1.0, "ended": 5.0}
            (run / "state.json").write_text(json.dumps(record))


def test_runs_are_submitted_there_and_read_from_there(far, study, monkeypatch):
    wire(monkeypatch, None)
    go_on(study, far)
    assert sorted(sizes_there(far).values()) == [1, 2]
    records = [job for _, job in studies.jobs_of(study)]
    assert [str(job.directory.parent) for job in records] == [str(study.directory / "jobs")] * 2
    assert [job.remote.directory for job in records] == far.calls()
    assert (
        "--dependency=afterany:1" in (Path(far.calls()[1]) / "job.sh").read_text()
    )  # the second waits for the first
    assert not far.records()  # a study's jobs are the study's, not entries of `dlrun status --recent`
    end(far, 50)
    assert [run.as_run.throughput for run in measured_runs(study)] == [50, 50, 100, 100]
    go_on(study, far)
    assert len(far.calls()) == 2
    wire(monkeypatch, 1)  # and once they have ended, nobody there is asked again
    assert [run.as_run.throughput for run in measured_runs(study)] == [50, 50, 100, 100]


@pytest.mark.slow
def test_a_speed_that_the_last_rank_prints_is_found_there(far, study, monkeypatch):
    wire(monkeypatch, None)
    go_on(study, far)
    end(far, 50, rank=7)
    assert [run.as_run.throughput for run in measured_runs(study)] == [50, 50, 100, 100]


@pytest.mark.slow
def test_wire_cut_everywhere(far, study, monkeypatch):
    """The connection breaks at each thing that goes over it in turn; the same command then goes on."""
    wire(monkeypatch, None)
    plain = scaling_submit.checked(study, scaling_submit.submitter(study))
    for count in chosen(range(1, 300, 7), quick=12):
        here = studies.replace(plain, directory=far.home / f"study-{count}")
        here.save()
        before = len(far.calls())
        broken = wire(monkeypatch, count)
        try:
            go_on(here, far)
        except TransportFailed:
            assert broken.cut
            wire(monkeypatch, None)
            go_on(here, far)
        jobs = [job for _, job in studies.jobs_of(here)]
        assert far.calls()[before:] == [job.remote.directory for job in jobs], f"cut at {count}"
        assert [job.job_id is not None for job in jobs] == [True, True]
        if not broken.cut:
            assert count > 30
            return
    pytest.fail("a study's submission has no end")


def test_files_that_changed_since_are_refused(far, study, monkeypatch):
    wire(monkeypatch, None)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
        with pytest.raises(TransportFailed):
            go_on(study, far)
    (far.tree / "train.sh").write_text("echo something else\n")
    with pytest.raises(Invalid, match="have changed since the submission of `1xauto-1` was interrupted"):
        go_on(study, far)


def died(*_arguments, **_options):
    raise TransportFailed("the wire is cut")
