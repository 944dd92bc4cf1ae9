"""Checks of a site profile: contradictory values (errors) and missing ones (warnings for its author)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.site import Recognise, Site

Origins = Mapping[str, Origin]


def contradictions(site: Site, origins: Origins) -> Iterator[Problem]:
    """Contradictory values of a profile, each an error."""
    yield from _partitions(site, origins)
    yield from _scheduler(site, origins)
    yield from _failures(site, origins)
    rendezvous = site.rendezvous
    if rendezvous.address == "interface" and rendezvous.interface is None:
        yield _problem(
            "DLR054", "rendezvous.address", "`rendezvous.address: interface` needs the name of an interface", origins,
            "add `interface:` below it",
        )  # fmt: skip
    first, last = rendezvous.ports
    if not 1024 <= first <= last <= 65535:
        yield _problem(
            "DLR054", "rendezvous.ports", f"`rendezvous.ports` {first} to {last} is not a range of free ports", origins,
            "give the first and the last port, between 1024 and 65535",
        )  # fmt: skip


def _partitions(site: Site, origins: Origins) -> Iterator[Problem]:
    defaults = [name for name, partition in site.partitions.items() if partition.default]
    for name in defaults[1:]:
        yield _problem(
            "DLR051", f"partitions.{name}.default", f"partitions `{defaults[0]}` and `{name}` are both the default", origins,
            "remove `default:` from one of them",
        )  # fmt: skip
    for name, partition in site.partitions.items():
        key = f"partitions.{name}"
        if partition.node_type is not None and partition.node_type not in site.node_types:
            yield _problem(
                "DLR050", f"{key}.node_type", f"there is no node type `{partition.node_type}` in this profile", origins,
                f"`node_types:` defines {_listed(site.node_types)}",
            )  # fmt: skip
        if partition.min_nodes and partition.max_nodes and partition.min_nodes > partition.max_nodes:
            yield _problem(
                "DLR052", f"{key}.min_nodes", f"partition `{name}`: `min_nodes` is more than `max_nodes`", origins,
                "exchange the two, or remove one",
            )  # fmt: skip
        longest, usual = partition.max_walltime, partition.default_walltime
        if longest is not None and usual is not None and usual > longest:
            yield _problem(
                "DLR052", f"{key}.default_walltime",
                f"partition `{name}`: `default_walltime` {usual} is more than `max_walltime` {longest}", origins,
                "set it to at most `max_walltime`",
            )  # fmt: skip


def _failures(site: Site, origins: Origins) -> Iterator[Problem]:
    for name, failure in site.failures.items():
        try:
            groups = re.compile(failure.pattern).groups
        except re.error as error:
            yield _problem(
                "DLR055", f"failures.{name}.pattern", f"`{failure.pattern}` is not a regular expression: {error}", origins,
                "write it in single quotes, in which YAML keeps backslashes",
            )  # fmt: skip
            continue
        for key in ("means", "next"):
            if "{1}" in getattr(failure, key) and not groups:
                yield _problem(
                    "DLR055", f"failures.{name}.{key}", f"`{{1}}` is the first group, but the pattern of `{name}` has no group",
                    origins, "put parentheses around the part to show",
                )  # fmt: skip


def _scheduler(site: Site, origins: Origins) -> Iterator[Problem]:
    scheduler = site.scheduler
    for option in sorted(set(scheduler.required) & set(scheduler.forbidden)):
        yield _problem(
            "DLR053", "scheduler.forbidden", f"`{option}` is both required and forbidden", origins,
            "remove it from one of the lists",
        )  # fmt: skip
    if scheduler.account.pattern is not None:
        try:
            re.compile(scheduler.account.pattern)
        except re.error as error:
            yield _problem(
                "DLR055", "scheduler.account.pattern", f"`{scheduler.account.pattern}` is not a regular expression: {error}",
                origins, "write it in single quotes, in which YAML keeps backslashes",
            )  # fmt: skip


def advice(site: Site, origins: Origins, stem: str) -> Iterator[Problem]:
    """Warnings for the author of a profile; `stem` is the file name without its suffix."""
    if site.name != stem:
        yield _problem(
            "DLR056", "name", f"the profile `{site.name}` is in a file named `{stem}`", origins,
            f"name the file `{site.name}.yaml`: sites are found by file name", warning=True,
        )  # fmt: skip
    if site.status == "generic":
        return
    if not site.sources:
        yield _problem(
            "DLR057", "name", "the profile cites no source of its values", origins,
            "add `sources: [{cite: …, date: …}]`, so that others can check the values", warning=True,
        )  # fmt: skip
    for key, given in (
        ("scheduler.version", site.scheduler.version),
        ("node_types", site.node_types),
        ("partitions", site.partitions),
        ("fabric", site.fabric),
        ("recognise", site.recognise != Recognise()),
    ):
        if not given and key not in site.unknown:
            remedy = f"{_USE[key]}; if no source states it, add `{key}` to `unknown:`"
            yield _problem("DLR058", "name", f"`{key}` is not given", origins, remedy, warning=True)
        elif given and key in site.unknown:
            yield _problem(
                "DLR058", "unknown", f"`{key}` is listed under `unknown:`, but has a value", origins,
                "remove it from `unknown:`", warning=True,
            )  # fmt: skip


_USE = {
    "scheduler.version": "without it dlrun writes only options that all versions accept",
    "node_types": "without the topology of its nodes dlrun cannot plan the binding of ranks",
    "partitions": "without limits dlrun cannot reject requests that are too large",
    "fabric": "without it dlrun sets no fabric variables",
    "recognise": "without it users must name the site",
}
"""Key of a complete profile -> the disadvantage of leaving it out."""


def _problem(
    code: str, key: str, message: str, origins: Origins, help: str, *, warning: bool = False
) -> Problem:
    return Problem(code=code, message=message, origin=origins.get(key), help=help, warning=warning)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
