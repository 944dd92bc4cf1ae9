"""What a user needs every day: jobs where scratch is, old ones removed, completion, other programs' names of commands."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for

SITE = """\
name: with-scratch
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
storage: {jobs: $HERE_SCRATCH/dlrun}
"""
OK = "run: 'true'\nresources: {ranks_per_node: 1}\n"


def aged(job: Path, days: int) -> None:
    """A job as if it had ended so long ago."""
    then = time.time() - days * 86400
    for path in [job, *job.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)


def listed(dlrun: Dlrun, *arguments: str) -> list[dict]:
    return json.loads(dlrun("clean", *arguments, "--json").stdout)["clean"]


def test_jobs_lie_where_the_profile_has_them_and_are_found_by_name(dlrun, tmp_path, monkeypatch):
    (dlrun.place / "site.yaml").write_text(SITE)
    dlrun.spec(f"{OK}site: ./site.yaml\n")
    state = {
        "DLRUN_JOBS": None,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HERE_SCRATCH": str(tmp_path / "scratch"),
    }
    done = dlrun("submit", "spec.yaml", "--wait", env=state)
    (job,) = (tmp_path / "scratch" / "dlrun").glob("[!.]*")
    assert f"job directory: {job}" in done.stdout
    assert (tmp_path / "state" / "dlrun" / "jobs" / job.name).readlink() == job
    for words in (("status", "latest"), ("status", job.name), ("list",), ("logs", job.name, "--rank", "all")):
        dlrun(*words, env=state)
    assert job.name in dlrun("list", env=state).stdout
    without = {**state, "HERE_SCRATCH": None}
    home = dlrun("submit", "spec.yaml", env=without).stdout.split("job directory: ")[1].splitlines()[0]
    assert Path(home).parent == tmp_path / "state" / "dlrun" / "jobs"


def test_old_jobs_are_listed_first_and_removed_when_asked(dlrun):
    old, new = (Path(dlrun.submit(OK, "--wait")) for _ in range(2))
    aged(old, 40)
    (found,) = listed(dlrun)
    assert (found["directory"], found["removed"], found["foreign"]) == (str(old), False, [])
    assert "removes the directory of 1 job" in dlrun("clean").stderr
    assert old.exists()
    dlrun("clean", "--yes")
    assert not old.exists()
    assert new.exists()
    dlrun("delete", new, "--yes")
    assert not new.exists()


def test_what_the_training_wrote_stays_unless_it_is_asked_for(dlrun):
    job = dlrun.submit("run: 'echo x >{{ run_dir }}/last.pt'\nresources: {ranks_per_node: 1}\n", "--wait")
    aged(job, 40)
    (found,) = listed(dlrun, "--yes")
    assert found["foreign"] == ["last.pt"]
    assert job.exists()
    dlrun("clean", "--all", "--yes")
    assert not job.exists()


@pytest.mark.slow
def test_running_and_small_and_unknown_ones_stay(dlrun):
    job = dlrun.submit("command: [sleep, '600']\nresources: {ranks_per_node: 1}\n")
    aged(job, 40)
    assert listed(dlrun, "--yes") == []
    dlrun("cancel", job)
    assert listed(dlrun, str(job), "--larger-than", "1GB") == []
    assert "is not a time" in dlrun("clean", "--older-than", "5", code=2).stderr


def test_a_link_to_a_purged_directory_is_forgotten(dlrun):
    job = dlrun.submit(OK, "--wait", "--job-dir", dlrun.place / "elsewhere")
    (link,) = (path for path in dlrun.jobs.glob("[!.]*") if path.is_symlink())
    assert "elsewhere" in dlrun("list").stdout
    for path in sorted(job.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    job.rmdir()
    assert "elsewhere" not in dlrun("list").stdout
    dlrun("clean", "--yes")
    assert not link.is_symlink()


@pytest.mark.parametrize(
    ("other", "own"), [("ps", "status"), ("tail", "logs"), ("stop", "cancel"), ("delete", "clean")]
)
def test_other_programs_names_of_commands(dlrun, other, own):
    shown, meant = dlrun(other, "--help").stdout, dlrun(own, "--help").stdout
    assert shown.splitlines()[1:] == meant.splitlines()[1:]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("dlrun submit s.yaml --set ", "resources."),
        ("dlrun submit s.yaml --set resources.no", "resources.nodes="),
        ("dlrun plan s.yaml --site per", "perlmutter"),
        ("dlrun explain DLR10", "DLR105"),
        ("dlrun explain wal", None),
        ("dlrun logs la", "latest"),
        ("dlrun sta", "status"),
    ],
)
def test_completion(dlrun, words, wanted):
    env = {
        "_DLRUN_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    shown = dlrun(env=env, stdin=None).stdout.replace("plain,", "").splitlines()
    assert wanted is None or wanted in shown


def test_every_error_can_be_json(dlrun):
    for words, code in (
        (("status", "no-such-job"), 2),
        (("plan", "none.yaml"), 2),
        (("logs", "--nope", "x"), 2),
    ):
        shown = dlrun("--error-format", "json", *words, code=code).stderr
        problem = json.loads(shown.splitlines()[0])
        assert problem["message"]
        assert "Traceback" not in shown


def test_a_mistyped_destination_is_not_made(dlrun, tmp_path):
    (dlrun.place / "set").mkdir()
    (dlrun.place / "set" / "file").write_text("x")
    typo = tmp_path / "locla" / "me"
    done = dlrun("stage-data", "set", "--to", typo, code=2)
    assert done.stderr.startswith(f"error: cannot create `{typo}`: `{typo.parent}` does not exist\n")
    assert not typo.parent.exists()


STUDY = """\
run: |
  echo "95 images/s"; while [ ! -e {go} ]; do sleep 0.1; done
resources: {{ranks_per_node: 1}}
"""


@pytest.mark.slow
def test_a_running_study_is_one_thing_with_its_runs(dlrun):
    go = dlrun.place / "go"
    dlrun.spec(f"name: st\n{STUDY.format(go=go)}")
    with dlrun.start(
        "scale", "spec.yaml", "--nodes", "1", "--ranks-per-node", "1,2", "--repeat", "2"
    ) as scale:
        running = "0 of 4 runs have ended: 2 not submitted, 1 running, 1 pending"
        wait_for(lambda: running in dlrun("status").stderr)
        assert f"study st-scaling: {running}" in dlrun("status", "st-scaling").stderr
        go.touch()
        scale.communicate(timeout=300)
    assert "study st-scaling: 4 of 4 runs have ended: 4 completed" in dlrun("status", "st-scaling").stderr
    assert len(json.loads(dlrun("status", "st-scaling", "--json").stdout)["jobs"]) == 2


@pytest.mark.slow
def test_a_link_to_the_log_where_the_job_was_submitted(dlrun):
    job = dlrun.submit(f"{OK}log_link: slurm-%j.out\n", "--wait")
    (link,) = dlrun.place.glob("slurm-*.out")
    assert link.readlink() == job / "logs" / "job.log"
    assert "ended with exit code 0" in link.read_text()
    sweep = dlrun.submit(f"{OK}log_link: '%x.log'\nsweep: {{lr: [1, 2]}}\n")
    assert (dlrun.place / "run.log").readlink() == sweep / "points"
    dlrun("logs", "-f", sweep)
    again = dlrun("submit", "spec.yaml", "--wait")
    assert "warning: no link to the log" in again.stderr, "what is there stays"
    wrong = dlrun("plan", dlrun.spec(f"{OK}log_link: a/b\n"), code=2).stderr
    assert "`log_link` takes a file name without a path" in wrong


@pytest.mark.slow
def test_answers_of_requests_and_names_of_logs_as_json(dlrun):
    job = dlrun.submit("run: 'sleep 600'\nresources: {ranks_per_node: 1}\n")
    (done,) = json.loads(dlrun("cancel", job, "--json").stdout)["cancel"]
    assert done["job"] == job.name
    assert done["result"]
    ended = dlrun.submit(OK, "--wait")
    logs = json.loads(dlrun("logs", ended, "--rank", "all", "--json").stdout)["logs"]
    assert [one["process"] for one in logs] == ["job", "rank 0"]
    assert all(Path(one["path"]).exists() for one in logs)
