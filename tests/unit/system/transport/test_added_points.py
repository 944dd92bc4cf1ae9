"""Points that are added to a job on a login node, broken off wherever it can be: all or none, and never twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import login
from dlrun.jobs.queue import control, more_points
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import contents, jobs, ownership, plans
from dlrun.jobs.submission.prepare import read_inputs
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import TransportFailed
from tests.examples import chosen
from tests.unit.system.transport.far import Wire

SWEEP = """\
name: job
command: [bash, train.sh, "{{ x }}"]
files: [train.sh]
site: generic-slurm
resources: {ranks_per_node: 1, cpus_per_rank: 1, walltime: 10m}
sweep: {nodes: 2, x: [1, 2, 3]}
"""
SQUEUE = """\
#!/bin/bash
if [[ $* == *--Format* ]]; then
  printf '1|%s|None|0:0|0|N/A|N/A|n[1-2]|\\n' "$(cat "$HOME/state")"
else
  printf '1|%s\\n' "$(cat "$HOME/calls")"
fi
"""


class Sweep:
    """A job on the login node, in this state of Slurm."""

    def __init__(self, far, monkeypatch) -> None:
        self.far, self.monkeypatch = far, monkeypatch
        (far.tree / "spec.yaml").write_text(SWEEP)
        (far.home / "programs/squeue").write_text(SQUEUE)
        for name, value in (
            line.partition("=")[::2] for line in (f"PATH={far.home}/programs:{os.environ['PATH']}",)
        ):
            monkeypatch.setenv(name, value)
        self.through(LocalTransport("there"))
        self.is_in("PENDING")
        self.record = far.submit().directory
        (self.place,) = far.directories()

    def through(self, transport) -> None:
        self.monkeypatch.setitem(login._ways, ("there", "local"), transport)

    def is_in(self, state: str) -> None:
        (self.far.home / "state").write_text(state)

    def runs(self, points: int, state: str = "running") -> None:
        """What the node program of the job writes, once it knows so many points."""
        text = json.dumps({"version": 1, "state": state, "job_id": "1", "host": "n1", "points": points})
        (self.place / "state.json").write_text(f"{text}\n")

    def add(self, values: str, **how) -> list[int]:
        job = jobs.load(self.record)
        assert job is not None
        inputs = read_inputs(Path("spec.yaml"), sets=[f"sweep.x={values}"])
        return [point.index for point in more_points.add(job, inputs, self.far.said.append, **how)]

    def values(self, place: Path) -> list[str]:
        """The points of a plan, whose page and directories fit it."""
        plan = plans.read_plan(place / "plan.json")
        found = [point.parameters["x"] for point in plan.points]
        assert plan.request.array == len(found)
        page = (place / "rank.sh").read_text()
        assert [value for value in found if f"train.sh {value}" in page] == found
        numbers = {int(path.parent.name) for path in place.glob("points/*/logs")}
        assert numbers >= {*range(len(found))}
        return found


@pytest.fixture
def sweep(far, monkeypatch):
    return Sweep(far, monkeypatch)


def test_points_are_added_there_and_in_the_record_here(sweep):
    made = (sweep.place / "plan.json").stat().st_mtime_ns
    modes = [(sweep.place / name).stat().st_mode for name in more_points.PAGES]
    assert sweep.add("[3, 8, 9]", dry_run=True) == [3, 4]
    assert sweep.values(sweep.place) == sweep.values(sweep.record) == ["1", "2", "3"]
    assert sweep.add("[3, 8, 9]") == [3, 4]
    assert sweep.values(sweep.place) == sweep.values(sweep.record) == ["1", "2", "3", "8", "9"]
    assert sweep.add("[8, 9]") == []
    assert (sweep.place / "plan.json").stat().st_mtime_ns == made
    assert [(sweep.place / name).stat().st_mode for name in more_points.PAGES] == modes
    assert (sweep.place / "rank.sh").read_bytes() == (sweep.record / "rank.sh").read_bytes()
    assert sweep.far.calls() == [str(sweep.place)], "nothing was submitted"
    sweep.is_in("RUNNING")
    sweep.runs(6)
    assert sweep.add("[10]") == [5]
    assert not [path for path in sweep.place.iterdir() if path.name.endswith(".new")]
    contents.remove_own(sweep.place)
    assert not sweep.place.exists(), "all of it is dlrun's own"


@pytest.mark.slow
def test_wire_cut_everywhere(sweep):
    """The connection breaks at each thing that goes over it in turn; the same command then adds what it has not added."""
    sweep.is_in("RUNNING")
    sweep.runs(10_000)
    expected = ["1", "2", "3"]
    for count in chosen(range(1, 100), quick=25):
        wire = Wire(count)
        sweep.through(wire)
        new = [str(100 * count), str(100 * count + 1)]
        numbers = [len(expected), len(expected) + 1]
        try:
            assert sweep.add(f"[{', '.join(new)}]") == numbers
        except TransportFailed:
            assert wire.cut
            assert sweep.values(sweep.place) in (expected, expected + new), f"cut at {count}"
            sweep.through(LocalTransport("there"))
            assert sweep.add(f"[{', '.join(new)}]") == numbers
        expected += new
        assert sweep.values(sweep.place) == sweep.values(sweep.record) == expected, f"cut at {count}"
        if not wire.cut:
            assert count > 15
            # A program that the cut ended while it wrote may leave its part, under a name by which `clean` knows it.
            header = ownership._first_line(sweep.place, None)
            left = [path.name for path in sweep.place.iterdir() if path.name.endswith(".new")]
            assert [name for name in left if not ownership.is_temporary(name, header["token"])] == []
            return
    pytest.fail("an addition has no end")


def test_the_command_that_was_cut_off_after_the_plan_completes_the_record(sweep, monkeypatch):
    sweep.is_in("RUNNING")
    sweep.runs(3)
    monkeypatch.setattr(more_points, "_taken", cut)
    with pytest.raises(TransportFailed):
        sweep.add("[8, 9]")
    monkeypatch.undo()
    sweep = again(sweep, monkeypatch)
    assert (len(sweep.values(sweep.place)), len(sweep.values(sweep.record))) == (5, 3)
    sweep.runs(5)
    assert sweep.add("[8, 9]") == [3, 4]
    assert sweep.values(sweep.record) == ["1", "2", "3", "8", "9"]
    monkeypatch.setattr(more_points, "_taken", cut)
    with pytest.raises(TransportFailed):
        sweep.add("[10]")
    monkeypatch.undo()
    sweep = again(sweep, monkeypatch)
    sweep.runs(5, "ended")
    with pytest.raises(OperationFailed, match="nothing was added"):
        sweep.add("[10]")
    assert sweep.values(sweep.place) == sweep.values(sweep.record) == ["1", "2", "3", "8", "9"]


def test_points_that_the_job_did_not_take_before_its_end_are_taken_back(sweep, monkeypatch):
    sweep.is_in("RUNNING")
    sweep.runs(3)
    before = {name: (sweep.place / name).read_bytes() for name in more_points.PAGES}
    monkeypatch.setattr(more_points, "_require_open", lambda _: sweep.runs(3, "ended"))
    with pytest.raises(OperationFailed, match="has ended, so it takes no more points: nothing was added"):
        sweep.add("[8, 9]")
    assert {name: (sweep.place / name).read_bytes() for name in more_points.PAGES} == before
    assert sorted(path.name for path in (sweep.place / "points").iterdir()) == ["0", "1", "2"]
    assert sweep.values(sweep.record) == ["1", "2", "3"]


def test_points_that_another_host_has_added_stay(sweep):
    """As a dlrun on the login node does: the record here follows."""
    other = jobs.load(sweep.record)
    assert other is not None
    copy = {name: (sweep.record / name).read_bytes() for name in more_points.PAGES}
    assert sweep.add("[8]") == [3]
    for name, text in copy.items():
        (sweep.record / name).write_bytes(text)
        ownership.add_file(sweep.record, name, text)
    assert sweep.add("[9]") == [4]
    assert sweep.values(sweep.place) == sweep.values(sweep.record) == ["1", "2", "3", "8", "9"]


def test_what_cannot_be_added_is_refused_with_the_reason(sweep):
    page = sweep.place / "rank.sh"
    as_made = page.read_bytes()
    page.write_bytes(as_made + b"# mine\n")
    with pytest.raises(Invalid, match=r"`rank\.sh` of `there:.*` was changed by hand"):
        sweep.add("[8]")
    assert page.read_bytes() == as_made + b"# mine\n"
    page.write_bytes(as_made)
    (sweep.far.tree / "spec.yaml").write_text(SWEEP.replace("10m", "20m"))
    with pytest.raises(Invalid, match=r"`resources\.walltime`"):
        sweep.add("[8]")
    (sweep.far.tree / "spec.yaml").write_text(SWEEP)
    sweep.is_in("COMPLETED")
    for point in range(3):
        (sweep.place / f"points/{point}/state.json").write_text(
            '{"version": 1, "state": "ended", "job_id": "1", "exit_code": 0, "started": 1, "ended": 2}\n'
        )
    for dry_run in (True, False):
        with pytest.raises(OperationFailed, match="has ended, so it takes no more points: nothing was added"):
            sweep.add("[8]", dry_run=dry_run)
    assert sweep.values(sweep.place) == ["1", "2", "3"]


def test_one_point_is_cancelled_by_a_file_there(sweep):
    sweep.is_in("RUNNING")
    sweep.runs(3)
    job = jobs.load(sweep.record)
    assert job is not None
    ((_, said),) = control.cancel([Selection(job=job, tasks=(1,))])
    assert said == "cancel requested"
    assert [path.parent.name for path in sweep.place.glob("points/*/.cancel")] == ["1"]
    assert not list(sweep.record.glob("points/*/.cancel"))


def cut(*_):
    raise TransportFailed("the wire is cut")


def again(sweep, monkeypatch):
    """The environment of the test once more, which `undo` has ended too."""
    monkeypatch.setenv("HOME", str(sweep.far.home))
    monkeypatch.delenv("DLRUN_JOBS", raising=False)
    monkeypatch.setattr(Path, "home", lambda: sweep.far.home)
    monkeypatch.chdir(sweep.far.tree)
    monkeypatch.setenv("PATH", f"{sweep.far.home}/programs:{os.environ['PATH']}")
    sweep.through(LocalTransport("there"))
    return sweep
