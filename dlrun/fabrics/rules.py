"""The one rule engine: which settings hold for a job, and what is known against one that somebody set."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from dlrun.fabrics.table import Rule, about, rules
from dlrun.fabrics.versions import within
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """What rules may ask of a job. `flags` are words among its scheduler and launcher options;
    `fabric` is None where it is not in the profile."""

    fabric: str | None
    libraries: frozenset[str]
    versions: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    gpus: bool = False
    interfaces: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


@record(frozen=True, slots=True, kw_only=True)
class ChosenSetting:
    """One variable to set, and its rule; None for what only the site knows."""

    name: str
    value: str
    rule: Rule | None
    by_site: bool = False


@record(frozen=True, slots=True, kw_only=True)
class ChosenSettings:
    """What to set, what a site or user asked for and may not have here (name -> why), and units that lack
    what they need (unit -> the condition)."""

    choices: tuple[ChosenSetting, ...]
    withheld: Mapping[str, str]
    lacking: Mapping[str, str]


def select(
    job: JobTraits, site: Mapping[str, str], drop: Collection[str], user: Mapping[str, str]
) -> ChosenSettings:
    """The settings of a job: the safe ones by default, the site's, and the units that either asks for.

    `drop` names settings that the site does not want: a unit that loses one loses all.
    """
    asked = {name: value for name, value in {**site, **user}.items() if name not in drop}
    chosen = _safe(job, drop)
    withheld: dict[str, str] = {}
    for name, value in site.items():
        if name in drop:
            continue
        if why := _why_not(job, name, value):
            withheld[name] = why
        elif not any(rule.unit and rule.cls == "tunable" and matches(rule, value) for rule in about(name)):
            chosen[name] = ChosenSetting(
                name=name, value=value, rule=_about_site(job, name, value), by_site=True
            )
    lacking: dict[str, str] = {}
    for unit, members in _asked_units(job, asked).items():
        if any(rule.name in drop for rule in members):
            withheld |= {
                r.name: "a setting that it stands or falls with is dropped" for r in members if r.name in site
            }
            continue
        missing = [c for rule in members for c in rule.when if not _condition(job, c, rule)]
        flags = [c.partition(":")[2] for c in missing if c.startswith("flag:")]
        if flags:
            lacking[unit] = flags[0]
        elif not missing:
            chosen |= {
                rule.name: ChosenSetting(name=rule.name, value=rule.value, rule=rule) for rule in members
            }
        if missing:
            withheld |= {r.name: f"it needs {say(missing[0])}" for r in members if r.name in site}
    return ChosenSettings(choices=tuple(chosen.values()), withheld=withheld, lacking=lacking)


def faults(job: JobTraits, name: str, value: str) -> list[Rule]:
    """Harmful and deprecated settings that this is. Where the fabric is unknown, those of any fabric count."""
    return [
        rule
        for rule in about(name)
        if rule.cls in ("harmful", "deprecated")
        and (job.fabric is None or _on(rule, job))
        and matches(rule, value)
        and within(job.versions.get(rule.library), rule.versions)
        and all(_condition(job, condition, rule) for condition in rule.when)
    ]


def matches(rule: Rule, value: str) -> bool:
    """Whether a value is one that the rule is about."""
    return not rule.pattern or re.fullmatch(rule.pattern, value) is not None


def unit(name: str) -> tuple[Rule, ...]:
    """The settings of a unit."""
    return tuple(rule for rule in rules() if rule.unit == name)


def holds(job: JobTraits, rule: Rule) -> bool:
    """Whether fabric, library, version and every condition of a rule hold."""
    return (
        _on(rule, job)
        and rule.library in job.libraries
        and within(job.versions.get(rule.library), rule.versions)
        and all(_condition(job, condition, rule) for condition in rule.when)
    )


def _on(rule: Rule, job: JobTraits) -> bool:
    return "any" in rule.fabrics or job.fabric in rule.fabrics


def _condition(job: JobTraits, condition: str, rule: Rule) -> bool:
    word, _, argument = condition.partition(":")
    match word:
        case "nodes>1":
            return job.nodes > 1
        case "nodes=1":
            return job.nodes == 1
        case "interfaces":
            return bool(job.interfaces)
        case "gpus":
            return job.gpus
        case "known":
            return rule.library in job.versions
        case "with":
            return not job.libraries.isdisjoint(argument.split("|"))
        case "without":
            return job.libraries.isdisjoint(argument.split("|"))
        case "flag":
            return argument in job.flags
        case _:
            raise ValueError(f"`{condition}` is not a condition of a rule")


def say(condition: str) -> str:
    """A condition in words."""
    word, _, argument = condition.partition(":")
    listed = " or ".join(f"`{name}`" for name in argument.split("|"))
    return {
        "nodes>1": "several nodes",
        "nodes=1": "one node",
        "interfaces": "interfaces that the site names",
        "gpus": "GPUs",
        "known": "a version that the site names",
        "with": listed,
        "without": f"a job without {listed}",
        "flag": f"the option `{argument}` of scheduler or launcher",
    }[word]


def _safe(job: JobTraits, drop: Collection[str]) -> dict[str, ChosenSetting]:
    """What is set by default; of several rules for one name the one of this fabric alone comes first."""
    found: dict[str, Rule] = {}
    for rule in rules():
        if rule.act != "set" or not holds(job, rule):
            continue
        if rule.name not in found or "any" in found[rule.name].fabrics:
            found[rule.name] = rule
    broken = {rule.unit for rule in found.values() if rule.unit and rule.name in drop}
    listed = ",".join(job.interfaces)
    return {
        name: ChosenSetting(name=name, value=rule.value.replace("{interfaces}", listed), rule=rule)
        for name, rule in found.items()
        if name not in drop and rule.unit not in broken
    }


def _asked_units(job: JobTraits, asked: Mapping[str, str]) -> dict[str, list[Rule]]:
    """Units for which somebody set the value that asks."""
    names = {
        rule.unit
        for name, value in asked.items()
        for rule in about(name)
        if rule.act == "asks" and _on(rule, job) and matches(rule, value)
    }
    return {name: list(unit(name)) for name in sorted(names)}


def _why_not(job: JobTraits, name: str, value: str) -> str:
    """Why a site's setting does not go into this job; empty if it does.

    A site gives a value once; the tables define the jobs in which it applies.
    """
    known = [rule for rule in about(name) if rule.cls in ("safe", "tunable")]
    if known and not any(rule.library in job.libraries for rule in known):
        return f"no library that reads it is in play: {_listed(rule.library for rule in known)}"
    meant = [
        rule
        for rule in known
        if _on(rule, job)
        and rule.library in job.libraries
        and rule.pattern
        and matches(rule, value)
        and not rule.unit
    ]
    missing = [c for rule in meant for c in rule.when if not _condition(job, c, rule)]
    return f"it needs {say(missing[0])}" if missing else ""


def _about_site(job: JobTraits, name: str, value: str) -> Rule | None:
    """The rule that best matches a site's value: on this fabric, of a library in play, the value itself."""
    known = [
        r for r in about(name) if r.cls in ("safe", "tunable") and _on(r, job) and r.library in job.libraries
    ]
    exact = [rule for rule in known if rule.value == value or (rule.pattern and matches(rule, value))]
    return next(iter(exact or known), None)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
