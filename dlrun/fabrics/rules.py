"""The rule engine for fabric settings: selection of a job's settings, and known problems of settings by site or user."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from dlrun.fabrics.table import Rule, rules, rules_for
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """The properties of a job that rules depend on. `flags` are the words of its scheduler and launcher options; `fabric` is None
    if the site profile has none."""

    fabric: str | None
    libraries: frozenset[str]
    versions: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    gpus: bool = False
    interfaces: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


@record(frozen=True, slots=True, kw_only=True)
class ChosenSetting:
    """One variable to set, and its rule; `rule` is None for a site's setting that is not in the tables."""

    name: str
    value: str
    rule: Rule | None
    by_site: bool = False


@record(frozen=True, slots=True, kw_only=True)
class ChosenSettings:
    """The settings of a job (`choices`); settings of the site that are not set, with the reason (`withheld`); and units that
    need an option which the job does not have (`lacking`: unit -> the option)."""

    choices: tuple[ChosenSetting, ...]
    withheld: Mapping[str, str]
    lacking: Mapping[str, str]


def select(
    job: JobTraits, site: Mapping[str, str], drop: Collection[str], user: Mapping[str, str]
) -> ChosenSettings:
    """The settings of a job: safe defaults, the site's, and the units requested by site or user.

    `drop` are names that the site excludes; a unit with an excluded name is left out as a whole.
    """
    asked = {name: value for name, value in {**site, **user}.items() if name not in drop}
    # In this order, later settings replace earlier ones: defaults, the site's own values, whole units.
    chosen = _defaults(job, drop)
    withheld: dict[str, str] = {}
    for name, value in site.items():
        if name in drop:
            continue
        if why := _unmet(job, name, value):
            withheld[name] = why
        # A tunable setting of a unit is set only together with the rest of its unit, below.
        elif not any(
            rule.unit and rule.cls == "tunable" and matches(rule, value) for rule in rules_for(name)
        ):
            chosen[name] = ChosenSetting(
                name=name, value=value, rule=_about_site(job, name, value), by_site=True
            )
    lacking: dict[str, str] = {}
    for unit, members in _asked_units(job, asked).items():
        if any(rule.name in drop for rule in members):
            withheld |= {
                r.name: "a setting that belongs to the same unit is dropped"
                for r in members
                if r.name in site
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
            withheld |= {r.name: f"it needs {condition_text(missing[0])}" for r in members if r.name in site}
    return ChosenSettings(choices=tuple(chosen.values()), withheld=withheld, lacking=lacking)


def faults(job: JobTraits, name: str, value: str) -> list[Rule]:
    """Rules by which a setting is harmful or deprecated; with an unknown fabric the rules of all fabrics apply."""
    return [
        rule
        for rule in rules_for(name)
        if rule.cls in ("harmful", "deprecated")
        and (job.fabric is None or _on_fabric(rule, job))
        and matches(rule, value)
        and version_within(job.versions.get(rule.library), rule.versions)
        and all(_condition(job, condition, rule) for condition in rule.when)
    ]


def matches(rule: Rule, value: str) -> bool:
    """True if the rule applies to a value."""
    return not rule.pattern or re.fullmatch(rule.pattern, value) is not None


def unit(name: str) -> tuple[Rule, ...]:
    """The rules of a unit, whose settings are set together or not at all."""
    return tuple(rule for rule in rules() if rule.unit == name)


def holds(job: JobTraits, rule: Rule) -> bool:
    """True if fabric, library, version and every condition of a rule match the job."""
    return (
        _on_fabric(rule, job)
        and rule.library in job.libraries
        and version_within(job.versions.get(rule.library), rule.versions)
        and all(_condition(job, condition, rule) for condition in rule.when)
    )


def _on_fabric(rule: Rule, job: JobTraits) -> bool:
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


def condition_text(condition: str) -> str:
    """A condition as text."""
    word, _, argument = condition.partition(":")
    listed = " or ".join(f"`{name}`" for name in argument.split("|"))
    return {
        "nodes>1": "several nodes",
        "nodes=1": "one node",
        "interfaces": "interfaces in the site profile",
        "gpus": "GPUs",
        "known": "a library version in the site profile",
        "with": listed,
        "without": f"a job without {listed}",
        "flag": f"the option `{argument}` of scheduler or launcher",
    }[word]


def _defaults(job: JobTraits, drop: Collection[str]) -> dict[str, ChosenSetting]:
    """The default settings; among several rules for a name one for this fabric outranks one for any fabric."""
    chosen: dict[str, Rule] = {}
    for rule in rules():
        if rule.act != "set" or not holds(job, rule):
            continue
        # A rule for this fabric outranks one for any fabric, whatever the order of the tables.
        if rule.name not in chosen or "any" in chosen[rule.name].fabrics:
            chosen[rule.name] = rule
    broken = {rule.unit for rule in chosen.values() if rule.unit and rule.name in drop}
    listed = ",".join(job.interfaces)
    return {
        name: ChosenSetting(name=name, value=rule.value.replace("{interfaces}", listed), rule=rule)
        for name, rule in chosen.items()
        if name not in drop and rule.unit not in broken
    }


def _asked_units(job: JobTraits, asked: Mapping[str, str]) -> dict[str, list[Rule]]:
    """Units requested by a site's or user's value, with their rules."""
    names = {
        rule.unit
        for name, value in asked.items()
        for rule in rules_for(name)
        if rule.act == "asks" and _on_fabric(rule, job) and matches(rule, value)
    }
    return {name: list(unit(name)) for name in sorted(names)}


def _unmet(job: JobTraits, name: str, value: str) -> str:
    """Reason why a site's setting is left out of this job; empty if it is set.

    A site profile has one value per name; the tables determine the jobs to which it applies.
    """
    known = [rule for rule in rules_for(name) if rule.cls in ("safe", "tunable")]
    # A name that the tables do not know is set as the site writes it.
    if known and not any(rule.library in job.libraries for rule in known):
        return f"the job uses no library that reads it: {_listed(rule.library for rule in known)}"
    meant = [
        rule
        for rule in known
        if _on_fabric(rule, job)
        and rule.library in job.libraries
        and rule.pattern
        and matches(rule, value)
        and not rule.unit
    ]
    missing = [c for rule in meant for c in rule.when if not _condition(job, c, rule)]
    return f"it needs {condition_text(missing[0])}" if missing else ""


def _about_site(job: JobTraits, name: str, value: str) -> Rule | None:
    """The best rule for a site's value, on this fabric and of the job's libraries; a rule for the value itself comes first."""
    known = [
        r
        for r in rules_for(name)
        if r.cls in ("safe", "tunable") and _on_fabric(r, job) and r.library in job.libraries
    ]
    exact = [rule for rule in known if rule.value == value or (rule.pattern and matches(rule, value))]
    return next(iter(exact or known), None)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


# Library versions and their bounds in rules.

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def parse_version(text: str) -> tuple[int, ...]:
    """`2.27.7-1` -> (2, 27, 7); raises ValueError for text that does not begin with a number."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a version")
    return tuple(int(part) for part in match[1].split("."))


def version_within(version: str | None, bounds: str) -> bool:
    """True if a version satisfies bounds such as `>=2.17 <2.24`; an unknown or invalid version counts as the newest."""
    try:
        here = parse_version(version) if version is not None else None
    except ValueError:
        here = None
    return all(_holds(here, bound) for bound in bounds.split())


def _holds(here: tuple[int, ...] | None, bound: str) -> bool:
    sign, limit = bound[: 2 if bound[1] == "=" else 1], parse_version(bound.lstrip("<>="))
    # An unknown version counts as the newest: it satisfies every lower bound and no upper one.
    if here is None:
        return sign.startswith(">")
    length = max(len(here), len(limit))
    # `2.17` and `2.17.0` are the same version; as tuples they are not equal.
    return bool(_COMPARE[sign](*[part + (0,) * (length - len(part)) for part in (here, limit)]))


# The communication libraries of a job, from its framework, launcher, GPUs and fabric.

_OF_GPUS = {"cuda": ("nccl",), "rocm": ("nccl", "rccl"), "ze": ("oneccl",)}
"""Kind of GPU -> collective libraries; `rocm` has both because RCCL reads NCCL's variables."""

_OF_FABRIC = {
    "slingshot": ("libfabric", "libfabric-cxi"),
    "omni-path": ("libfabric", "psm2"),
    "efa": ("libfabric", "aws-ofi-nccl"),
    "infiniband": ("libfabric", "ucx"),
    "roce": ("libfabric", "ucx"),
    "ethernet": ("libfabric",),
}

TRANSPORTS = {
    "infiniband": ("ib",),
    "roce": ("roce", "ib"),
    "omni-path": ("psm2", "opx", "psm3", "ib"),
    "slingshot": ("cxi",),
    "efa": ("efa",),
    "ethernet": ("tcp", "roce", "psm3"),
}
"""Fabric -> the transports that are not a fallback on it, with the names of `dlrun/node/checks/transport_lines.py`.

`ib` on Omni-Path: NCCL without a psm2 plugin uses verbs (Cornelis, Omni-Path Fabric Performance Tuning Guide).
"""


def job_libraries(
    *, used: Iterable[str], gpus: str | None, fabric: str, present: Iterable[str] = ()
) -> frozenset[str]:
    """The names of the libraries that a job uses.

    `used` are those of framework and launcher, `gpus` is the kind of GPU (None: no GPUs), and `present` are those listed in the
    site profile. `mpi-program` in `used` stands for a program that may pass any buffer to MPI, including GPU memory.
    """
    of_gpus = _OF_GPUS.get(gpus, ()) if gpus else ()
    return frozenset({*used, *_OF_FABRIC.get(fabric, ()), *present, *of_gpus})
