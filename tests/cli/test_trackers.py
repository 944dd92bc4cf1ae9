"""`track`: the names of a run stay the same when a job starts again, each point has its own, and what is set is kept."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.meeting import ALL_HERE

SHOW = (
    'run: \'env -0 | sort -z | grep -zE "^(WANDB|MLFLOW|TENSORB|DLRUN_(TRACK|PLAN|COMMIT))" | tr "\\\\0" "\\\\n";'
    f" {ALL_HERE}; exit $((DLRUN_RESTART == 0))'\n"
    "on_failure: {requeue: 1, user_error: requeue}\nusage: false\n"
)
TWO = "resources: {ranks_per_node: 2}\n"


def starts(run, rank=0) -> list[dict[str, str]]:
    """The variables that each start of the job has printed."""
    text = (run / "logs" / f"rank-{rank}.log").read_text()
    found = []
    for part in text.split("dlrun: run 2\n"):
        lines = [line for line in part.splitlines() if "=" in line and not line.startswith("dlrun: ")]
        found.append(dict(line.split("=", 1) for line in lines))
    return found


def commit(place) -> str:
    git = ["git", "-C", place, "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    shown = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return shown.stdout[:12]


@pytest.mark.slow
@pytest.mark.parametrize("code", ["record", "snapshot"])
def test_a_requeued_job_continues_its_run_and_has_its_tags(dlrun, code):
    (dlrun.place / "train.py").write_text("print(1)\n")
    head = commit(dlrun.place)
    job = dlrun.submit(f"track: [wandb, mlflow, tensorboard]\ncode: {code}\n{TWO}{SHOW}", "--wait")
    first, second = starts(job)
    assert first == second
    assert first["WANDB_RUN_ID"] == first["WANDB_NAME"] == first["DLRUN_TRACK_ID"]
    assert first["WANDB_RUN_ID"].startswith(job.name[:30])
    assert first["WANDB_RESUME"] == "allow"
    assert "WANDB_RUN_GROUP" not in first
    tags = json.loads(first["MLFLOW_RUN_CONTEXT"])
    assert tags["mlflow.runName"] == tags["dlrun.run"] == first["WANDB_RUN_ID"]
    # The spec itself was written after the commit.
    assert tags["dlrun.commit"] == first["DLRUN_COMMIT"] in (head, f"{head}-dirty")
    names = ("job", "site", "plan", "commit")
    assert first["WANDB_TAGS"] == ",".join(f"{name}:{tags[f'dlrun.{name}']}" for name in names)
    assert first["TENSORBOARD_LOGGING_DIR"] == f"{job}/tensorboard"
    other, _ = starts(job, 1)
    assert other == {"TENSORBOARD_LOGGING_DIR": f"{job}/tensorboard"}


def test_each_point_of_a_sweep_has_its_own_run_in_one_group(dlrun):
    name = "a-name-that-is-much-too-long-for-the-identifier-of-a-run-in-wb"
    job = dlrun.submit(
        f"name: {name}\ntrack: wandb\nsweep: {{lr: [1, 2]}}\n{SHOW}".replace("'env", "': {{ lr }}; env"),
        "--wait",
    )
    runs = [starts(job / "points" / str(point)) for point in range(2)]
    ids = [[one["WANDB_RUN_ID"] for one in run] for run in runs]
    assert [len(set(each)) for each in ids] == [1, 1]
    assert ids[0][0] != ids[1][0]
    assert all(len(one) <= 64 and one.endswith(f"-{point}") for point, (one, _) in enumerate(ids))
    assert {one["WANDB_RUN_GROUP"] for run in runs for one in run} == {job.name}


OFFLINE = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
internet: false
"""


@pytest.mark.slow
def test_where_nodes_do_not_reach_the_internet_the_run_is_kept_and_its_upload_named(dlrun):
    (dlrun.place / "site.yaml").write_text(OFFLINE)
    begun = SHOW.replace("'env", '\'mkdir -p "$WANDB_DIR/wandb/offline-run-1"; env')
    job = dlrun.submit(f"site: site.yaml\ntrack: wandb\n{TWO}{begun}", "--wait")
    for rank in (0, 1):
        first, second = starts(job, rank)
        assert first == second
        assert (first["WANDB_MODE"], first["WANDB_DIR"]) == ("offline", str(job))
    said = (job / "logs" / "job.log").read_text()
    assert said.count(f"on a host with internet: wandb sync {job}/wandb/offline-run-*") == 2
    online = dlrun("explain", "WANDB_MODE", "spec.yaml", "--set", "site=local", code=None).stdout
    assert "offline" not in online
    mine = f"site: site.yaml\nenvironment: {{variables: {{WANDB_MODE: online}}}}\ntrack: wandb\n{SHOW}"
    first, _ = starts(dlrun.submit(mine, "--wait"))
    assert first["WANDB_MODE"] == "online"
    assert "WANDB_DIR" not in first


@pytest.mark.slow
def test_an_ended_job_has_the_command_that_uploads_what_is_not_uploaded(dlrun):
    (dlrun.place / "site.yaml").write_text(OFFLINE)
    begun = SHOW.replace(
        "'env", '\'d="$WANDB_DIR/wandb/offline-run-{{ lr }}"; mkdir -p "$d"; touch "$d/run-x.wandb"; env'
    )
    job = dlrun.submit(f"site: site.yaml\ntrack: wandb\nsweep: {{lr: [1, 2]}}\n{begun}", "--wait")
    places = [job / f"points/{point}/wandb/offline-run-{point + 1}" for point in range(2)]

    def offered():
        for words in (("status", job), ("report", job, "-o", "report.html", "--force")):
            done = dlrun(*words)
            yield done.stderr if words[0] == "status" else (dlrun.place / "report.html").read_text()

    assert all(f"wandb sync {places[0]} {places[1]}" in text for text in offered())
    (places[0] / "run-x.wandb.synced").touch()
    assert all(f"wandb sync {places[1]}" in text for text in offered())
    (places[1] / "run-x.wandb.synced").touch()
    assert not any(f"wandb sync {places[1]}" in text for text in offered())


@pytest.mark.slow
def test_what_is_set_already_is_kept(dlrun):
    own = {"WANDB_RUN_ID": "mine", "WANDB_TAGS": ""}
    lines = "\n".join(f"    {name}: '{value}'" for name, value in own.items())
    job = dlrun.submit(
        f"track: wandb\nenvironment:\n  setup: ['export WANDB_NAME=module']\n  variables:\n{lines}\n{SHOW}",
        "--wait",
    )
    first, _ = starts(job)
    assert {**own, "WANDB_NAME": "module", "WANDB_RESUME": "allow"}.items() <= first.items()


@pytest.mark.slow
def test_jobs_in_directories_of_one_name_have_different_runs(dlrun):
    spec = dlrun.spec(f"track: wandb\n{SHOW}")
    ids = set()
    for place in ("a", "b"):
        assert dlrun("render", spec, "-o", f"{place}/job").code == 0
        subprocess.run(
            ["bash", "job.sh"],
            cwd=dlrun.place / place / "job",
            env=dlrun.environment(),
            check=False,
            timeout=60,
        )
        ids.add(starts(dlrun.place / place / "job")[0]["WANDB_RUN_ID"])
    assert len(ids) == 2
    assert all(one.startswith("job-") for one in ids)


@pytest.mark.parametrize(("agent", "named"), [("true", False), ("false", True)])
def test_without_track_the_ranks_of_an_agent_get_no_common_run(dlrun, agent, named):
    spec = dlrun.spec(
        f"torch: {{agent: {agent}}}\ncommand: [python3, -c, pass]\non_failure: {{requeue: 1}}\n"
    )
    assert dlrun("render", spec, "-o", "job").code == 0
    assert ("dlrun_continue_wandb" in (dlrun.place / "job" / "rank.sh").read_text()) is named


def test_each_variable_is_explained(dlrun):
    spec = dlrun.spec("track: wandb\ncommand: [python3, -c, pass]\n")
    shown = dlrun("explain", "WANDB_RUN_ID", spec).stdout
    assert "(rank 0)" in shown
    assert "every start of the job continues one run" in shown
    assert "https://docs.wandb.ai/" in shown
