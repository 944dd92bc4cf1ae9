"""Points of a sweep inside one job that use node-local storage: data and results, for real on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for
from tests.cli.test_points_inside import states
from tests.cli.test_staged_environment import venv as venv  # noqa: PLC0414 - a fixture
from tests.cli.test_staged_jobs import SITE


@pytest.fixture
def local(dlrun: Dlrun) -> Path:
    """The staging directory, whose name has the user's."""
    (dlrun.place / "site.yaml").write_text(SITE.format(place=dlrun.place))
    (dlrun.place / "local").mkdir()
    return dlrun.place / "local"


def left(local: Path) -> set[str]:
    """What stands in the staging directory; beside it are the caches of compilers."""
    found = [*local.glob("dlrun-*/*"), *local.glob("dlrun-*/.*")]
    return {path.name for path in found if not path.parent.name.startswith("dlrun-caches-")} - {".dlrun"}


def spec(dlrun: Dlrun, script: str, values: str, more: str = "", walltime: str = "10m") -> str:
    return f"""\
site: ./site.yaml
run: |
  echo {{{{ x }}}} >{{{{ results }}}}/rank-$RANK
  {script}
sweep: {{nodes: 1, points_per_node: 2, x: [{values}]}}
placement: {{bind: none}}
resources: {{ranks_per_node: 1, walltime: {walltime}}}
results: {{to: '{dlrun.place}/brought', before_end: 5s}}
{more}"""


def brought(dlrun: Dlrun, job: Path) -> dict[int, str]:
    """The content of the result of each point."""
    found = (dlrun.place / "brought" / job.name).glob("*/rank-0")
    return {int(path.parent.name): path.read_text().strip() for path in found}


@pytest.mark.parametrize("inside", ["nodes: 1, ", ""])
def test_each_point_of_a_sweep_has_a_directory_for_its_results(dlrun, local, inside):
    text = spec(dlrun, "true", "a, b").replace("nodes: 1, points_per_node: 2, ", inside)
    page = dlrun("render", dlrun.spec(text)).stdout
    assert f'dlrun_results {dlrun.place}/brought/"${{DLRUN_JOB_DIR##*/}}"/"$DLRUN_POINT" always' in page
    assert ("export DLRUN_COPIES=5 " in page) == bool(inside)


@pytest.mark.slow
def test_the_results_of_each_point_are_copied_at_its_end(dlrun, local):
    job = dlrun.submit(
        spec(
            dlrun, "[ {{ x }} != b ] && until [ -e go ] || [ {{ x }} != c ]; do sleep 0.1; done", "a, b, c, d"
        )
    )
    wait_for(lambda: set(brought(dlrun, job)) == {0, 1, 3})
    assert states(dlrun, job)[2] == "running"
    wait_for(lambda: len(left(local)) == 1)  # that of the one that runs
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == ["completed", "failed", "completed", "completed"]
    assert brought(dlrun, job) == {0: "a", 1: "b", 2: "c", 3: "d"}
    assert not left(local)


@pytest.mark.slow
def test_the_results_of_points_that_are_cancelled_are_copied(dlrun, local):
    job = dlrun.submit(spec(dlrun, "sleep 600", "a, b, c, d"))
    wait_for(lambda: len(list(local.glob("dlrun-*/.results-*/rank-0"))) == 2)
    dlrun("cancel", f"{job.name}:0")
    wait_for(lambda: brought(dlrun, job) == {0: "a"})
    wait_for(lambda: len(list(local.glob("dlrun-*/.results-*/rank-0"))) == 2)
    dlrun("cancel", job)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == ["cancelled"] * 4
    assert brought(dlrun, job) == {0: "a", 1: "b", 2: "c"}
    assert not left(local)


@pytest.mark.slow
def test_the_results_of_points_that_the_walltime_ends_are_copied(dlrun, local):
    stubborn = "trap '' TERM; echo late >>{{ results }}/rank-$RANK; sleep 600"
    job = dlrun.submit(spec(dlrun, stubborn, "a, b, c", walltime="30s"))
    wait_for(lambda: states(dlrun, job) == ["timed out"] * 3)
    wait_for(lambda: not dlrun.alive())
    assert brought(dlrun, job) == {0: "a\nlate", 1: "b\nlate"}
    assert not left(local)


@pytest.mark.slow
def test_a_point_that_starts_again_has_the_results_of_both_starts(dlrun, local):
    script = (
        "echo $DLRUN_RESTART >{{ results }}/start-$DLRUN_RESTART; [ $DLRUN_RESTART = 1 ] || kill -KILL $$"
    )
    job = dlrun.submit(
        spec(dlrun, script, "a, b", more="on_failure: {requeue: 1, user_error: requeue}\n"), "--wait"
    )
    for point in (0, 1):
        names = {path.name for path in (dlrun.place / "brought" / job.name / str(point)).iterdir()}
        assert {"rank-0", "start-0", "start-1"} <= names
    assert not left(local)


@pytest.mark.slow
def test_the_point_whose_results_do_not_arrive_fails_and_says_so(dlrun, local):
    job = dlrun.submit(spec(dlrun, "until [ -e go ]; do sleep 0.1; done", "a, b"))
    wait_for(lambda: len(list(local.glob("dlrun-*/.results-*/rank-0"))) == 2)
    place = dlrun.place / "brought" / job.name / "0"
    place.rmdir()
    place.write_text("no directory\n")
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == ["failed", "completed"]
    (found,) = json.loads(dlrun("why", f"{job.name}:0", "--json").stdout)["why"]
    assert found["cause"] == "results-place"
    assert len(left(local)) == 1


def with_data(dlrun: Dlrun) -> str:
    """The keys of a spec with a data set that is kept for the job."""
    (dlrun.place / "set").mkdir()
    for number in range(20):
        (dlrun.place / "set" / f"{number}.txt").write_text(f"{number}\n")
    return f"data: {{set: {{source: '{dlrun.place}/set', strategy: copy}}}}\n"


def reports(job: Path) -> str:
    return "".join(path.read_text() for path in job.glob("points/*/logs/stage-*.log"))


@pytest.mark.slow
def test_data_is_brought_once_for_all_points_and_goes_with_the_job(dlrun, local):
    script = 'ls "$DLRUN_DATA_SET" | wc -l >>{{ results }}/rank-$RANK; [ {{ x }} != d ] || until [ -e go ]; do sleep 0.1; done'
    job = dlrun.submit(spec(dlrun, script, "a, b, c, d", with_data(dlrun)))
    wait_for(lambda: states(dlrun, job)[:3] == ["completed"] * 3)
    wait_for(lambda: "set" in left(local))
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == ["completed"] * 4
    assert set(brought(dlrun, job).values()) == {f"{x}\n20" for x in "abcd"}
    assert (reports(job).count("copied in"), reports(job).count("warm in")) == (1, 3)
    assert not left(local)


@pytest.mark.slow
@pytest.mark.parametrize("cancelled", [False, True])
def test_data_goes_also_with_a_job_that_is_ended(dlrun, local, cancelled):
    job = dlrun.submit(
        spec(dlrun, "sleep 600", "a, b, c", with_data(dlrun), walltime="10m" if cancelled else "30s")
    )
    wait_for(lambda: len(list(local.glob("dlrun-*/.results-*/rank-0"))) == 2)
    dlrun("cancel", f"{job.name}:0")
    wait_for(lambda: states(dlrun, job)[2] == "running")
    assert "set" in left(local)
    if cancelled:
        dlrun("cancel", job)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == ["cancelled", *["cancelled" if cancelled else "timed out"] * 2]
    assert not left(local)


@pytest.mark.slow
def test_all_points_run_from_one_copy_of_the_environment(dlrun, local, venv):
    script = "python -c 'import sys; print(sys.prefix)' >>{{ results }}/rank-$RANK; staged-script >>{{ results }}/rank-$RANK"
    job = dlrun.submit(
        spec(dlrun, script, "a, b, c, d", f"environment: {{venv: '{venv}', stage: true}}\n"), "--wait"
    )
    (copy,) = (path.parent.parent for path in local.glob("dlrun-*/environment/data/pyvenv.cfg"))
    for x, text in zip("abcd", (brought(dlrun, job)[point] for point in range(4)), strict=True):
        assert text.splitlines()[0] == x
        assert all(str(copy) in line for line in text.splitlines()[1:]), text
        assert len(text.splitlines()) == 3
    assert (reports(job).count("copied in"), reports(job).count("warm in")) == (1, 3)
    assert left(local) == {"environment"}, "it is kept for later jobs"
