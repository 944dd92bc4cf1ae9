"""The node program that runs the points of a sweep inside one job, with a script in place of job.sh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import dlrun.node
import pytest

POOL = Path(dlrun.node.__file__).parent / "pool.py"
SCRIPT = """\
cd "$DLRUN_JOB_DIR/points/$1"
record() {
  echo '{"version": 1, "state": "'$1'", "exit_code": '$2', "restarts": '$starts', "at": '$(date +%s%N)'}' >.state
  mv .state state.json
}
starts=$3
record running null
echo "$2 $HOST" >>place
trap 'record ended 143; exit 143' TERM
trap 'echo warned >>place; record requeued null; touch .again; exit 124' USR1
[ -e ../../slow ] && { sleep 600 & wait; }
[ -e again ] && { rm again; record requeued null; touch .again; exit 75; }
[ -e node-dies ] && { rm node-dies; touch ../../lost-$HOST; kill -KILL $$; }
[ -e fails ] && { record ended 3; exit 3; }
[ -e vanishes ] && exit 0
record ended 0
"""
ON_GOOD = ("bash", "-c", '[ "$0" = good ] && HOST=$0 exec "$@"', "{host}")
"""What starts a point; on other hosts it fails, as where a node is lost."""
FINDS = ("bash", "-c", '[ ! -e "$DLRUN_JOB_DIR/lost-$0" ] && HOST=$0 exec "$@"', "{host}")
"""The same on hosts that are lost as soon as there is such a file."""


def job(directory: Path, points: int) -> Path:
    (directory / "job.sh").write_text(SCRIPT)
    for point in range(points):
        (directory / "points" / str(point) / "logs").mkdir(parents=True)
    return directory


def start(
    directory: Path, points: int, *, places: int = 2, at_once: int = 0, walltime: int = 0, hosts: str = "good",
    words: Sequence[str] = ON_GOOD, ending: Sequence[str] = ("0", "-", "0", "false"), nodes: int = 1,
) -> subprocess.Popen[str]:  # fmt: skip
    return subprocess.Popen(
        [sys.executable, str(POOL), str(points), str(places), str(at_once), str(walltime), *ending, hosts, *words],
        env={**os.environ, "DLRUN_JOB_DIR": str(directory), "DLRUN_JOB_ID": "7", "DLRUN_RESTART": "0",
             "DLRUN_NODES": str(nodes)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def plan(directory: Path, points: int) -> None:
    """Replace the plan as a whole by one with so many points."""
    (directory / ".new").write_text(json.dumps({"points": [{"index": index} for index in range(points)]}))
    (directory / ".new").rename(directory / "plan.json")


def states(directory: Path, points: int) -> list[dict]:
    return [json.loads((directory / f"points/{point}/state.json").read_text()) for point in range(points)]


def test_each_point_runs_once_and_the_first_failure_is_the_exit_code(tmp_path):
    job(tmp_path, 6)
    (tmp_path / "points/2/fails").touch()
    (tmp_path / "points/4/vanishes").touch()
    pool = start(tmp_path, 6)
    assert pool.communicate(timeout=60)[0].count("ended with exit code") == 6
    assert pool.returncode == 3
    found = states(tmp_path, 6)
    assert [one["exit_code"] for one in found] == [0, 0, 3, 0, 0, 0]
    assert found[4]["reason"] == "killed", "a script that left no end of its own"
    assert all(len((tmp_path / f"points/{n}/place").read_text().split()) == 2 for n in range(6))
    assert json.loads((tmp_path / "state.json").read_text())["exit_code"] == 3
    again = start(tmp_path, 6)
    again.communicate(timeout=60)
    assert again.returncode == 0, "what has ended does not run again"
    assert all(len((tmp_path / f"points/{n}/place").read_text().split()) == 2 for n in range(6))


def test_a_host_that_starts_no_point_is_left_out_and_its_points_run_elsewhere(tmp_path):
    pool = start(job(tmp_path, 5), 5, places=1, hosts="bad,good")
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 0
    assert "place 0 of bad is left out" in said or said.count("did not begin on bad") < 3
    assert [one["exit_code"] for one in states(tmp_path, 5)] == [0] * 5
    (tmp_path / "none").mkdir()
    pool = start(job(tmp_path / "none", 2), 2, hosts="bad")
    assert "no place is left" in pool.communicate(timeout=60)[0]
    assert pool.returncode == 1
    assert not (tmp_path / "none/points/0/state.json").exists()


@pytest.mark.each_python
def test_hosts_that_are_left_of_points_on_several_form_places(tmp_path):
    """Of five one is left over at first; point 0 loses a host, point 1 fails by itself, and point 2 loses another."""
    job(tmp_path, 4)
    loses = 'echo "$DLRUN_CHOSEN_HOSTS" >>on; [ -e loses ] && { touch ../../lost-$(<loses); rm loses; record ended 1; exit 1; }'
    (tmp_path / "job.sh").write_text(
        SCRIPT.replace("record running null", f"record running null; {loses}", 1)
    )
    (tmp_path / "points/0/loses").write_text("a")
    (tmp_path / "points/1/fails").touch()
    (tmp_path / "points/2/loses").write_text("c")
    pool = start(tmp_path, 4, places=1, at_once=1, hosts="a,b,c,d,e", words=FINDS, nodes=2)
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 3, said
    assert [(one["exit_code"], one["restarts"]) for one in states(tmp_path, 4)] == [
        (0, 1),
        (3, 0),
        (0, 1),
        (0, 0),
    ]
    ran = [(tmp_path / f"points/{point}/on").read_text().split() for point in range(4)]
    assert ran == [["a,b", "c,d"], ["c,d"], ["c,d", "b,e"], ["b,e"]], said
    assert json.loads((tmp_path / "state.json").read_text())["lost"] == ["a", "c"]


@pytest.mark.each_python
def test_the_points_of_a_node_that_is_lost_run_on_the_others(tmp_path):
    job(tmp_path, 3)
    (tmp_path / "points/0/node-dies").touch()
    pool = start(tmp_path, 3, places=2, at_once=1, hosts="n1,n2", words=FINDS)
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 0, said
    assert said.count("node n1 does not answer any more") == 1
    assert [(one["exit_code"], one["restarts"]) for one in states(tmp_path, 3)] == [(0, 1), (0, 0), (0, 0)]
    ran = [(tmp_path / f"points/{n}/place").read_text().split()[1::2] for n in range(3)]
    assert ran == [["n1", "n2"], ["n2"], ["n2"]], "a place that was not needed stands in"
    assert json.loads((tmp_path / "state.json").read_text())["lost"] == ["n1"]


def test_where_no_node_is_left_the_next_start_goes_on(tmp_path):
    job(tmp_path, 2)
    (tmp_path / "points/0/node-dies").touch()
    pool = start(
        tmp_path, 2, places=1, hosts="n1", words=FINDS, ending=("0", "-", "1", "touch $DLRUN_JOB_DIR/again")
    )
    assert "2 of the points are left: another start" in pool.communicate(timeout=60)[0]
    assert (pool.returncode, (tmp_path / "again").exists()) == (124, True)
    pool = start(tmp_path, 2)
    pool.communicate(timeout=60)
    assert [one["exit_code"] for one in states(tmp_path, 2)] == [0, 0]


def test_at_its_end_it_ends_what_runs_and_says_so_of_what_waits(tmp_path):
    job(tmp_path, 4)
    (tmp_path / "slow").touch()
    pool = start(tmp_path, 4, places=3, at_once=2)
    places = [tmp_path / f"points/{point}/place" for point in range(4)]
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in places[:2]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (tmp_path / "points/3/.cancel").touch()
    pool.send_signal(signal.SIGTERM)
    pool.communicate(timeout=60)
    assert pool.returncode == 128 + signal.SIGTERM
    assert [one["reason"] for one in states(tmp_path, 4)] == ["cancelled"] * 4
    assert not places[2].exists(), "no more than `at_once` at a time"


@pytest.mark.each_python
def test_points_that_are_added_while_others_run_follow_them(tmp_path):
    job(tmp_path, 5)
    plan(tmp_path, 2)
    held = "record running null; echo ${DLRUN_POINT_ADDED-} >added; until [ -e go ]; do sleep 0.05; done"
    (tmp_path / "job.sh").write_text(SCRIPT.replace("record running null", held, 1))
    for late in (2, 3, 4):
        (tmp_path / f"points/{late}/go").touch()
    pool = start(tmp_path, 2)
    deadline = time.monotonic() + 60
    while not all((tmp_path / f"points/{point}/state.json").exists() for point in range(2)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert json.loads((tmp_path / "state.json").read_text())["points"] == 2
    plan(tmp_path, 5)
    while json.loads((tmp_path / "state.json").read_text())["points"] != 5:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for early in (0, 1):
        (tmp_path / f"points/{early}/go").touch()
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 0, said
    assert "3 points were added" in said
    assert [one["exit_code"] for one in states(tmp_path, 5)] == [0] * 5
    assert all(len((tmp_path / f"points/{n}/place").read_text().split()) == 2 for n in range(5))
    added = [(tmp_path / f"points/{n}/added").read_text().strip() for n in range(5)]
    assert added == ["", "", "1", "1", "1"], "lib/pool.sh waits for the page of those alone"
    record = json.loads((tmp_path / "state.json").read_text())
    assert (record["state"], record["points"]) == ("ended", 5)


def test_the_next_start_has_the_points_that_were_added_before(tmp_path):
    job(tmp_path, 3)
    plan(tmp_path, 3)
    pool = start(tmp_path, 2)
    assert "3 of 3 points to run" in pool.communicate(timeout=60)[0]
    assert [one["exit_code"] for one in states(tmp_path, 3)] == [0] * 3


@pytest.mark.slow
@pytest.mark.each_python
def test_at_the_walltime_nothing_more_is_started(tmp_path):
    job(tmp_path, 3)
    (tmp_path / "slow").touch()
    pool = start(tmp_path, 3, walltime=2)
    pool.communicate(timeout=60)
    assert [one["reason"] for one in states(tmp_path, 3)] == ["timed out"] * 3


def test_points_that_the_scheduler_signalled_first_have_the_end_of_the_job(tmp_path):
    job(tmp_path, 2)
    (tmp_path / "job.sh").write_text(
        SCRIPT.replace(
            "trap 'record ended 143; exit 143' TERM\n",
            'asked() { record ended \'143, "reason": "asked to end"\'; exit 143; }\ntrap asked TERM\necho $$ >pid\n',
        )
    )
    (tmp_path / "slow").touch()
    pool = start(tmp_path, 2, words=())
    pids = [tmp_path / f"points/{point}/pid" for point in range(2)]
    while not all(pid.exists() and pid.read_text().strip() for pid in pids):
        time.sleep(0.05)
    for pid in pids:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    while not all(one.get("state") == "ended" for one in states(tmp_path, 2)):
        time.sleep(0.05)
    pool.terminate()
    pool.communicate(timeout=60)
    assert {one["reason"] for one in states(tmp_path, 2)} == {"cancelled"}


def test_a_point_that_asks_for_it_starts_again(tmp_path):
    job(tmp_path, 2)
    (tmp_path / "points/1/again").touch()
    pool = start(tmp_path, 2)
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 0, said
    assert [one["restarts"] for one in states(tmp_path, 2)] == [0, 1]


def test_what_is_left_at_the_walltime_goes_on_in_the_next_start(tmp_path):
    job(tmp_path, 4)
    (tmp_path / "slow").touch()
    again = ("15", "USR1", "1", 'rm "$DLRUN_JOB_DIR/slow"')
    pool = start(tmp_path, 4, walltime=30, ending=again)
    said = pool.communicate(timeout=60)[0]
    assert pool.returncode == 124, said
    assert "4 of the points are left" in said
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "requeued"
    assert [(tmp_path / f"points/{n}/place").exists() for n in range(4)] == [True, True, False, False]
    pool = start(tmp_path, 4, walltime=600, ending=again)
    assert pool.communicate(timeout=60)[0].count("ended with exit code 0") == 4
    assert [one["restarts"] for one in states(tmp_path, 4)] == [1, 1, 0, 0]
    assert "warned" in (tmp_path / "points/0/place").read_text()


@pytest.mark.slow
@pytest.mark.each_python
def test_what_is_left_has_ended_where_no_start_follows(tmp_path):
    job(tmp_path, 3)
    (tmp_path / "slow").touch()
    pool = start(tmp_path, 3, walltime=4, ending=("3", "-", "0", "false"))
    pool.communicate(timeout=60)
    assert [one["reason"] for one in states(tmp_path, 3)] == ["timed out"] * 3
