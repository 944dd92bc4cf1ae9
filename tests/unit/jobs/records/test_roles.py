"""The directory of a job with several programs: its logs, how its roles are, which failed first, and what `clean` removes."""

from __future__ import annotations

import json

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.queue import role_states
from dlrun.jobs.records import contents, directories, jobs
from dlrun.model.job import JobStatus, State
from dlrun.render.script import plan_json
from dlrun.render.written_names import written_names
from dlrun.why.endings import first_role
from tests.making import SLURM, plan_of, scripts_of

SPEC = "roles: {judge: {command: [a], ready: {port: true}}, train: {command: [b], needs: [judge], ranks_per_node: 2}}"


@pytest.fixture
def job(tmp_path):
    """A job that ran, as its programs leave it."""
    plan = plan_of(tmp_path, SPEC, SLURM)
    place = tmp_path / "jobs" / "run"
    submission = {directories.SUBMISSION: json.dumps({"job_id": "7", "submitted": 1.0})}
    made = {**scripts_of(plan, place), "plan.json": plan_json(plan), **submission}
    directories.create(place, made, written_names(plan))
    for name, text in {
        "state.json": {"state": "ended", "role": "judge", "exit_code": 137},
        "roles/judge/state.json": {"state": "ended", "exit_code": 137},
        "roles/judge/role.json": {
            "state": "ended",
            "hosts": ["n1"],
            "ready_after": 3.1,
            "restarts": 1,
            "exit_code": 137,
        },
        "roles/train/role.json": {"state": 7, "hosts": None, "restarts": "many"},
        "roles/judge/usage/n1.jsonl": {"kind": "start", "node": "n1"},
        "roles/train/logs/rank-1.log": {},
    }.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(json.dumps(text) + "\n")
    found = jobs.load(place)
    assert found is not None
    return found


def test_each_role_has_logs(job):
    assert job.damage is None
    assert job.roles == ("judge", "train")
    names = [path.relative_to(job.directory).as_posix() for path in job.log_directories()]
    assert names == [".", "roles/judge", "roles/train"]
    assert all((path / "logs").is_dir() for path in job.log_directories())


def test_the_states_of_roles_are_read_as_far_as_they_are_plausible(job):
    judge, train = role_states.of(job)
    assert (judge.state, judge.hosts, judge.ready_after, judge.exit_code) == ("ended", ("n1",), 3.1, 137)
    assert train == role_states.RoleState(role="train")


@pytest.mark.parametrize(("state", "shown"), [
    (State.RUNNING, "ready"), (State.NODE_FAILED, "node failed"), (State.PENDING, "waiting"),
])  # fmt: skip
def test_a_role_that_the_end_of_the_job_has_left_running_does_not_run(job, state, shown):
    """As where the node of the job's script is lost: nothing writes the end of the roles."""
    left = {"state": "ready", "hosts": ["n2"]}
    (job.role_directory("train") / "role.json").write_text(json.dumps(left))
    judge, train = role_states.of(job, [JobStatus(job_id="7", state=state)])
    assert judge.state == "ended"
    assert (train.state, train.hosts) == (shown, () if state is State.PENDING else ("n2",))


def test_the_first_role_that_failed_is_one_of_the_job(job):
    assert first_role(job, {"role": "judge"}) == "judge"
    assert first_role(job, {"role": "../.."}) is None
    assert first_role(job, {}) is None


def test_clean_takes_all_that_the_roles_wrote_and_nothing_else(job):
    (job.directory / "roles/train/mine").write_text("a user's\n")
    contents.remove_own(job.directory)
    left = {path.relative_to(job.directory).as_posix() for path in job.directory.rglob("*") if path.is_file()}
    assert {name for name in left if name.startswith("roles/")} == {"roles/train/mine"}


def test_names_of_roles_that_are_paths_are_damage(job):
    plan = json.loads((job.directory / "plan.json").read_text())
    plan["role_jobs"]["jobs"][0]["name"] = "../.."
    (job.directory / "plan.json").write_text(json.dumps(plan))
    assert "role_jobs" in str(jobs.load(job.directory).damage)
    with pytest.raises(Invalid):
        jobs.find("run", job.directory.parent)
