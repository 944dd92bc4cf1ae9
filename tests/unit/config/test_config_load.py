"""A spec from texts to values without a file system: the function that reads is handed in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlrun import backends
from dlrun.config import sites
from dlrun.config.load import Chosen, LoadedSite, decoded, layers_of
from dlrun.config.sites import ProfileText
from dlrun.model.origin import Layer
from dlrun.model.problem import InvalidFile, Problem

SITE = (
    "name: {}\nscheduler: {{type: slurm}}\nlauncher: {{name: srun}}\ndefaults: {{resources: {{nodes: {}}}}}\n"
)
SPEC = "name: x\nframework: torch\ncommand: [python, train.py]\n"


def layers(texts, **how):
    def read(path, _):
        if str(path) not in texts:
            raise InvalidFile([Problem(message=f"no `{path}`")])
        return texts[str(path)]

    given = {"settings": [], "environment": {}, "sets": (), "site": None} | how
    return layers_of(Path("spec.yaml"), read=read, **given)


def chosen(name, nodes):
    profile = sites.load(ProfileText(name=f"{name}.yaml", text=SITE.format(name, nodes)), lambda *_: None)
    site = LoadedSite(site=profile.site, profile=profile, path=Path(f"{name}.yaml"), because="for a test")
    return Chosen(loaded=site, problems=profile.problems, sources=profile.sources)


def values(found, choice):
    return decoded(found, choice, backends.framework_options, lambda _: None)


def test_each_layer_beats_those_below_it():
    texts = {"spec.yaml": SPEC, "settings.yaml": "resources: {nodes: 3, walltime: 1h}\n"}
    found = layers(
        texts,
        settings=[Path("settings.yaml")],
        environment={"DLRUN_SET_RESOURCES__WALLTIME": "2h"},
        sets=["resources.nodes=4"],
    )
    read = values(found, chosen("a", 2))
    assert read.spec.resources.nodes == 4
    assert str(read.spec.resources.walltime) == "2h"
    assert read.origins["resources.nodes"].layer is Layer.FLAG
    assert set(read.sources) == {"spec.yaml", "settings.yaml", "a.yaml"}


def test_another_site_needs_no_second_reading():
    texts = {"spec.yaml": SPEC}
    found = layers(texts)
    assert values(found, chosen("a", 2)).spec.resources.nodes == 2
    texts.clear()
    other = values(found.of_site("b"), chosen("b", 5))
    assert (other.spec.site, other.spec.resources.nodes) == ("b", 5)


def test_all_faults_come_at_once():
    found = layers({"spec.yaml": SPEC + "nodez: 1\n"}, sets=["resources.nodes"])
    with pytest.raises(InvalidFile) as caught:
        values(found, Chosen(loaded=None, problems=(Problem(message="no such site"),)))
    said = [problem.message for problem in caught.value.problems]
    assert len(said) == 3
    assert any("nodez" in line for line in said)
    assert "no such site" in said


def test_without_a_spec_nothing_else_counts():
    with pytest.raises(InvalidFile) as caught:
        layers({}, sets=["resources.nodes"])
    assert [problem.message for problem in caught.value.problems] == ["no `spec.yaml`"]


def test_what_is_wrong_with_the_rest_of_the_spec_is_reported_once_for_all_roles():
    roles = "roles:\n  a: {command: [a]}\n  b: {command: [b], needs: [a], ready: {port: 3}}\n"
    found = layers({"spec.yaml": roles}, sets=["resources.walltime=abc", "resources.colour=red"])
    with pytest.raises(InvalidFile) as raised:
        values(found, chosen("a", 1))
    messages = [problem.message for problem in raised.value.problems]
    assert [one for one in messages if "times)" in one] == []
    assert messages.count("`name` is missing") == 1
    assert len(messages) == len(set(messages)), messages
