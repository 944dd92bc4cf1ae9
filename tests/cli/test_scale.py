"""Scaling studies on this machine, for real: measured, killed, resumed, added to, compared, drawn."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for
from tests.cli.test_clients import Clients

SPEC = """\
name: tiny
command: [bash, train.sh, "{{ batch_per_rank }}"]
batch_per_rank: 12
resources: {walltime: 5m}
placement: {threads: 1}
"""
TRAIN = """\
echo "$WORLD_SIZE $1" >>ran
while [[ -e wait ]]; do sleep 0.05; done
for i in 1 2 3 4 5 6; do echo "epoch $i $((WORLD_SIZE * 100 - WORLD_SIZE * WORLD_SIZE * 5)) images/s"; done
"""


@pytest.fixture
def place(dlrun) -> Dlrun:
    """A directory with a program that prints a known speed, and notes each of its ranks in `ran`."""
    (dlrun.place / "train.sh").write_text(TRAIN)
    dlrun.spec(SPEC)
    return dlrun


def ran(place: Dlrun) -> list[str]:
    """The ranks that have run, as `WORLD_SIZE BATCH`."""
    path = place.place / "ran"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def study(place: Dlrun, *words: str, **how) -> dict:
    return json.loads(place("scale", "spec.yaml", "--json", *words, **how).stdout)["scale"]


@pytest.mark.slow
def test_sizes_whose_ranks_have_other_cores_are_reported(place):
    auto = ("--set", "placement.threads=auto", "--repeat", "1")
    done = place("scale", "spec.yaml", "--ranks-per-node", "1,2", *auto)
    assert "so the speed-up compares cores as well as ranks; `--set placement.threads=" in done.stderr
    assert "compares cores" not in place("scale", "spec.yaml", "--ranks-per-node", "1,2", "--out", "o").stderr


@pytest.mark.slow
def test_a_study_its_table_its_files_and_a_size_more(place):
    done = place("scale", "spec.yaml", "--ranks-per-node", "1,2", "--repeat", "2")
    assert done.stdout.splitlines()[0] == "tiny: weak scaling, throughput in images/s"
    assert [line.split()[:8] for line in done.stdout.splitlines()[2:4]] == [
        ["1", "1", "2", "95", "95", "95", "1.00", "100.0%"],
        ["1", "2", "2", "180", "180", "180", "1.89", "94.7%"],
    ]
    assert "efficiency is at least 80 % up to 1 node (2 ranks)" in done.stdout
    assert "the first 1 of each run skipped" in done.stderr
    assert ran(place) == ["1 12"] * 2 + ["2 12"] * 4

    data = study(place, "--ranks-per-node", "4", "--bound", "0.9")
    assert ran(place) == ["1 12"] * 2 + ["2 12"] * 4 + ["4 12"] * 8  # nothing that was done ran again
    assert [row["middle"] for row in data["rows"]] == [95, 180, 320]
    assert data["below"] == 1
    directory = Path(data["directory"])
    table = list(csv.DictReader((directory / "table.csv").read_text().splitlines()))
    assert [float(row["efficiency"]) for row in table] == [row["efficiency"] for row in data["rows"]]
    marked = (directory / "table.md").read_text()
    assert "| 1 | 4 | 2 | 320 | 320 | 320 | 3.37 | 84.2% |" in marked
    assert r"1 & 4 & 2 & 320 & 320 & 320 & 3.37 & 84.2\% &" in (directory / "table.tex").read_text()
    assert json.loads((directory / "table.json").read_text())["rows"] == data["rows"]
    if (directory / "scaling.svg").exists():  # where matplotlib is
        shown = {
            re.sub(r"<[^>]*>", "", t)
            for t in re.findall(r"<text.*?</text>", (directory / "scaling.svg").read_text(), re.DOTALL)
        }
        assert {"95", "180", "320", "100.0", "94.7", "84.2", "bound 90 %"} <= shown

    shown = place("scale", "show", directory, "--format", "csv", "--estimate", "2,4").stdout
    assert shown.startswith((directory / "table.csv").read_text())
    assert "extrapolated, not measured" in shown
    assert study_of(place, directory)["estimate"] is None


@pytest.mark.slow
def test_an_estimate_that_cannot_be_costs_no_table(place):
    done = place("scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "1", "--estimate", "4", code=2)
    assert done.stdout.splitlines()[2].split()[:4] == ["1", "1", "1", "95"]
    assert (place.place / "tiny-scaling" / "table.csv").exists()
    assert "an estimate needs 3 measured sizes or more" in done.stderr


@pytest.mark.slow
def test_another_word_for_a_reason_is_no_other_plan(place):
    """What a newer dlrun says of the same plan does not end a study."""
    study(place, "--ranks-per-node", "1", "--repeat", "1")
    (path,) = place.place.glob("tiny-scaling/jobs/*/plan.json")
    text = path.read_text()
    plan = json.loads(text)
    plan["variables"][0]["because"] = plan["binding"]["placement"]["steps"][0]["because"] = "in other words"
    path.write_text(json.dumps(plan))
    assert study(place, "--ranks-per-node", "2")["rows"][1]["ranks"] == 2
    path.write_text(text.replace('"RANK"', f'"{"R" * 500}"'))
    said = place("scale", "spec.yaml", code=2).stderr
    assert "the spec has changed since this study began" in said
    assert all(len(line) < 400 for line in said.splitlines())


def study_of(place: Dlrun, directory: Path) -> dict:
    return json.loads(place("scale", "show", directory, "--json").stdout)["scale"]


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on_without_running_anything_twice(place):
    (place.place / "wait").touch()
    words = ("--ranks-per-node", "1,2", "--repeat", "2")
    driver = place.start("scale", "spec.yaml", *words)
    wait_for(lambda: ran(place) == ["1 12"])
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    driver.stderr.close()
    (place.place / "wait").unlink()
    assert [row["middle"] for row in study(place, *words)["rows"]] == [95, 180]
    assert ran(place) == ["1 12"] * 2 + ["2 12"] * 4


@pytest.mark.slow
def test_killed_between_the_submission_and_its_record(place):
    """The job runs, and nothing says so: it is found among the processes, and adopted."""
    (place.place / "wait").touch()
    driver = place.start("scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "1")
    wait_for(lambda: ran(place) == ["1 12"])
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    job = place.place / "tiny-scaling" / "jobs" / "1x1-1"
    wait_for(
        lambda: '"launched": null' not in (job / "state.json").read_text()
    )  # after that it does not write it
    (job / "submission.json").unlink(missing_ok=True)  # it may have been killed before it wrote one
    (job / "state.json").unlink()
    shutil.copytree(job, job.with_name("1x1-7"))  # and one that never came to be submitted
    other = place.start("scale", "spec.yaml", "--repeat", "2")
    wait_for((job / "submission.json").exists)
    (place.place / "wait").unlink()
    stdout, stderr = other.communicate(timeout=120)
    assert other.returncode == 0, stderr
    assert stdout.splitlines()[2].split()[:3] == ["1", "1", "2"]
    assert ran(place) == ["1 12"] * 2
    assert {path.name for path in job.parent.iterdir()} == {"1x1-1", "1x1-8", ".1x1-7.given-up"}


@pytest.mark.slow
def test_failed_runs_are_said_and_run_again(place):
    (place.place / "train.sh").write_text("echo $1 >>ran; test -e good && echo 7 images/s")
    failed = place("scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "2", code=1)
    assert "1 node × 1 rank: failed: " in failed.stderr
    assert "2 runs without a result" in failed.stderr
    (place.place / "good").touch()
    assert study(place)["rows"][0]["runs"] == 2
    assert len(ran(place)) == 4


@pytest.mark.slow
def test_a_program_that_says_no_speed_is_an_error_that_tells_the_way_out(place):
    (place.place / "train.sh").write_text("echo $1 >>ran; echo speed=41,5; echo speed=42")
    silent = place("scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "1", code=1)
    assert "no throughput in its log" in silent.stderr
    assert "metrics: {throughput:" in silent.stderr
    place.spec(SPEC + "metrics: {throughput: {pattern: 'speed=([0-9]+)$', unit: cats/s}}\n")
    data = study(place)  # it is read from the log that is there
    assert (data["unit"], data["rows"][0]["middle"]) == ("cats/s", 42)
    assert len(ran(place)) == 1


@pytest.mark.slow
def test_strong_scaling_keeps_the_batch_of_all_ranks(place):
    data = study(place, "--strong", "--ranks-per-node", "1,2,4", "--repeat", "1", "--samples", "9000")
    assert ran(place) == ["1 12", "2 6", "2 6", "4 3", "4 3", "4 3", "4 3"]
    assert [row["seconds"] for row in data["rows"]] == [9000 / 95, 50, 9000 / 320]
    said = place("scale", "spec.yaml", "--ranks-per-node", "5", code=2).stderr
    assert "global batch of 12, which 5 ranks cannot share evenly" in said


@pytest.mark.slow
def test_two_studies_side_by_side(place):
    study(place, "--ranks-per-node", "1,2", "--repeat", "1", "--out", "slow")
    train = (place.place / "train.sh").read_text()
    (place.place / "train.sh").write_text(train.replace("* 100", "* 195"))
    study(place, "--ranks-per-node", "2,4", "--repeat", "2", "--out", "fast")
    lines = place("scale", "compare", "slow", "fast").stdout.splitlines()
    assert lines[0] == "fast over slow, medians in images/s"
    assert lines[2].split() == ["1", "2", "180", "370", "2.056", "2.056", "to", "2.056", "faster"]
    (ratio,) = json.loads(place("scale", "compare", "slow", "fast", "--json").stdout)["ratios"]
    assert ratio["ratio"] == pytest.approx(370 / 180)
    assert ratio["sure"] is True


@pytest.mark.slow
def test_cancel_ends_what_runs_and_keeps_what_is_measured(place):
    (place.place / "wait").touch()
    driver = place.start(
        "scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "1", start_new_session=True
    )
    wait_for(lambda: ran(place))
    wait_for((place.place / "tiny-scaling/jobs/1x1-1/submission.json").exists)
    busy = place("scale", "spec.yaml", code=1)
    assert "another dlrun process is working on the study" in busy.stderr
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 130
    assert "the same command resumes" in said
    assert "1x1-1: cancelled" in place("scale", "cancel", "tiny-scaling").stderr
    assert "the study has no pending or running jobs" in place("scale", "cancel", "tiny-scaling").stderr
    (place.place / "wait").unlink()
    assert study(place)["rows"][0]["runs"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("spec.yaml", "--nodes", "1,x"), "`1,x` is not a list of numbers such as 1,2,4"),
        (("spec.yaml", "--nodes", "0"), "is not a list of numbers"),
        (("spec.yaml", "--samples", "many"), "`many` is not a number of samples"),
        (("spec.yaml", "--nodes", "2"), "is a single machine, but the job requests 2 nodes"),
        (("spec.yaml", "--bound", "7"), "7.0 is not in the range 0<=x<=1"),
        (("spec.yaml", "--out", "."), "exists and is not a study"),
        (("nothere.yaml",), "nothere.yaml"),
        (("compar", "a", "b"), "a command with a similar name exists: `compare`"),
        (("spec.yaml", "--set", "sweep.x=[1,2]"), "the spec has a sweep"),
        (("spec.yaml", "--set", "on_failure.requeue=2"), "restarted runs cannot be measured"),
        (("show", "nowhere"), "`nowhere` is not a study"),
        (("show", "broken"), "is not a study of this version"),
        (("compare", "nowhere", "broken"), "`nowhere` is not a study"),
        (("cancel", "."), "`.` is not a study"),
    ],
)
def test_what_cannot_be(place, words, message):
    (place.place / "broken").mkdir()
    (place.place / "broken" / "study.json").write_text('{"version": 1, "mode": "odd"}')
    assert message in place("scale", *words, code=2).stderr
    assert not (place.place / "tiny-scaling").exists()


@pytest.mark.slow
def test_a_study_is_of_one_plan(place):
    study(place, "--ranks-per-node", "1", "--repeat", "1")
    place.spec(SPEC + "environment: {variables: {NCCL_DEBUG: WARN}}\n")
    said = place("scale", "spec.yaml", code=2).stderr
    assert "the spec has changed since this study began" in said
    assert "dlrun scale compare" in said
    place.spec(SPEC)
    assert "measures weak scaling" in place("scale", "spec.yaml", "--strong", code=2).stderr
    assert len(ran(place)) == 1
    more = place("scale", "show", "tiny-scaling", "--estimate", "2", code=2).stderr
    assert "an estimate needs 3 measured sizes or more; there are 1" in more
    assert (
        "is not the name of a picture"
        in place("scale", "show", "tiny-scaling", "--picture", "x.gif", code=2).stderr
    )


def test_in_a_queue_each_size_is_one_array_that_waits_for_the_one_before(place, tmp_path):
    clients = Clients(tmp_path / "clients")
    clients.answer("sbatch", "4711\n")
    clients.answer("squeue", "")
    place.spec(SPEC + "site: generic-slurm\n")
    done = place("scale", "spec.yaml", "--nodes", "1,2,8", "--no-wait", "--repeat", "3", env=clients.env)
    assert "submitted 8 nodes: 3 runs, job 4711" in done.stderr
    assert [call["argv"] for call in clients.calls() if call["name"] == "sbatch"] == [
        ["--parsable", "job.sh"]
    ] * 3
    scripts = [
        (place.place / "tiny-scaling" / "jobs" / f"{n}xauto-1" / "job.sh").read_text() for n in (1, 2, 8)
    ]
    assert ["--dependency=afterany:4711" in script for script in scripts] == [False, True, True]
    assert all("#SBATCH --array=0-2%1\n" in script for script in scripts)
    assert "#SBATCH --nodes=8\n" in scripts[2]


@pytest.mark.slow
def test_the_cores_in_use_are_shown_for_each_size(place):
    """The program prints its speed, then computes until it has been looked at a few times."""
    (place.place / "train.sh").write_text(
        (place.place / "train.sh").read_text()
        + "\nend=$((SECONDS + 5)); while ((SECONDS < end)); do :; done\n"
    )
    done = place("scale", "spec.yaml", "--ranks-per-node", "1", "--repeat", "1")
    assert re.search(r"cores in use: \d+ % with 1 node × 1 rank", done.stderr), done.stderr
