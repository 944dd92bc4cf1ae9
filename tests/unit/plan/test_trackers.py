"""Which variables of experiment trackers a job sets; the table and the page about it agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.model.program import Environment, Secret
from dlrun.model.spec import Spec
from dlrun.plan.decisions import Ledger
from dlrun.plan.trackers.decide import FIRST, decide
from dlrun.plan.trackers.table import SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "trackers.md"
WANDB = {"WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME", "WANDB_TAGS"}


def chosen(*track, points=0, of_site=None, secrets=None, internet=None, **environment):
    spec = Spec(
        name="run", command=("x",), track=track, environment=Environment(**environment), secrets=secrets or {}
    )
    site = SimpleNamespace(
        name="here", internet=internet, environment=SimpleNamespace(variables=of_site or {})
    )
    ledger = Ledger({})
    found = decide(spec, site, points, ledger)
    names = {decision.key.removeprefix("variables.") for decision in ledger.decisions} - {"track"}
    assert names == {one.name for one in found}
    return {one.name: one for one in found}


def test_nodes_without_internet_are_offline():
    offline = {"WANDB_MODE", "WANDB_DIR"}
    assert set(chosen("wandb", internet=False)) == WANDB | offline
    assert set(chosen("wandb", internet=True)) == WANDB
    assert set(chosen("wandb", internet=False, variables={"WANDB_MODE": "online"})) == WANDB
    assert not offline & set(chosen("mlflow", internet=False))


@pytest.mark.parametrize(
    ("track", "points", "expected"),
    [
        ((), 3, set()),
        (("wandb",), 0, WANDB),
        (("wandb",), 3, WANDB | {"WANDB_RUN_GROUP"}),
        (("mlflow", "tensorboard"), 3, {"MLFLOW_RUN_CONTEXT", "TENSORBOARD_LOGGING_DIR"}),
    ],
)
def test_the_trackers_and_the_sweep_decide(track, points, expected):
    assert set(chosen(*track, points=points)) == expected


def test_what_the_spec_or_the_site_sets_or_drops_is_left_alone():
    found = chosen(
        "wandb",
        variables={"WANDB_TAGS": "mine"},
        drop=("WANDB_RESUME",),
        of_site={"WANDB_NAME": "site"},
        secrets={"WANDB_RUN_ID": Secret(env="ID")},
    )
    assert found == {}


def test_only_the_directory_of_tensorboard_is_for_every_rank():
    found = chosen("wandb", "mlflow", "tensorboard", points=2)
    assert {name for name, one in found.items() if one.rule != FIRST} == {"TENSORBOARD_LOGGING_DIR"}


def test_the_tags_of_mlflow_are_json_whatever_the_job_is():
    text = str(chosen("mlflow")["MLFLOW_RUN_CONTEXT"].value)
    tags = json.loads(text)
    assert tags["dlrun.site"] == "here"
    assert tags["mlflow.runName"] == tags["dlrun.run"] == "$DLRUN_TRACK_ID"


def test_the_page_lists_the_table():
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("|")]
    listed = {name: row for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    assert set(listed) == {one.variable for one in SETTINGS}
    for one in SETTINGS:
        assert listed[one.variable].endswith("| every rank |" if one.every else "| rank 0 |")
        assert one.source.startswith("https://")
