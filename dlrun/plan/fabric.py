"""Fabric variables, and problems of those set by user or site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from dlrun import backends
from dlrun.fabrics import rules
from dlrun.fabrics.rules import ChosenSetting, ChosenSettings, JobTraits
from dlrun.fabrics.table import Rule
from dlrun.model.plan import Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, lazy_pattern
from dlrun.model.topology import PROFILE, VERBS_NIC
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout


def settings(spec: Spec, site: Site, layout: Layout, launcher: str, ledger: Ledger) -> tuple[Variable, ...]:
    """The variables for the job's fabric, libraries, versions and number of nodes, and the site's; problems go to the ledger.

    Empty for a site without a fabric.
    """
    job = job_of(spec, site, layout, launcher)
    drop = spec.environment.drop
    user = {name: value for name, value in spec.environment.variables.items() if name not in drop}
    fabric = site.fabric
    _faults(user, "the spec", job, ledger)
    of_site = {n: value for n, value in site.environment.variables.items() if n not in user and n not in drop}
    choices: tuple[ChosenSetting, ...] = ()
    if fabric is not None:
        wanted = {
            **_adapters(job, layout),
            **fabric.settings,
            **(fabric.multi_node if job.nodes > 1 else {}),
        }
        # Later values take precedence: what the node type says, the site's settings, those for several nodes.
        # Selected twice, with and without the user's `drop`, to find what is lost with a dropped name.
        selected = rules.select(job, wanted, (*fabric.drop, *drop), user)
        whole = rules.select(job, wanted, fabric.drop, user)
        _dropped(whole, selected, spec, ledger)
        for name, why in selected.withheld.items():
            because = f"site {site.name} sets it, but {why}"
            ledger.decide(f"fabric.settings.{name}", "left out", "fabric-condition", because)
        for unit, flag in selected.lacking.items():
            _needs_option(unit, flag, spec, site, ledger)
        # Variables that the user drops by name are kept here: the environment removes them and reports their values.
        choices = (*selected.choices, *(choice for choice in whole.choices if choice.name in drop))
        of_site |= {c.name: c.value for c in choices if c.by_site and c.name not in user}
    _faults(of_site, f"site `{site.name}`", job, ledger)
    _without_interface(job, layout, {*user, *of_site, *(choice.name for choice in choices)}, ledger)
    return tuple(_variable(choice, site) for choice in choices)


def _dropped(whole: ChosenSettings, kept: ChosenSettings, spec: Spec, ledger: Ledger) -> None:
    """Record the settings lost with a unit of which `environment.drop` removes one."""
    drop = spec.environment.drop
    names = {*drop, *(choice.name for choice in kept.choices)}
    lost: dict[str, list[str]] = {}
    for choice in whole.choices:
        if choice.name in names or choice.rule is None:
            continue
        unit = choice.rule.unit
        by = next(rule.name for rule in rules.unit(unit) if rule.name in drop)
        because = f"it belongs to the same unit as `{by}`, which the spec unsets"
        ledger.decide(f"variables.{choice.name}", "left out", f"fabric-{unit}", because)
        lost.setdefault(by, []).append(f"`{choice.name}`")
    for by, others in lost.items():
        ledger.problem(
            "DLR065",
            f"without `{by}`, {' and '.join(others)} are not set either, because they belong together",
            "environment.drop",
            help=f"keep `{by}`, or drop all of them",
            warning=True,
        )


_OVER_SOCKETS = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME"}
"""Library -> variable for the IP interface of its sockets."""


def _without_interface(job: JobTraits, layout: Layout, already_set: Collection[str], ledger: Ledger) -> None:
    """Warn where data goes through sockets and nothing names their interface: on Ethernet, and Gloo's without GPUs on any
    fabric, which it uses by IP alone."""
    if layout.nodes == 1 or job.interfaces or job.fabric is None:
        return
    using = {*_OVER_SOCKETS} if job.fabric == "ethernet" else {*(() if job.gpus else ("gloo",))}
    missing = {
        lib: name
        for lib, name in _OVER_SOCKETS.items()
        if lib in using & job.libraries and name not in already_set
    }
    if missing:
        names = " and ".join(f"`{name}`" for name in missing.values())
        ledger.problem(
            "DLR111",
            f"no interface is known for this site's {job.fabric}, so {' and '.join(missing)} uses that of the host name",
            "site",
            help=f"set {names} under `environment.variables`, or `fabric.interfaces` in the site profile",
            warning=True,
        )


def _adapters(job: JobTraits, layout: Layout) -> dict[str, str]:
    """NCCL_IB_HCA with the adapters of the profile, for all ranks: without it NCCL also uses adapters for storage."""
    nodes = layout.topology
    if nodes is None or nodes.source != PROFILE or job.nodes == 1 or "nccl" not in job.libraries:
        return {}
    names = [nic.name for nic in nodes.nics if VERBS_NIC.fullmatch(nic.name)]
    return {"NCCL_IB_HCA": f"={','.join(names)}"} if names else {}


def job_of(spec: Spec, site: Site, layout: Layout, launcher: str) -> JobTraits:
    """The properties of a job for the rules of fabric settings."""
    fabric = site.fabric
    return JobTraits(
        fabric=fabric.name if fabric else None,
        libraries=libraries_of(spec.framework, launcher, site, _kind(layout)),
        versions=fabric.versions if fabric else {},
        nodes=max(layout.nodes, layout.all_nodes),
        gpus=layout.gpus_per_node > 0,
        interfaces=fabric.interfaces if fabric else (),
        flags=flags_of(site, spec.resources.options),
    )


def libraries_of(framework: str, launcher: str, site: Site, gpus: str | None) -> frozenset[str]:
    """The communication libraries of a job; `gpus` is the kind of its GPUs (None: no GPUs)."""
    fabric = site.fabric
    return rules.job_libraries(
        used=(*backends.framework(framework).LIBRARIES, *backends.launcher(launcher).LIBRARIES),
        gpus=gpus,
        fabric=fabric.name if fabric else "",
        present=fabric.libraries if fabric else (),
    )


def _kind(layout: Layout) -> str | None:
    """The kind of the job's GPUs (None: no GPUs); `cuda` where the site does not describe the nodes."""
    if not layout.gpus_per_node:
        return None
    gpus = layout.topology.gpus if layout.topology else ()
    return gpus[0].kind if gpus else "cuda"


def flags_of(site: Site, options: Mapping[str, str] | None = None) -> frozenset[str]:
    """Words in the options of scheduler and launcher, those in force at the site, and a spec's `options`."""
    more = options or {}
    of_fabric = site.fabric.in_force if site.fabric else ()
    texts = (*site.scheduler.directives, *site.launcher.arguments, *of_fabric, *more, *more.values())
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


_KEEPABLE = lazy_pattern(r"[\w.,:;/@%+=^ -]+")
"""Values that mean the same inside `${NAME:-…}`."""


def _variable(choice: ChosenSetting, site: Site) -> Variable:
    rule = choice.rule
    known = _short(rule) if rule else ""
    because = ": ".join(filter(None, (f"site {site.name} sets it", known))) if choice.by_site else known
    value = Text.of(choice.value)
    if site.fabric is not None and site.fabric.when_set == "keep" and _KEEPABLE.fullmatch(choice.value):
        value = Text.of(Shell(f"${{{choice.name}:-{choice.value}}}"))
        because = (
            f"{because}; a value set by a module is kept" if because else "a value set by a module is kept"
        )
    return Variable(
        name=choice.name,
        value=value,
        rule=f"fabric-{rule.unit or rule.cls}" if rule else "site-fabric",
        because=because,
        source=rule.cited if rule else None,
    )


def _short(rule: Rule) -> str:
    """The reason of a rule as part of a sentence."""
    return rule.because.rstrip(".")


def _faults(values: Mapping[str, str], whose: str, job: JobTraits, ledger: Ledger) -> None:
    """Add a problem for each harmful or deprecated setting."""
    for name, value in values.items():
        # Several libraries may read the variable, each with a rule: one message is enough.
        for rule in rules.faults(job, name, value)[:1]:
            fault = fault_of(rule, known=job.fabric is not None)
            ledger.problem(
                fault.code,
                f"{whose} sets `{name}={value}`, which is {fault.what}: {_short(rule)}",
                f"environment.variables.{name}" if whose == "the spec" else "site",
                help=fault_help(rule),
                warning=fault.warning,
            )


class Fault(NamedTuple):
    """What a faulty setting is: the code of the problem, a word for it, and whether it is a warning."""

    code: str
    what: str
    warning: bool


def fault_of(rule: Rule, *, known: bool) -> Fault:
    """The fault of a setting against this rule; an error only if the fabric is `known`, so that the rule certainly applies."""
    if rule.cls == "deprecated":
        return Fault("DLR061", "deprecated", warning=True)
    if rule.act == "refuse" and known:
        return Fault("DLR062", "refused", warning=False)
    return Fault("DLR060", "harmful", warning=True)


def fault_help(rule: Rule) -> str:
    """The help for a faulty setting, with its source."""
    return f"{f'use {rule.instead}' if rule.instead else 'leave it out'} (source: {rule.cited})"


def _needs_option(unit: str, flag: str, spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for a unit requested without the option of scheduler or launcher that it needs."""
    asks = next(rule for rule in rules.unit(unit) if rule.act == "asks")
    by_user = asks.name in spec.environment.variables
    keys = (f"environment.variables.{asks.name}",) if by_user else ("site",)
    way_out = (
        f"add `options: {{network: {flag}}}` under `resources:`"
        if backends.scheduler(site.scheduler.type).NETWORK
        else f"add `--{flag}` to `launcher.arguments` of the site profile"
    )
    ledger.problem(
        "DLR063",
        f"`{asks.name}={asks.value}` belongs together with the option `{flag}`, which the job does not have",
        *keys,
        help=f"{way_out}, or remove the variable (source: {asks.cited})",
    )
