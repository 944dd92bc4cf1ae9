"""The tables are what they claim: every row complete, cited, and understood by the engine."""

from __future__ import annotations

import re

from dlrun.fabrics.rules import JobTraits, condition_text, holds, version_within
from dlrun.fabrics.table import Rule, descriptions, left_out, rules, rules_for, sources

FABRICS = {"any", "infiniband", "omni-path", "slingshot", "roce", "efa", "ethernet"}
ACTS = {
    "safe": {"set", "default", "dlrun"},
    "tunable": {"", "asks", "dlrun"},
    "harmful": {"warn", "refuse"},
    "deprecated": {"warn"},
}


def named(rule: Rule) -> str:
    return f"{'|'.join(rule.fabrics)}-{rule.library}-{rule.name}-{rule.cls}"


def test_a_row_says_everything_and_the_engine_understands_it():
    assert len(rules()) > 300
    for rule in rules():
        where = named(rule)
        assert set(rule.fabrics) <= FABRICS, where
        assert rule.act in ACTS[rule.cls], where
        assert re.fullmatch(r"[A-Z_][A-Za-z0-9_*]*", rule.name), where
        assert rule.because, where
        assert "Not documented" not in rule.because, where
        assert rule.value, where
        assert rule.source, where
        assert set(rule.source) <= set(sources()), where
        re.compile(rule.pattern)
        version_within("1.0", rule.versions)
        holds(JobTraits(fabric=rule.fabrics[0], libraries=frozenset({rule.library})), rule)
        assert all(condition_text(condition) for condition in rule.when), where
        assert not rule.instead.startswith("leave"), "it is read as `use …`"
        if rule.act == "set":
            assert "<" not in rule.value, "what only a site can know is never set by default"


def test_every_variable_says_what_it_does():
    assert list(descriptions()) == list(dict.fromkeys(rule.name for rule in rules()))
    assert all(descriptions().values())


def test_no_setting_is_both_a_default_and_a_fault():
    """What dlrun or a site would set by these tables is not what they warn of."""
    for rule in rules():
        if rule.act in ("set", "asks"):
            against = [
                r
                for r in rules_for(rule.name)
                if r.cls in ("harmful", "deprecated")
                and set(r.fabrics) & {*rule.fabrics, "any"}
                and (not r.pattern or re.fullmatch(r.pattern, rule.value))
            ]
            assert against == [], rule.name


def test_a_unit_has_more_than_one_setting():
    units = {rule.unit for rule in rules()} - {""}
    assert units == {"psm2-nccl", "alt_read"}
    for unit in units:
        members = [rule for rule in rules() if rule.unit == unit]
        assert len(members) >= 3
        assert len({rule.when for rule in members}) == 1


def test_addresses_lead_to_something():
    for code, address in sources().items():
        assert re.search(r"https?://|[\w.-]+/[\w.-]+:|^cornelisnetworks/|Intel MPI 2019|DGX", address), (
            code,
            address,
        )


def test_what_was_left_out_has_a_reason():
    assert len(left_out()) > 20
    assert all(setting and why for setting, why in left_out())
