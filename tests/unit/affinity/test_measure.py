"""What `tune-affinity --measure` does with what it found; the times are made up, so the outcome is sure."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dlrun.affinity import inputs as affinity_inputs, measure as affinity_measure
from dlrun.affinity.command import command
from tests.unit.affinity.machines import topology


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measure on a golden machine where each thread of a rank costs time; the files are in `tmp_path`."""
    node = tmp_path / "node.json"
    node.write_text(json.dumps(topology("skx-block").to_json()))

    def timed(placement, _job, _command):
        return 10.0 / placement.ranks[0].threads

    def run(*options, busy=0.0):
        monkeypatch.setattr(affinity_measure, "_timed", timed)
        monkeypatch.setattr(affinity_measure, "busy_fraction", lambda: busy)
        monkeypatch.setattr(affinity_inputs, "live_topology", lambda: topology("skx-block"))
        words = [
            "--topology",
            str(node),
            "--ranks-per-node",
            "2",
            *map(str, options),
            "--measure",
            "--",
            "true",
        ]
        return CliRunner().invoke(command, words, obj={})

    return run


def test_the_winner_is_written_into_a_spec(measure, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\nplacement:\n  smt: one  # mine\n")
    done = measure("--write", spec)
    assert "* 2 communication cores" in done.stdout
    assert "is 9 % better than the computed answer" in done.stdout
    assert spec.read_text() == "name: x\nplacement:\n  smt: one  # mine\n  comm_cores: 2\n"


def test_the_winner_is_written_as_an_override_of_a_site(measure, tmp_path):
    found = tmp_path / "mine.yaml"
    done = measure("--site", "workstation", "--write", found)
    assert done.exit_code == 0, done.output
    assert "extends: workstation\ndefaults:\n  placement:\n    comm_cores: 2\n" in found.read_text()


def test_nobody_wins_on_a_busy_machine(measure, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\n")
    done = measure("--write", spec, busy=0.5)
    assert "* as computed" in done.stdout
    assert "the machine was busy (50 % of its CPUs with other work): no winner is named" in done.stdout
    assert spec.read_text() == "name: x\n"


def test_candidates_take_turns_and_are_few(measure):
    rounds = [line for line in measure().stderr.splitlines() if line.startswith("round")]
    names = [line.partition(", ")[2].partition(":")[0] for line in rounds]
    assert len(names) % 3 == 0
    assert 2 <= len(names) // 3 <= 8
    assert names == names[: len(names) // 3] * 3
