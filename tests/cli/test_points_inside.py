"""A sweep inside one job (`sweep.nodes`), for real on this machine: places side by side, each point with an end of its own."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest

from tests.cli.conftest import wait_for

SPEC = """\
run: |
  echo at $(date +%%s%%N) $DLRUN_PLACE $RANK $LOCAL_RANK $WORLD_SIZE
  %s
  echo at $(date +%%s%%N)
sweep: {nodes: 1, points_per_node: 2, x: [%s]}
placement: {bind: none}
resources: {ranks_per_node: 1, walltime: %s}
"""


def spec(script: str, values: str, walltime: str = "10m") -> str:
    return SPEC % (script, values, walltime)


def states(dlrun, job) -> list[str]:
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    return [run["state"] for run in found["runs"]]


@pytest.mark.slow
def test_points_run_side_by_side_and_one_that_fails_harms_no_other(dlrun):
    together = "touch on-{{ x }}; until [ -e on-1 ] && [ -e on-2 ]; do sleep 0.1; done"
    job = dlrun.submit(spec(f"{together}; [ {{{{ x }}}} != 3 ]", "1, 2, 3, 4, 5"))
    dlrun("logs", "-f", job, code=None)
    assert states(dlrun, job) == ["completed", "completed", "failed", "completed", "completed"]
    held: dict[str, list[tuple[int, int]]] = {}
    for point in (0, 1, 3, 4):
        begin, end = (job / "points" / str(point) / "logs/rank-0.log").read_text().splitlines()
        _, since, place, *numbers = begin.split()
        assert numbers == ["0", "0", "1"], "each point is a run of its own, with one rank"
        held.setdefault(place, []).append((int(since), int(end.split()[1])))
    assert sorted(held) == ["0", "1"]
    for spans in map(sorted, held.values()):
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert any(one[0] < other[1] and other[0] < one[1] for one in held["0"] for other in held["1"])
    assert "exit code 1" in dlrun("why", f"{job.name}:2").stdout
    assert "at " in dlrun("logs", f"{job.name}:4").stdout
    results = json.loads(dlrun("results", job, "--json").stdout)["results"]
    assert [one["parameters"]["x"] for one in results] == ["1", "2", "3", "4", "5"]
    assert results[0]["node_hours"] == pytest.approx(results[0]["elapsed"] / 3600 / 2)
    again = dlrun("resubmit", job, "--failed", "--wait", code=1)
    assert "[0/rank 0] at " in again.stdout
    dlrun("clean", job, "--yes")
    assert not job.exists()


@pytest.mark.slow
def test_points_are_cancelled_one_by_one(dlrun):
    job = dlrun.submit(spec("[ {{ x }} = 3 ] || sleep 600", "1, 2, 3, 4, 5"))
    wait_for(lambda: states(dlrun, job)[:2] == ["running"] * 2)
    assert states(dlrun, job)[2:] == ["pending"] * 3
    dlrun("cancel", f"{job.name}:0,4")
    wait_for(lambda: states(dlrun, job)[3] == "running")
    assert states(dlrun, job)[:3] == ["cancelled", "running", "completed"]
    dlrun("cancel", job)
    assert states(dlrun, job) == ["cancelled", "cancelled", "completed", "cancelled", "cancelled"]
    assert not dlrun.alive()


@pytest.mark.slow
def test_points_that_the_walltime_ends_or_leaves_out_are_timed_out(dlrun):
    job = dlrun.submit(spec("sleep 600", "1, 2, 3", walltime="30s"))
    wait_for(lambda: states(dlrun, job) == ["timed out"] * 3)
    wait_for(lambda: not dlrun.alive())


def test_the_plan_says_how_many_run_at_a_time(dlrun):
    shown = dlrun("plan", dlrun.spec(spec("true", "1, 2, 3"))).stdout
    assert "3 points inside one job of 1 node, 2 at a time, 2 on each node" in shown


@pytest.mark.slow
def test_the_next_start_of_the_job_goes_on_with_what_is_left(dlrun):
    saved = "{{ run_dir }}/saved"
    script = (
        f"trap 'touch {saved}; exit 3' USR1; [ -e {saved} ] || for i in $(seq {{{{ x }}}}); do sleep 1; done"
    )
    ending = "checkpoint: {signal: USR1, before_end: 60s}\non_failure: {requeue: 1}\n"
    job = dlrun.submit(spec(script, "0, 300, 301, 302", walltime="90s") + ending)
    log = job / "logs/job.log"
    wait_for(lambda: log.exists() and "3 of 4 points to run" in log.read_text())
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    found = [json.loads((job / f"points/{point}/state.json").read_text()) for point in range(4)]
    assert [one["restarts"] for one in found] == [0, 1, 1, 0]
    assert [one["exit_code"] for one in found[:3]] == [0, 0, 0]
    assert states(dlrun, job)[3] == "timed out", "it began in the second start, and no third follows"


def waits_for_go() -> str:
    """Points that run until there is a file `go`; those from 8 on do not wait."""
    return spec("until [ -e go ] || [ {{ x }} -ge 8 ]; do sleep 0.1; done", "1, 2, 3")


def numbered(dlrun, job) -> dict[str, str]:
    """Value of the parameter -> state of its point, in order."""
    results = json.loads(dlrun("results", job, "--json").stdout)["results"]
    return {one["parameters"]["x"]: one["state"] for one in results}


@pytest.mark.slow
def test_points_are_added_while_others_run(dlrun):
    text = waits_for_go()
    job = dlrun.submit(text)
    made = (job / "plan.json").stat().st_mtime_ns
    wait_for(lambda: states(dlrun, job)[:2] == ["running"] * 2)
    words = ("submit", dlrun.spec(text), "--set", "sweep.x=[2,8,9]", "--add-to", job.name)
    shown = dlrun(*words, "--dry-run")
    assert shown.stdout.endswith(f"({job.name}) as points 3-4\n  3: x=8\n  4: x=9\n")
    assert "nothing was added" in shown.stderr
    data = json.loads(dlrun(*words, "--dry-run", "--json").stdout)["job"]
    assert (data["points"], data["dry_run"]) == ([3, 4], True)
    assert len(states(dlrun, job)) == 3
    added = dlrun(*words, "--json")
    assert json.loads(added.stdout)["job"]["points"] == [3, 4]
    assert "warning" not in added.stderr
    assert states(dlrun, job) == ["running", "running", "pending", "pending", "pending"]
    assert (job / "plan.json").stat().st_mtime_ns == made, (
        "the list of jobs is in the order of their beginnings"
    )
    again = dlrun("submit", dlrun.spec(text), "--set", "sweep.x=[8, 9]", "--add-to", job.name)
    assert "has these points already: nothing was added" in again.stderr
    dlrun("cancel", f"{job.name}:4")
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    assert numbered(dlrun, job) == {
        "1": "completed",
        "2": "completed",
        "3": "completed",
        "8": "completed",
        "9": "cancelled",
    }
    late = dlrun("submit", dlrun.spec(text), "--set", "sweep.x=[10]", "--add-to", job.name, code=1)
    assert "has ended, so it takes no more points: nothing was added" in late.stderr
    assert len(states(dlrun, job)) == 5
    repeated = dlrun("resubmit", f"{job.name}:3", "--set", "resources.walltime=5m", "--wait", "--json")
    assert json.loads(repeated.stdout)["job"]["job_id"]
    assert numbered(dlrun, job)["8"] == "completed"
    dlrun("clean", job, "--yes")
    assert not job.exists()


@pytest.mark.slow
def test_a_kill_at_any_moment_adds_all_points_or_none(dlrun):
    text = waits_for_go()
    job = dlrun.submit(text)
    wait_for(lambda: states(dlrun, job)[:2] == ["running"] * 2)
    words = ("submit", dlrun.spec(text), "--set", f"sweep.x={[*range(8, 48)]}", "--add-to", job.name)
    begun = time.monotonic()
    with dlrun.start(*words[:3], "sweep.x=[8]", *words[4:]) as adding:
        adding.communicate()
    whole = time.monotonic() - begun
    counts = [len(states(dlrun, job))]
    for part in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0):
        with dlrun.start(*words) as adding:
            time.sleep(part * whole)
            adding.kill()
            adding.communicate()
        counts.append(len(states(dlrun, job)))
    assert set(counts) <= {4, 43}, counts
    dlrun(*words)
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    wait_for(lambda: not dlrun.alive())
    assert numbered(dlrun, job) == dict.fromkeys(map(str, [1, 2, 3, *range(8, 48)]), "completed")
    log = (job / "logs/job.log").read_text()
    assert [log.count(f"point {point} ended with") for point in range(43)] == [1] * 43, "each ran once"
    dlrun("clean", job, "--yes")
    assert not job.exists(), "nothing is left of what was killed"


@pytest.mark.slow
def test_points_that_the_job_cannot_run_are_refused(dlrun):
    text = waits_for_go()
    job = dlrun.submit(text)
    wait_for(lambda: states(dlrun, job)[:2] == ["running"] * 2)

    def refused(*words: str, of: str = text) -> str:
        said = dlrun("submit", dlrun.spec(of), *words, "--add-to", job.name, code=None)
        assert said.code in (1, 2)
        return said.stderr

    assert "`resources.ranks_per_node`: 2, not 1" in refused("--set", "resources.ranks_per_node=2")
    assert "`resources.walltime`" in refused("--set", "resources.walltime=20m")
    assert "`sweep.points_per_node`: 4, not 2" in refused("--set", "sweep.points_per_node=4")
    assert "`run`" in refused(of=text.replace("sleep 0.1", "sleep 0.2"))
    assert "have the parameters `x`, `y`, those of job" in refused("--set", "sweep.y=[1]")
    assert "`--check` has no effect with `--add-to`" in refused("--check")
    assert "was submitted on this machine" in refused("--host", "login")
    page = job / "rank.sh"
    as_made = page.read_bytes()
    page.write_bytes(as_made.replace(b"dlrun_no_such_point", b"true"))
    assert "was changed by hand" in refused("--set", "sweep.x=[8]")
    page.write_bytes(as_made)
    assert len(states(dlrun, job)) == 3
    assert page.read_bytes() == as_made
    (dlrun.place / "go").touch()
    dlrun("logs", "-f", job, code=None)
    array = dlrun.submit(text.replace("nodes: 1, points_per_node: 2, ", ""))
    said = dlrun("submit", dlrun.spec(text), "--add-to", array.name, code=2).stderr
    assert "is not a sweep inside one job" in said
    wait_for(lambda: not dlrun.alive())


@pytest.mark.slow
def test_a_short_point_has_no_sampler(dlrun):
    """Its start would cost more than all else that is computed for the point beside its program."""
    recorded = "until [ {{ x }} = short ] || [ -s {{ run_dir }}/usage/*.jsonl ]; do sleep 0.1; done"
    job = dlrun.submit(spec(recorded, "short, long"))
    dlrun("logs", "-f", job, code=None)
    assert states(dlrun, job) == ["completed", "completed"]
    assert [len(list((job / "points" / point / "usage").glob("*.jsonl"))) for point in ("0", "1")] == [0, 1]
