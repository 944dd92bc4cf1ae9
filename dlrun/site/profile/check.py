"""Check a site profile, by itself and, on its cluster, against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from dlrun import backends
from dlrun.config.decode import decode
from dlrun.config.load import LoadedSite
from dlrun.config.secrets import hide
from dlrun.config.site_checks import advice
from dlrun.config.sites import Profile
from dlrun.errors import Invalid
from dlrun.model.origin import Origin
from dlrun.model.problem import InvalidFile, Problem, by_place
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.topology import Topology
from dlrun.site.profile.citations import age
from dlrun.site.profile.differences import differences
from dlrun.site.profile.missing import Missing, missing
from dlrun.site.profile.settings import settings, sources
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import Machine, load_profile, locate
from dlrun.system.inputs.proof import Proof, proofs, summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """The problems of a profile, sorted by place, its source texts by file, the keys that it lacks, worst
    first, and the proof of each value."""

    name: str
    problems: tuple[Problem, ...]
    sources: Mapping[str, str]
    missing: tuple[Missing, ...] = ()
    proofs: tuple[Proof, ...] = ()


def check_profile(name: str, here: Machine | None = None, today: date | None = None) -> ProfileReport:
    """Check a profile by name or file; today: for the age of its facts. Problems are returned, not raised."""
    here = here or Machine()
    path = locate(name, here, Path())
    if isinstance(path, Problem):
        return ProfileReport(name=name, problems=(_coded(path),), sources={})
    try:
        profile = load_profile(path, here)
    except InvalidFile as error:
        return ProfileReport(name=name, problems=tuple(map(_coded, error.problems)), sources=error.sources)
    problems = [*profile.problems, *_defaults(profile)]
    proved: tuple[Proof, ...] = ()
    if profile.site is not None:
        loaded = LoadedSite(site=profile.site, profile=profile, path=path, because="")
        built, faults = _topologies(loaded)
        proved = proofs(loaded, here)
        problems += [
            *_backends(profile.site, profile.origins),
            *faults,
            *advice(profile.site, profile.origins, path.stem),
            *settings(profile.site, profile.origins, profile.defaults),
            *sources(profile.site, profile.origins),
            *age(loaded, proved, today or date.today()),  # noqa: DTZ011
            *differences(profile.site, profile.origins, here, built),
        ]
    hidden = hide(profile.sources, {})
    return ProfileReport(
        name=name,
        problems=tuple(sorted(map(_coded, problems), key=by_place)),
        sources=hidden,
        missing=missing(profile.site) if profile.site is not None else (),
        proofs=proved,
    )


def _coded(problem: Problem) -> Problem:
    """Add the common code and help line to a problem without its own."""
    return replace(
        problem,
        code=problem.code or "DLR059",
        help=problem.help or "`dlrun keys --profile` and docs/reference/site.md list the valid values",
    )


def _defaults(profile: Profile) -> tuple[Problem, ...]:
    """Problems of the spec keys under `defaults`."""
    if profile.defaults is None:
        return ()
    return decode(profile.defaults, Spec, options=backends.framework_options, partial=True).problems


def _backends(site: Site, origins: Mapping[str, Origin]) -> Iterator[Problem]:
    for key, find, name in (
        ("scheduler.type", backends.scheduler, site.scheduler.type),
        ("launcher.name", backends.launcher, site.launcher.name),
    ):
        try:
            find(name)
        except Invalid as error:
            yield Problem(
                message=error.message, help=error.help or "", origin=origins.get(key), width=len(name)
            )


def _topologies(loaded: LoadedSite) -> tuple[dict[str, Topology], list[Problem]]:
    """(node type -> topology, problems of the others)."""
    built: dict[str, Topology] = {}
    problems: list[Problem] = []
    for name in loaded.site.node_types:
        try:
            if (node := topology_for_site(loaded, name)) is not None:
                built[name] = node
        except InvalidFile as error:
            problems += error.problems
    return built, problems


def proof_lines(of: Sequence[Proof]) -> Iterator[str]:
    """A line per section of a profile with the proof of its values, below a heading; partitions that are alike share one.

    None if no value has a proof.
    """
    if not any(one.text for one in of):
        return
    sections: dict[str, list[Proof]] = {}
    for one in of:
        first, _, rest = one.fact.partition(".")
        name = f"{first}.{rest.partition('.')[0]}" if first in ("partitions", "qos", "node_types") else first
        sections.setdefault(name, []).append(one)
    lines: dict[tuple[str, str], list[str]] = {}
    for name, proved in sections.items():
        lines.setdefault((name.partition(".")[0], summary(proved)), []).append(name)
    named = [(_joined(names), text) for (_, text), names in lines.items()]
    yield "proof of the values:"
    width = max(len(name) for name, _ in named)
    for name, text in named:
        yield f"  {name:<{width}}  {text}"


def _joined(names: Sequence[str]) -> str:
    """`partitions.gpu`, or `partitions (12)` for several."""
    return names[0] if len(names) == 1 else f"{names[0].partition('.')[0]} ({len(names)})"
