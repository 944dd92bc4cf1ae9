"""The variables for the fabric, and problems of those that were set by user or site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from dlrun import backends
from dlrun.fabrics import libraries, rules
from dlrun.fabrics.rules import ChosenSetting, ChosenSettings, JobTraits
from dlrun.fabrics.table import Rule
from dlrun.model.plan import Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.model.topology import PROFILE, VERBS_NIC
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout


def settings(spec: Spec, site: Site, layout: Layout, launcher: str, ledger: Ledger) -> tuple[Variable, ...]:
    """The variables that fabric, libraries, versions, node count and site call for; problems go to the ledger.

    A site that names no fabric gets none.
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
            **(fabric.multi_node if layout.nodes > 1 else {}),
        }
        found = rules.select(job, wanted, (*fabric.drop, *drop), user)
        whole = rules.select(job, wanted, fabric.drop, user)
        _dropped(whole, found, spec, ledger)
        for name, why in found.withheld.items():
            because = f"{site.name} sets it, but {why}"
            ledger.decide(f"fabric.settings.{name}", "left out", "fabric-condition", because)
        for unit, flag in found.lacking.items():
            _lacking(unit, flag, spec, site, ledger)
        # Variables that the user drops by name are kept here: the environment removes them and reports their values.
        choices = (*found.choices, *(choice for choice in whole.choices if choice.name in drop))
        of_site |= {c.name: c.value for c in choices if c.by_site and c.name not in user}
    _faults(of_site, f"site `{site.name}`", job, ledger)
    _without_interface(job, {*user, *of_site, *(choice.name for choice in choices)}, ledger)
    return tuple(_variable(choice, site) for choice in choices)


def _dropped(whole: ChosenSettings, kept: ChosenSettings, spec: Spec, ledger: Ledger) -> None:
    """Note what else goes when the spec's `environment.drop` takes a unit apart."""
    drop = spec.environment.drop
    names = {*drop, *(choice.name for choice in kept.choices)}
    lost: dict[str, list[str]] = {}
    for choice in whole.choices:
        if choice.name in names or choice.rule is None:
            continue
        unit = choice.rule.unit
        by = next(rule.name for rule in rules.unit(unit) if rule.name in drop)
        because = f"it belongs together with `{by}`, which the spec leaves unset"
        ledger.decide(f"variables.{choice.name}", "left out", f"fabric-{unit}", because)
        lost.setdefault(by, []).append(f"`{choice.name}`")
    for by, others in lost.items():
        ledger.problem(
            "DLR065",
            f"without `{by}`, {' and '.join(others)} are not set either: they belong together",
            "environment.drop",
            help=f"keep `{by}`, or drop all of them",
            warning=True,
        )


_OVER_SOCKETS = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME"}
"""Libraries that meet or talk over an IP interface, and the variable that names it."""


def _without_interface(job: JobTraits, given: Collection[str], ledger: Ledger) -> None:
    """Warn where nothing names the interface on a network over which all data goes through sockets."""
    if job.nodes == 1 or job.interfaces or job.fabric != "ethernet":
        return
    missing = {lib: name for lib, name in _OVER_SOCKETS.items() if lib in job.libraries and name not in given}
    if missing:
        names = " and ".join(f"`{name}`" for name in missing.values())
        ledger.problem(
            "DLR111",
            f"no interface is known for this site's {job.fabric}: {' and '.join(missing)} takes the one of the host name",
            "site",
            help=f"set {names} under `environment.variables`, or `fabric.interfaces` in the site profile",
            warning=True,
        )


def _adapters(job: JobTraits, layout: Layout) -> dict[str, str]:
    """NCCL's adapters, one list for all ranks: those that the profile names, and no other of the node, such as for storage."""
    nodes = layout.topology
    if nodes is None or nodes.source != PROFILE or job.nodes == 1 or "nccl" not in job.libraries:
        return {}
    names = [nic.name for nic in nodes.nics if VERBS_NIC.fullmatch(nic.name)]
    return {"NCCL_IB_HCA": f"={','.join(names)}"} if names else {}


def job_of(spec: Spec, site: Site, layout: Layout, launcher: str) -> JobTraits:
    """The facts of a job that rules of settings use."""
    fabric = site.fabric
    return JobTraits(
        fabric=fabric.name if fabric else None,
        libraries=libraries.in_play(
            used=(*backends.framework(spec.framework).LIBRARIES, *backends.launcher(launcher).LIBRARIES),
            gpus=_kind(layout),
            fabric=fabric.name if fabric else "",
            present=fabric.libraries if fabric else (),
        ),
        versions=fabric.versions if fabric else {},
        nodes=layout.nodes,
        gpus=layout.gpus_per_node > 0,
        interfaces=fabric.interfaces if fabric else (),
        flags=flags_of(site, spec.resources.options),
    )


def _kind(layout: Layout) -> str | None:
    """The kind of the job's GPUs; NVIDIA's where the site does not describe the nodes."""
    if not layout.gpus_per_node:
        return None
    gpus = layout.topology.gpus if layout.topology else ()
    return gpus[0].kind if gpus else "cuda"


def flags_of(site: Site, options: Mapping[str, str] | None = None) -> frozenset[str]:
    """Words of the options that a site's scheduler and launcher are given or that are in force, with a spec's `options`."""
    more = options or {}
    of_fabric = site.fabric.in_force if site.fabric else ()
    texts = (*site.scheduler.directives, *site.launcher.arguments, *of_fabric, *more, *more.values())
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


_KEEPABLE = re.compile(r"[\w.,:;/@%+=^ -]+")
"""Values that mean the same inside `${NAME:-…}`."""


def _variable(choice: ChosenSetting, site: Site) -> Variable:
    rule = choice.rule
    known = _short(rule) if rule else ""
    because = ": ".join(filter(None, (f"{site.name} sets it", known))) if choice.by_site else known
    value = Text.of(choice.value)
    if site.fabric is not None and site.fabric.when_set == "keep" and _KEEPABLE.fullmatch(choice.value):
        value = Text.of(Shell(f"${{{choice.name}:-{choice.value}}}"))
        because = (
            f"{because}; a value that a module has set stays"
            if because
            else "a value that a module has set stays"
        )
    return Variable(
        name=choice.name,
        value=value,
        rule=f"fabric-{rule.unit or rule.cls}" if rule else "site-fabric",
        because=because,
        source=rule.cited if rule else None,
    )


def _short(rule: Rule) -> str:
    return rule.because.rstrip(".")


def _faults(values: Mapping[str, str], whose: str, job: JobTraits, ledger: Ledger) -> None:
    """Every harmful or deprecated setting among these, once each."""
    for name, value in values.items():
        for rule in rules.faults(job, name, value)[:1]:
            code, what, warning = fault_code(rule, known=job.fabric is not None)
            ledger.problem(
                code,
                f"{whose} sets `{name}={value}`, which is {what}: {_short(rule)}",
                f"environment.variables.{name}" if whose == "the spec" else "site",
                help=fault_help(rule),
                warning=warning,
            )


def fault_code(rule: Rule, *, known: bool) -> tuple[str, str, bool]:
    """Code, word and whether it is only a warning; refused only where what it takes is `known` to hold."""
    if rule.cls == "deprecated":
        return "DLR061", "deprecated", True
    if rule.act == "refuse" and known:
        return "DLR062", "refused", False
    return "DLR060", "harmful", True


def fault_help(rule: Rule) -> str:
    """The way out, with its source."""
    return f"{f'use {rule.instead}' if rule.instead else 'leave it out'} (source: {rule.cited})"


def _lacking(unit: str, flag: str, spec: Spec, site: Site, ledger: Ledger) -> None:
    """A unit that is asked for without the option of scheduler or launcher that it needs."""
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
