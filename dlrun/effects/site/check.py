"""Check a site profile, by itself and, on its cluster, against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from dlrun import backends
from dlrun.config.decode import decode
from dlrun.config.load import LoadedSite
from dlrun.config.secrets import hide
from dlrun.config.site_checks import advice
from dlrun.config.sites import Profile
from dlrun.effects.inputs.node_types import topology_for_site
from dlrun.effects.inputs.profiles import Machine, load_profile, locate
from dlrun.effects.site.differences import differences
from dlrun.effects.site.settings import age, settings, sources
from dlrun.errors import Invalid
from dlrun.model.origin import Origin
from dlrun.model.problem import InvalidFile, Problem, by_place
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """The problems of a profile, sorted by place, its source texts by file, and a note that is not a problem."""

    name: str
    problems: tuple[Problem, ...]
    sources: Mapping[str, str]
    note: str | None = None


def check_profile(name: str, here: Machine | None = None, today: date | None = None) -> ProfileReport:
    """Check a profile by name or file; today: for the age of its sources. Problems are returned, not raised."""
    here = here or Machine()
    path = locate(name, here, Path())
    if isinstance(path, Problem):
        return ProfileReport(name=name, problems=(_coded(path),), sources={})
    try:
        profile = load_profile(path, here)
    except InvalidFile as error:
        return ProfileReport(name=name, problems=tuple(map(_coded, error.problems)), sources=error.sources)
    problems = [*profile.problems, *_defaults(profile)]
    if profile.site is not None:
        built, faults = _topologies(LoadedSite(site=profile.site, profile=profile, path=path, because=""))
        problems += [
            *_backends(profile.site, profile.origins),
            *faults,
            *advice(profile.site, profile.origins, path.stem),
            *settings(profile.site, profile.origins, profile.defaults),
            *sources(profile.site, profile.origins),
            *differences(profile.site, profile.origins, here, built),
        ]
    note = age(profile.site, today or date.today()) if profile.site is not None else None  # noqa: DTZ011
    hidden = hide(profile.sources, {})
    return ProfileReport(
        name=name, problems=tuple(sorted(map(_coded, problems), key=by_place)), sources=hidden, note=note
    )


def _coded(problem: Problem) -> Problem:
    """Add the common code and help line to a problem without its own."""
    return replace(
        problem,
        code=problem.code or "DLR059",
        help=problem.help or "`dlrun schema site` and docs/reference/site.md list the valid values",
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
