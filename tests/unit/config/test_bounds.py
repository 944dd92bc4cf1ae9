"""Numbers, expressions and files that would take minutes or all memory: an error at once."""

from __future__ import annotations

import os

import pytest

from dlrun.config.topology.short import build
from dlrun.model.cpuset import parse_list
from dlrun.model.origin import Layer
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.topology_short import ShortTopology
from dlrun.plan.command.expressions import ExpressionError, names, outside, substitute
from dlrun.system.inputs.text import read_text
from tests.making import plan_of

SITE = "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"


@pytest.mark.parametrize("line", [
    f"resources: {{{name}: {number}}}"
    for name in ("nodes", "ranks", "ranks_per_node", "spare_nodes", "cpus_per_rank", "gpus_per_node")
    for number in (10**7, 10**9, 10**17)
] + ["batch_per_rank: 100000000", "on_failure: {requeue: 1000000000}"])  # fmt: skip
def test_every_count_has_a_maximum(tmp_path, line):
    with pytest.raises(InvalidFile, match="the maximum is"):
        plan_of(tmp_path, f"name: a\ncommand: [x]\n{line}\n", SITE)


@pytest.mark.parametrize("numbers", [(1024, 8192, 16), (2, 8192, 2), (1, 10**7, 1)])
def test_a_nodes_threads_have_a_maximum(numbers):
    packages, cores, smt = numbers
    with pytest.raises(ValueError, match="hardware threads"):
        build(ShortTopology(packages=packages, cores=cores, smt=smt))


def test_lists_of_cpus_have_a_maximum():
    with pytest.raises(ValueError, match="more than 65536"):
        parse_list(",".join(["0-65535"] * 1000))


@pytest.mark.parametrize("text", [
    "{{ round(5, -99999999) }}", "{{ round(5, 10**9) }}", "{{" * 100_000, "{{ 1 " * 50_000, "{{ " + "(" * 2000 + " }}",
    "{{ " + "1+" * 5000 + "1 }}", "{{ 'x' * 1000000000 }}", "{{ 9 ** 999999999 }}", "{{ 1e308 * 1e308 }}",
    "{{ ² }}", "{{ '²' + 1 }}", "{{ str(1 " + "}}",
])  # fmt: skip
def test_no_expression_takes_long(text):
    with pytest.raises(ExpressionError) as fault:
        substitute(text, {})
    assert len(str(fault.value)) < 1500
    names(text)
    outside(text)


def test_many_expressions_are_many():
    assert substitute("{{ 1 }}" * 10_000, {}).literal == "1" * 10_000
    assert outside("a{{ 1 }}b{{ 2 }}c{{") == "abc{{"


def test_a_fault_that_comes_often_is_told_once():
    fault = InvalidFile([Problem(message="no", help="do"), *[Problem(message="yes")] * 1000])
    assert [one.message for one in fault.problems] == ["no", "yes (1,000 times)"]


def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidFile, match="it is not a regular file"):
        read_text(tmp_path / "fifo", Layer.SITE)
