"""A sweep as points, and what is wrong with one."""

from __future__ import annotations

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import LOCAL, SLURM, plan_of, scripts_of

TORQUE = SLURM.replace("slurm", "torque").replace("srun", "ssh")
PBS = SLURM.replace("slurm", "openpbs").replace("srun", "ssh")
TEN = list(range(10))


def points(tmp_path, sweep: str) -> list[str]:
    """Each point as `a=1 b=2`."""
    plan = plan_of(tmp_path, f"sweep: {sweep}", LOCAL)
    return [" ".join(f"{k}={v}" for k, v in point.parameters.items()) for point in plan.points]


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("{a: [1, 2], b: [x, y]}", ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]),
        ("{grid: {a: [1, 2], b: [x, y]}}", ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]),
        ("{zip: {a: [1, 2], b: [x, y]}}", ["a=1 b=x", "a=2 b=y"]),
        ("{list: [{a: 1, b: x}, {b: z, a: 2}]}", ["a=1 b=x", "b=z a=2"]),
        ("{seed: [7, 8], zip: {a: [1, 2], b: [x, y]}}",
         ["a=1 b=x seed=7", "a=1 b=x seed=8", "a=2 b=y seed=7", "a=2 b=y seed=8"]),
        ("{list: [{m: p}, {m: q}], zip: {a: [1, 2]}, grid: {g: [0]}, h: 3}",
         ["m=p a=1 g=0 h=3", "m=p a=2 g=0 h=3", "m=q a=1 g=0 h=3", "m=q a=2 g=0 h=3"]),
        ("{}", []),
        ("{at_once: 3}", []),
        ("{grid: {zip: [1], list: [2]}}", ["zip=1 list=2"]),
    ],
)  # fmt: skip
def test_points(tmp_path, sweep, expected):
    assert points(tmp_path, sweep) == expected


@pytest.mark.parametrize(
    ("sweep", "code", "words"),
    [
        ("{zip: {a: [1, 2], b: [3]}}", "DLR080", "2 values of `a`, but 1 of `b`"),
        ("{a: [1], zip: {a: [2]}}", "DLR081", "`a` of the sweep is in `zip` and in `grid`"),
        ("{list: [{a: 1}, {b: 1}]}", "DLR082", "point 2 of `sweep.list` differs from the first one in `a`"),
        ("{list: [{}]}", "DLR082", "point 1 of `sweep.list` has no parameters"),
        ("{world_size: [1, 2]}", "DLR083", "`world_size` is a value of the plan"),
        (f"{{a: {TEN}, b: {TEN}, c: {TEN}, d: {TEN}, e: {TEN}, f: {TEN}}}", "DLR084", "1000000 points"),
        ("{a: [1], grid: {a: [2]}}", None, "`a` is in `sweep` and in `sweep.grid`"),
        ("{list: {a: 1}}", None, "`sweep.list` takes a list, not a mapping"),
        ("{list: 1}", None, "`sweep.list` takes a list, not one text"),
        ("{zip: [1]}", None, "`sweep.zip` takes a mapping, not a list"),
        ("{at_once: 0}", None, "the minimum is 1"),
        ("{a b: [1]}", None, "`a b` cannot be a name in `sweep`"),
        ("{a: []}", None, "`sweep.a` has no items"),
        ("[{a: 1}]", None, "`sweep` takes a mapping, not a list"),
    ],
)  # fmt: skip
def test_faults(tmp_path, sweep, code, words):
    with pytest.raises(InvalidFile) as raised:
        points(tmp_path, sweep)
    (problem,) = raised.value.problems
    assert (problem.code or None, words in problem.message) == (code, True), problem
    assert problem.origin.line == 2


@pytest.mark.parametrize(
    ("site", "directive"), [(SLURM, "--array=0-9%3"), (TORQUE, "-t 0-9%3"), (PBS, "-J 0-9%3")]
)
def test_the_queue_is_not_flooded(tmp_path, site, directive):
    spec = (
        "sweep: {a: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], at_once: 3}\nresources: {walltime: 1h, ranks_per_node: 1}"
    )
    plan = plan_of(tmp_path, spec, site)
    assert directive in [d.text for d in plan.directives]


def test_a_thousand_points(tmp_path):
    values = ", ".join(map(str, range(500)))
    spec = f"command: [./train, '{{{{ a }}}}', '{{{{ b }}}}']\nsweep: {{a: [{values}], b: [x, y]}}"
    plan = plan_of(tmp_path, spec)
    assert len(plan.points) == 1000
    assert [d.text for d in plan.directives if "array" in d.text] == ["--array=0-999"]
    assert "999) dlrun_run ./train 499 y ;;" in scripts_of(plan)["rank.sh"]
