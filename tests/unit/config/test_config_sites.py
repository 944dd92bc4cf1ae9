"""Profiles: what extends what, what is inherited, and which profile a machine is recognised by."""

from __future__ import annotations

import pytest

from dlrun.config import sites
from dlrun.config.sites import ProfileText, Surroundings
from dlrun.model.problem import Problem
from dlrun.model.site import Recognise

BASE = """\
name: base
title: The base
confidence: high
sources: [{cite: here}]
recognise: {hosts: [login*]}
scheduler: {type: slurm, account: {option: -A}}
launcher: {name: srun}
partitions: {gpu: {max_walltime: 1d}}
defaults: {resources: {partition: gpu}}
"""


def load(text, **others):
    def find(name, by):
        return others.get(name) or Problem(message=f"no {name} for {by.name}")

    return sites.load(ProfileText(name="first.yaml", text=text), find)


def base(text=BASE, name="base.yaml"):
    return ProfileText(name=name, text=text)


def test_a_profile_keeps_what_it_does_not_change():
    profile = load(
        "name: mine\nextends: base\nscheduler: {version: '23.11'}\npartitions: {gpu: {default: true}}\n",
        base=base(),
    )
    assert profile.problems == ()
    assert (profile.site.scheduler.type, profile.site.scheduler.version) == ("slurm", "23.11")
    assert profile.site.partitions["gpu"].default
    assert profile.site.partitions["gpu"].max_walltime == 86400
    assert str(profile.origins["scheduler.type"]) == "base.yaml:6:19"
    assert profile.defaults.get("resources", "partition").text == "gpu"


def test_what_describes_one_system_is_not_inherited():
    site = load("name: mine\nextends: base\n", base=base()).site
    assert (site.title, site.confidence, site.sources, site.recognise) == (None, None, (), Recognise())


def test_an_override_of_the_same_name_inherits_all():
    site = load("name: base\nextends: base\n", base=base()).site
    assert (site.title, site.confidence, site.recognise.hosts) == ("The base", "high", ("login*",))


def test_three_generations():
    middle = base("name: middle\nextends: base\nlauncher: {arguments: [-v]}\n", "middle.yaml")
    profile = load("name: mine\nextends: middle\nlauncher: {name: ssh}\n", base=base(), middle=middle)
    assert (profile.site.launcher.name, profile.site.launcher.arguments) == ("ssh", ("-v",))
    assert list(profile.sources) == ["first.yaml", "middle.yaml", "base.yaml"]
    assert profile.history["launcher.name"][0].text == "srun"


def test_a_circle_is_a_problem():
    other = base("name: other\nextends: first\n", "other.yaml")
    first = ProfileText(name="first.yaml", text="")
    profile = load("name: first\nextends: other\n", other=other, first=first)
    assert "extends this profile" in profile.problems[0].message
    assert profile.problems[0].origin.name == "other.yaml"
    assert profile.site is None


def test_faults_of_a_base_are_told_with_its_place():
    profile = load("name: mine\nextends: base\n", base=base(BASE.replace("1d", "24")))
    assert [str(p.origin) for p in profile.problems] == ["base.yaml:8:34"]


def test_a_missing_base_is_told_at_extends():
    profile = load("name: mine\nextends: base\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    assert [(p.message, str(p.origin)) for p in profile.problems] == [
        ("no base for first.yaml", "first.yaml:2:10")
    ]


@pytest.mark.parametrize(
    ("rule", "here", "known"),
    [
        (Recognise(cluster_name="lumi"), Surroundings(cluster_name="lumi"), True),
        (Recognise(cluster_name="lumi"), Surroundings(cluster_name="lumi2"), False),
        (Recognise(pbs_server=("pbs1",)), Surroundings(pbs_server="PBS1.example.org"), True),
        (Recognise(pbs_server=("pbs1",)), Surroundings(pbs_server="pbs10"), False),
        (Recognise(pbs_server=("pbs1", "pbs2")), Surroundings(pbs_server="pbs2"), True),
        (Recognise(hosts=("uan*", "ln[0-9]")), Surroundings(host="LN3"), True),
        (Recognise(hosts=("uan*",)), Surroundings(host="xuan1"), False),
        (Recognise(hosts=("login*",)), Surroundings(host="login3.example.org"), True),
        (Recognise(hosts=("login*.frontier*",)), Surroundings(host="login3.frontier.olcf.ornl.gov"), True),
        (Recognise(hosts=("login*.frontier*",)), Surroundings(host="login3.summit.olcf.ornl.gov"), False),
        (
            Recognise(environment={"NERSC_HOST": "perlmutter"}),
            Surroundings(environment={"NERSC_HOST": "perlmutter"}),
            True,
        ),
        (
            Recognise(environment={"NERSC_HOST": "perlmutter"}),
            Surroundings(environment={"NERSC_HOST": "cori"}),
            False,
        ),
        (Recognise(), Surroundings(), False),
        (Recognise(hosts=("*",)), Surroundings(host=""), False),
    ],
)
def test_recognition(rule, here, known):
    assert (sites.recognised(rule, here) is not None) == known


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nrecognise:\n  # how\n  cluster_name: c\n\n  hosts: [a]\nscheduler: [broken\n",
        "recognise: {cluster_name: c, hosts: [a]}\n",
        "recognise:\n  cluster_name: c\n  hosts:\n    - a",
    ],
)
def test_recognise_is_read_without_the_rest(text):
    assert sites.recognise_block(text) == Recognise(cluster_name="c", hosts=("a",))


@pytest.mark.parametrize(
    "text",
    ["name: x\n", "recognise:\n", "recognise: [\n", "recognise: {cluster_name: [a]}\n", "# recognise:\n"],
)
def test_no_rule(text):
    assert sites.recognise_block(text) in (None, Recognise())
