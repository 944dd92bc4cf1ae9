"""What fuzzing found, one case each."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.config.topology import read_topology
from dlrun.effects.diagnosis import evidence
from dlrun.effects.logs import files, merge
from dlrun.effects.records import jobs
from dlrun.errors import Invalid
from dlrun.render.script import plan_json
from tests.fuzz.areas import PLAIN, SLURM
from tests.making import plan_of, scripts_of

QSTAT = "Job Id: 12.server\n    job_state = F\n    exit_status = {}\n    run_count = {}\n"


@pytest.mark.parametrize("status", ["--1", "-", "-²", "²", "9" * 5000, "-2]e"])
@pytest.mark.parametrize("runs", ["1", "²", "9" * 5000])
def test_numbers_of_pbs_that_are_none(status, runs):
    for name in ("openpbs", "torque"):
        for parse in (backends.scheduler(name).parse_queue, backends.scheduler(name).parse_history):
            parse(QSTAT.format(status, runs))


@pytest.mark.parametrize("zone", ["+99:00", "-24:00", "+31:00", "+0099", "Z"])
def test_a_zone_that_there_is_not(tmp_path, zone):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-0.log").write_text(f"2026-11-22T15:22:39.5{zone} hello\nworld\n")
    assert [line for _, line in merge.merged(files.find(tmp_path, "all"))]


def test_an_encoding_that_there_is_not():
    with pytest.raises(ValueError, match="encoding"):
        read_topology('<?xml version="1.0" encoding="UnanF-8"?><topology/>')


def test_a_plan_of_services_alone(tmp_path):
    plan = json.loads(plan_json(plan_of(tmp_path, PLAIN, SLURM)))
    for role in plan["roles"]:
        role["service"] = True
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Invalid, match="every role is a service"):
        scripts_of(jobs.read_plan(tmp_path / "plan.json"))


def test_a_note_of_a_time_beyond_all_floats(tmp_path):
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures/rank-1").write_text(f"{'9' * 400} rank 1 n1 7 x\n")
    assert evidence.notes(tmp_path) == []
