"""Several programs in one job on this machine, as a newcomer runs them: real servers, cores of their own, one end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import wait_for
from tests.cli.test_trackers import commit
from tests.making import LOCAL

EXAMPLE = Path(__file__).parents[2] / "examples" / "roles"
SPEC = """\
resources: {walltime: 5m}
roles:
  judge:
    run: |
      echo "run $DLRUN_RUN_ID"
      echo "judge on $(taskset -cp $$ | sed 's/.*: //')"
      exec python3 -m http.server {{ role.judge.port }}
    ready: {http: /, within: 1m}
  train:
    run: |
      echo "run $DLRUN_RUN_ID"
      echo "train on $(taskset -cp $$ | sed 's/.*: //')"
      python3 -c "import urllib.request as u; print('answer', u.urlopen('http://{{ role.judge.address }}/').status)"
      %s
    needs: [judge]
"""


def log(job: Path, role: str) -> str:
    path = job / "roles" / role / "logs/rank-0.log"
    return path.read_text() if path.exists() else ""


def cpus(job: Path, role: str) -> set[str]:
    (line,) = [line for line in log(job, role).splitlines() if line.startswith(f"{role} on")]
    return set(line.removeprefix(f"{role} on ").split(","))


@pytest.mark.slow
def test_the_example_runs_in_this_terminal(dlrun):
    for file in EXAMPLE.iterdir():
        (dlrun.place / file.name).write_text(file.read_text())
    ran = dlrun("run", "spec.yaml", "--site", "workstation", "--set", "roles.train.nodes=1")
    assert "step 400 mean reward" in ran.stdout, ran.stderr
    assert not dlrun.alive()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_plan_names_what_is_of_the_whole_job_once(dlrun):
    """The walltime is asked for once, and the job ends with both of its clients, not with one of them."""
    asking = "{command: [ask], needs: [model]}"
    spec = dlrun.spec(
        f"name: x\nresources: {{walltime: 1h}}\nroles:\n  model: {{command: [serve], ready: {{port: true}}}}\n"
        f"  one: {asking}\n  two: {asking}\n"
    )
    shown = dlrun("plan", spec, "--site", "generic-slurm").stdout
    assert shown.count("walltime    1h") == 1
    assert shown.count("ends        the job ends when one and two have ended") == 2


def test_each_role_has_cores_of_its_own(dlrun):
    job = dlrun.submit(SPEC % "true")
    dlrun("logs", "-f", job, code=None)
    assert "answer 200" in log(job, "train"), (job / "logs/job.log").read_text()
    assert not cpus(job, "judge") & cpus(job, "train")
    runs = {
        line for role in ("judge", "train") for line in log(job, role).splitlines() if line.startswith("run ")
    }
    assert len(runs) == 2, "what marks their processes on the node"
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    assert [run["state"] for run in found["runs"]] == ["completed"]
    assert [(one["role"], one["state"]) for one in found["roles"]] == [("judge", "ended"), ("train", "ended")]
    dlrun("clean", job, "--yes")
    assert not job.exists()


@pytest.mark.slow
def test_the_ranks_of_all_roles_are_watched_while_they_run(dlrun):
    metrics = "metrics: {loss: 'loss: ([0-9.]+)'}\n"
    job = dlrun.submit(
        metrics + SPEC % "echo loss: 0.5; until [[ -e $DLRUN_JOB_DIR/stop ]]; do sleep 0.1; done"
    )

    def shown() -> dict:
        return json.loads(dlrun("usage", "--live", "--once", "--json", job).stdout)["top"]

    wait_for(
        lambda: len(shown()["ranks"]) == 2 and "answer" in log(job, "train") and "loss" in log(job, "train")
    )
    live = shown()
    lines = {one["rank"]: one["line"] for one in live["ranks"]}
    assert lines["train/rank-0"] == "loss: 0.5"
    assert "GET /" in lines["judge/rank-0"]
    assert len(live["nodes"]) == 1
    assert live["metrics"]["loss"]["value"] == 0.5
    (job / "roles/train/stop").touch()
    wait_for(lambda: not dlrun.alive())
    (result,) = json.loads(dlrun("results", job, "--json").stdout)["results"]
    assert result["metrics"]["loss"]["value"] == 0.5


@pytest.mark.slow
def test_a_role_that_fails_is_the_cause(dlrun):
    job = dlrun.submit(SPEC % "exit 7")
    dlrun("logs", "-f", job, code=None)
    (why,) = json.loads(dlrun("why", job, "--json").stdout)["why"]
    assert (why["role"], why["exit_code"]) == ("train", 7)
    wait_for(lambda: not dlrun.alive())


@pytest.mark.slow
def test_a_job_that_is_cancelled_leaves_nothing(dlrun):
    job = dlrun.submit(SPEC % "sleep 600")
    wait_for(lambda: "answer 200" in log(job, "train"))
    dlrun("cancel", job)
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    assert [run["state"] for run in found["runs"]] == ["cancelled"]
    assert not dlrun.alive()


@pytest.mark.slow
def test_an_interrupt_ends_all_roles(dlrun):
    dlrun.spec(SPEC % "sleep 600")
    with dlrun.start("run", "spec.yaml") as process:
        wait_for(lambda: any("answer 200" in log(job, "train") for job in dlrun.jobs.glob("*")))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: not dlrun.alive())


SAVES = """\
resources: {walltime: 90s}
checkpoint: {signal: USR1, before_end: 60s}
on_failure: {requeue: 2}
roles:
  judge:
    run: exec python3 -m http.server {{ role.judge.port }}
  train:
    run: |
      echo "start $DLRUN_RESTART for {{ role.judge.port }} of W&B run $WANDB_RUN_ID"
      trap 'echo saved; exit 0' USR1
      while [ "$DLRUN_RESTART" = 0 ]; do sleep 0.2; done
    needs: [judge]
"""


@pytest.mark.slow
def test_before_the_walltime_the_training_saves_and_the_job_goes_on(dlrun):
    job = dlrun.submit(SAVES)
    dlrun("logs", "-f", job, code=None)
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    assert [run["state"] for run in found["runs"]] == ["completed"], (job / "logs/job.log").read_text()
    lines = [line for line in log(job, "train").splitlines() if not line.startswith("dlrun:")]
    starts = [line.split() for line in lines if line.startswith("start")]
    assert [words[1] for words in starts] == ["0", "1"]
    assert {words[-1] for words in starts} == {f"{job.name}-train"}, (
        "its charts go on; no other job has this name"
    )
    assert lines.count("saved") == 1
    assert "another start of the job follows" in (job / "logs/job.log").read_text()


@pytest.mark.slow
def test_what_each_role_used(dlrun):
    stop = 'os.path.exists(os.environ["DLRUN_JOB_DIR"] + "/stop")'
    job = dlrun.submit(SPEC % f"python3 -c 'import os; [None for _ in iter(lambda: {stop}, True)]'")

    def cpu() -> dict[str, float]:
        found = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
        return {one["role"]: sum(rank["cpu"] for rank in one["use"]["ranks"]) for one in found}

    wait_for(lambda: (found := cpu()).keys() >= {"judge", "train"} and found["train"] > found["judge"] + 4)
    (job / "roles/train/stop").touch()
    dlrun("logs", "-f", job, code=None)
    judge, train = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    assert (judge["role"], train["role"]) == ("judge", "train")
    assert cpu()["train"] > cpu()["judge"] + 3, "neither has that of the other role on its node"
    shown = dlrun("usage", job).stdout
    table = {line.split()[0]: line.split() for line in shown.splitlines()[1:3]}
    assert shown.splitlines()[0].split()[:4] == ["ROLE", "NODES", "READY", "RESTARTS"]
    assert sorted(table) == ["judge", "train"]
    assert float(table["train"][5]) > float(table["judge"][5])
    assert f"{job.name}, role judge: completed" in shown
    csv = dlrun("usage", job, "--csv").stdout.splitlines()
    assert [line.split(",")[0] for line in csv] == ["point", "judge", "train"]
    page = dlrun.place / "page.html"
    dlrun("usage", "--page", job, "-o", page)
    text = page.read_text()
    for word in ("judge (1 node), train (1 node)", ">judge<", ">train<"):
        assert word in text, word
    for role, word in (("judge", "http.server"), ("train", "urllib.request")):
        assert word in text.partition(f"<dt>command of {role}</dt><dd>")[2].partition("</dd>")[0]
        assert f"<h2>Placement of {role}</h2>" in text
        assert f"<tr><td>{role}</td><td>OMP_NUM_THREADS</td>" in text


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_roles_divide_what_was_granted_of_a_larger_machine(dlrun):
    count = 2 * len(os.sched_getaffinity(0))
    site = f"node_types: {{n: {{topology: {{packages: 1, cores: {count}}}}}}}"
    (dlrun.place / "site.yaml").write_text(LOCAL + site + "\n")
    job = dlrun.submit("site: ./site.yaml\n" + SPEC % "true")
    dlrun("logs", "-f", job, code=None)
    assert "answer 200" in log(job, "train"), (job / "logs/job.log").read_text()
    for role in ("judge", "train"):
        assert "of the plan was not granted to this job" in log(job, role)
    assert not cpus(job, "judge") & cpus(job, "train")


COPIED = """\
code: snapshot
track: [wandb, tensorboard]
resources: {walltime: 5m}
roles:
  judge:
    run: |
      env | grep -E '^(WANDB_RUN_ID|TENSORBOARD)'
      cat version >&2
      touch up
      exec sleep 600
    ready: {file: up, within: 2m}
  train:
    run: |
      env | grep -E '^(WANDB_RUN_ID|WANDB_TAGS|TENSORBOARD|DLRUN_COMMIT)'
      until [ -e PLACE/edited ]; do sleep 0.1; done
      ls up version; cat version
    needs: [judge]
"""


@pytest.mark.slow
@pytest.mark.needs("git")
def test_all_roles_run_in_one_copy_of_the_code_and_the_one_that_ends_the_job_has_the_run_of_the_tracker(
    dlrun,
):
    (dlrun.place / "version").write_text("version 1\n")
    (dlrun.place / ".gitignore").write_text("*.yaml\njobs/\n")
    head = commit(dlrun.place)
    job = dlrun.submit(COPIED.replace("PLACE", str(dlrun.place)))
    (dlrun.place / "version").write_text("version 2\n")
    (dlrun.place / "edited").touch()
    dlrun("logs", "-f", job, code=None)
    train, judge = log(job, "train").splitlines(), log(job, "judge").splitlines()
    assert train[-3:] == ["up", "version", "version 1"], (job / "logs/job.log").read_text()
    assert "version 1" in judge
    assert f"WANDB_RUN_ID={job.name}-train" in train
    assert f"DLRUN_COMMIT={head}" in train
    assert not [line for line in judge if line.startswith("WANDB")]
    assert {line for line in train + judge if line.startswith("TENSORBOARD")} == {
        f"TENSORBOARD_LOGGING_DIR={job}/tensorboard"
    }
    again = json.loads(dlrun("resubmit", job, "--json").stdout)["job"]["directory"]
    dlrun("logs", "-f", again, code=None)
    assert log(Path(again), "train").splitlines()[-1] == "version 1", "also when it is submitted again"
    (job / "work/up").unlink()  # else it is kept, as what a program wrote
    dlrun("clean", job, "--yes")
    assert not job.exists()


STAGED = """\
code: {stage: true}
resources: {walltime: 5m}
roles:
  judge:
    run: |
      pwd; cat version; echo judge >out; echo judge >of-judge
      echo up
      exec sleep 600
    ready: {log: up, within: 2m}
  train:
    run: |
      until [ -e PLACE/edited ]; do sleep 0.1; done
      pwd; cat version; ls; echo train >out
    needs: [judge]
"""


@pytest.mark.slow
@pytest.mark.needs("git")
def test_each_role_has_a_copy_of_the_code_on_its_node_and_what_it_writes_comes_back_to_its_directory(dlrun):
    storage = f"storage: {{node_local: {{path: {dlrun.place}/local, size: 10GB}}}}\n"
    (dlrun.place / "local").mkdir()
    (dlrun.place / "site.yaml").write_text(LOCAL + storage)
    (dlrun.place / "version").write_text("version 1\n")
    (dlrun.place / ".gitignore").write_text("*.yaml\njobs/\nlocal/\n")
    commit(dlrun.place)
    job = dlrun.submit("site: ./site.yaml\n" + STAGED.replace("PLACE", str(dlrun.place)))
    (dlrun.place / "version").write_text("version 2\n")
    (dlrun.place / "edited").touch()
    dlrun("logs", "-f", job, code=None)
    log_of_job = (job / "logs/job.log").read_text()
    train, judge = log(job, "train").splitlines(), log(job, "judge").splitlines()
    assert train[-2:] == ["version 1", "version"], log_of_job
    assert judge[-2:] == ["version 1", "up"], log_of_job
    places = [
        next(line for line in lines if line.startswith(f"{dlrun.place}/local/")) for lines in (train, judge)
    ]
    assert places[0] != places[1]
    works = {name: job / "roles" / name / "work" for name in ("judge", "train")}
    written = {name: sorted(path.name for path in work.iterdir()) for name, work in works.items()}
    assert written == {
        "judge": [".gitignore", "of-judge", "out", "version"],
        "train": [".gitignore", "out", "version"],
    }, log_of_job
    assert {name: (work / "out").read_text() for name, work in works.items()} == {
        "judge": "judge\n",
        "train": "train\n",
    }
    of_judge = (job / "roles/judge/logs/job.log").read_text()
    named = of_judge.split(f"the program wrote to {works['judge']}: ")[1].splitlines()[0]
    assert sorted(named.split(", ")) == ["of-judge", "out"]
    kept = (path for path in (dlrun.place / "local").rglob("*") if ".dlrun" not in path.parts)
    assert not [path for path in kept if "code" in path.name]
    for path in (works["judge"] / "of-judge", works["judge"] / "out", works["train"] / "out"):
        path.unlink()  # else they are kept, as what a program wrote
    dlrun("clean", job, "--yes")
    assert not job.exists()


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_snapshot_has_the_directories_of_all_roles(dlrun):
    (dlrun.place / "one").mkdir()
    (dlrun.place / "one" / "program.py").write_text("")
    commit(dlrun.place / "one")
    roles = "roles: {a: {command: ['true'], directory: one}, b: {command: ['true'], directory: PLACE/two}}"
    (dlrun.place / "two").mkdir()
    ran = dlrun("submit", dlrun.spec(f"code: snapshot\n{roles}".replace("PLACE", str(dlrun.place))), code=2)
    assert "role `b` works in" in ran.stderr
    assert not list(dlrun.jobs.glob("run-*"))
