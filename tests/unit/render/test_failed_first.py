"""Who failed first, of processes on nodes whose clocks differ: what the job's script and `dlrun why` make of their notes."""

from __future__ import annotations

import json
import time

import pytest

from dlrun.node.checks.node_checks import SKEW
from dlrun.why.evidence import notes
from tests.library import LIBRARY, call

HOUR = 3600.0


def note(place, rank: int, when: int, late: float | None = None) -> None:
    """As rank.sh leaves it: what was known of `when` it ended, in ns, and how late it began, in s, by its own clock."""
    second = "" if late is None else str(int(late * 1e9))
    (place / "failures" / f"rank-{rank}").write_text(
        f"{when} rank {rank} n{rank} {rank + 3} lost it\n{second}"
    )


def failed_first(place) -> tuple[int, list[int]]:
    """The rank that the job's script names, then the order in which `dlrun why` has them."""
    said = call(place, "_dlrun_failed_first").stdout.split()
    assert said[4:] == [str(int(said[2]) + 3), "lost", "it"]
    return int(said[2]), [one.rank for one in notes(place)]


@pytest.fixture(params=["plain", "b\\c [x] *? +(y)"])
def place(request, tmp_path):
    """The directory of a run, also one whose name would be a pattern."""
    (tmp_path / request.param / "failures").mkdir(parents=True)
    return tmp_path / request.param


def test_a_note_for_which_there_was_no_space_changes_no_exit_code(place):
    (place / "failures" / "rank-0").touch()
    said = call(place, "_dlrun_report_first_failure; _dlrun_exit 7", check=False)
    assert (said.returncode, said.stdout, said.stderr) == (7, "", "")


def test_a_record_is_written_over_the_one_before_where_no_new_file_can_be(place):
    lines = (
        "_dlrun_record requeued; mkdir .state.$$; rm() { :; }; _dlrun_record running; _dlrun_record ended 1"
    )
    call(place, f'cd "$DLRUN_RUN_DIR"; _dlrun_earlier=0 _dlrun_launched_when=null; {lines}')
    text = (place / "state.json").read_text()
    assert json.loads(text)["state"] == "ended"
    assert text.count("version") == 1


@pytest.mark.parametrize("ahead", [2 * HOUR, 60.0, -60.0, -2 * HOUR])
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_rank_on_a_node_whose_clock_is_wrong(place, ahead, wrong):
    """Rank 0 ended 20 s ago, rank 1 five seconds later; each began half a second after it was launched."""
    now = time.time_ns()
    for rank, ago in ((0, 20), (1, 15)):
        off = ahead if rank == wrong else 0
        note(place, rank, now + int((off - ago) * 1e9), 0.5 + off)
    assert failed_first(place) == (0, [0, 1])
    assert abs(notes(place)[wrong].time - now / 1e9 + (20, 15)[wrong]) < 1, (
        "it is told by the first node's clock"
    )
    before = [one.read_text() for one in sorted(place.glob("failures/*"))]
    assert failed_first(place) == (0, [0, 1])
    assert [one.read_text() for one in sorted(place.glob("failures/*"))] == before, "once"


@pytest.mark.parametrize("late", [0.01, 300.0, -SKEW / 2])
def test_a_clock_that_may_be_right_is_believed(place, late):
    """A rank may begin long after its launch, and clocks that a time service keeps differ by milliseconds."""
    now = time.time_ns()
    note(place, 0, now - 10**9, 0.01)
    note(place, 1, now - 10**9 - 1, late)
    assert failed_first(place) == (1, [1, 0])
    assert notes(place)[1].time - notes(place)[0].time < 1e-3


def test_where_nobody_knows_when_it_was_launched_the_future_is_now(place):
    now = time.time_ns()
    note(place, 0, now - 10**9)
    note(place, 1, now + int(HOUR * 1e9))
    assert failed_first(place) == (0, [0, 1])
    assert notes(place)[1].time < time.time() + SKEW


def test_both_allow_clocks_the_same(place):
    assert f"{int(SKEW * 1e9)}" in (LIBRARY / "failures.sh").read_text()


USERS = {
    "failures/mine": "x", "failures/run-7": "best so far", "failures/rank-12": "99999999999999999999999 other 3 n 1\n",
    "ended/.keep": "", "idle/rank-3": "text", "stacks/rank-0.txt": "my stacks", "kept/best.pt": "weights", "kept/1": "12",
    "placement/mine": "{}", "placement/n9": '{"version": 1, "host": "n1", "granted": "0"}',
    "early/notes": "", "nodes/n1/mine": "x", "nodes/hosts.bak": "n1",
}  # fmt: skip
"""Files of the user in directories of dlrun's, some with names that dlrun uses."""
OWN = {
    "failures/rank-0": "17 rank 0 n1 3\n", "failures/stage-1": "17 stage 1 n1 3\n",
    "failures/node-0": "17 node 0 n1 1 node failed\n",
    "failures/fabric": "17 rank 4 n1 1 fabric: tcp\n", "failures/rank-5": "", "ended/rank-1": "17 rank 1 n1 0\n",
    "idle/rank-0": "", "idle/rank-0.ended": "", "idle/dump": "", "stacks/rank-2.txt": "rank 2 on n1\nprocess 7\n",
    "kept/0": "0\n",

    "placement/n1": '{"version": 1, "host": "n1", "granted": "0-3"}\n',
    "kept/none": "", "kept/notice-0": "", "early/0": "4 4096\n", "nodes/hosts": "n1\nn2\n", "nodes/best": "n1\n",
    "nodes/n1/report.json": "{}", "nodes/n2/log": "",
}  # fmt: skip


def test_a_new_start_removes_only_what_an_earlier_one_wrote(tmp_path):
    for name, text in {**USERS, **OWN}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    names = ("failures", "ended", "idle", "stacks", "kept", "early", "nodes", "placement")
    for name in names:
        (tmp_path / name / ".dlrun").touch()
    call(tmp_path, f"_dlrun_create_empty {' '.join(names)}")
    left = {
        str(path.relative_to(tmp_path)): path.read_text()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.parent != tmp_path and path.name != ".dlrun" and path.parent.name != "lib"
    }
    assert left == USERS
    assert all((tmp_path / name / ".dlrun").exists() for name in names)


def test_a_file_of_the_user_is_not_a_failure(place):
    for name, text in USERS.items():
        if name.startswith("failures/"):
            (place / name).write_text(text)
    assert call(place, "_dlrun_some_failed", check=False).returncode == 1
    assert call(place, "_dlrun_failed_first", check=False).stdout == ""
    note(place, 3, time.time_ns() + 10**13)
    assert call(place, "_dlrun_failed_first").stdout.split()[2] == "3"
    assert (place / "failures" / "rank-12").read_text() == USERS["failures/rank-12"]
