"""Check a site profile, by itself and, on its cluster, against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from dlrun import backends
from dlrun.config.decode import decode
from dlrun.config.load import LoadedSite
from dlrun.config.nodes import MapNode, ScalarNode
from dlrun.config.secrets import hide
from dlrun.config.sites import Profile, advice
from dlrun.errors import Invalid
from dlrun.fabrics import rules
from dlrun.fabrics.rules import JobTraits, job_libraries
from dlrun.fabrics.table import Rule, rules_for
from dlrun.grouping import grouped
from dlrun.model.origin import Origin
from dlrun.model.problem import InvalidFile, Problem, by_place
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.topology import Topology
from dlrun.plan.fabric import fault_help, fault_of, flags_of
from dlrun.site.profile.citations import age
from dlrun.site.profile.differences import differences
from dlrun.site.profile.missing import Missing, missing
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
        built: dict[str, Topology] = {}
        faults: list[Problem] = []
        for kind in profile.site.node_types:
            try:
                if (node := topology_for_site(loaded, kind)) is not None:
                    built[kind] = node
            except InvalidFile as error:
                faults += error.problems
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


def proof_lines(of: Sequence[Proof]) -> Iterator[str]:
    """A line per section of a profile with the proof of its values, below a heading; partitions that are alike share one.

    None if no value has a proof.
    """
    if not any(proof.text for proof in of):
        return
    sections = grouped((_section(proof.fact), proof) for proof in of)
    lines = grouped(((name.partition(".")[0], summary(proved)), name) for name, proved in sections.items())
    named = [(_joined(names), text) for (_, text), names in lines.items()]
    yield "proof of the values:"
    width = max(len(name) for name, _ in named)
    for name, text in named:
        yield f"  {name:<{width}}  {text}"


def _section(fact: str) -> str:
    first, _, rest = fact.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first in ("partitions", "qos", "node_types") else first


def _joined(names: Sequence[str]) -> str:
    """`partitions.gpu`, or `partitions (12)` for several."""
    return names[0] if len(names) == 1 else f"{names[0].partition('.')[0]} ({len(names)})"


# Check the settings and sources of a profile; each problem is at the place of its value.

Origins = Mapping[str, Origin]
_SECTIONS = (
    "scheduler", "launcher", "partitions", "node_types", "fabric", "rendezvous", "storage", "environment", "gpu_binding",
)  # fmt: skip

_WIDEST = "torch"
"""The framework with the most fabric settings."""


def settings(site: Site, origins: Origins, defaults: MapNode | None = None) -> Iterator[Problem]:
    """Problems: harmful and deprecated settings, incomplete pairs, and groups split by `drop`.

    defaults: the profile's spec keys, whose variables count as the site's.
    """
    fabric = site.fabric
    job = _widest_job(site)
    for name, value, origin in _set_by(site, origins, defaults):
        for rule in rules.faults(job, name, value)[:1]:
            yield _fault(rule, name, value, origin, job)
        if fabric is not None:
            yield from _pair(name, value, site, job, origin)
    if fabric is None:
        return
    for name in fabric.drop:
        for unit in {rule.unit for rule in rules_for(name) if rule.unit and rule.act == "set"}:
            rest = [rule.name for rule in rules.unit(unit) if rule.name not in fabric.drop]
            if rest:
                listed = " and ".join(f"`{name}`" for name in rest)
                yield Problem(
                    code="DLR065",
                    message=f"without `{name}`, {listed} are not set either: they belong together",
                    origin=origins.get("fabric.drop"),
                    help="keep it, or list all of them to drop them on purpose",
                    warning=True,
                )


def _set_by(
    site: Site, origins: Origins, defaults: MapNode | None
) -> Iterator[tuple[str, str, Origin | None]]:
    """(name, value, place) of all variables of a profile."""
    fabric = site.fabric
    for block, values in (
        ("environment.variables", site.environment.variables),
        ("fabric.settings", fabric.settings if fabric else {}),
        ("fabric.multi_node", fabric.multi_node if fabric else {}),
    ):
        for name, value in values.items():
            yield name, value, origins.get(f"{block}.{name}") or origins.get(block)
    environment = defaults.get("environment") if defaults else None
    variables = environment.get("variables") if isinstance(environment, MapNode) else None
    for name, entry in variables.entries.items() if isinstance(variables, MapNode) else ():
        if isinstance(entry.value, ScalarNode):
            yield name, entry.value.text, entry.value.origin


def _widest_job(site: Site) -> JobTraits:
    """A job on several nodes with all libraries that jobs of this site may use."""
    fabric = site.fabric
    kinds = [
        kind.topology.gpus.kind for kind in site.node_types.values() if kind.topology and kind.topology.gpus
    ]
    libraries = job_libraries(
        used=(*backends.framework(_WIDEST).LIBRARIES, *_of_launcher(site)),
        gpus=kinds[0] if kinds else None,
        fabric=fabric.name if fabric else "",
        present=fabric.libraries if fabric else (),
    )
    return JobTraits(
        fabric=fabric.name if fabric else None,
        libraries=libraries,
        versions=fabric.versions if fabric else {},
        nodes=2,
        gpus=bool(kinds),
        interfaces=fabric.interfaces if fabric else (),
        flags=flags_of(site),
    )


def _of_launcher(site: Site) -> tuple[str, ...]:
    try:
        return backends.launcher(site.launcher.name).LIBRARIES
    except Invalid:  # an unknown launcher, which `check` reports
        return ()


def _fault(rule: Rule, name: str, value: str, origin: Origin | None, job: JobTraits) -> Problem:
    fault = fault_of(rule, known=job.fabric is not None)
    message = f"`{name}={value}` is {fault.what}: {rule.because.rstrip('.')}"
    return Problem(
        code=fault.code, message=message, origin=origin, help=fault_help(rule), warning=fault.warning
    )


def _pair(name: str, value: str, site: Site, job: JobTraits, origin: Origin | None) -> Iterator[Problem]:
    for rule in rules_for(name):
        if rule.act == "asks" and rules.matches(rule, value) and job.fabric in rule.fabrics:
            for flag in {c.partition(":")[2] for c in rule.when if c.startswith("flag:")} - job.flags:
                option = backends.scheduler(site.scheduler.type).NETWORK
                place = "scheduler.directives" if option else "launcher.arguments"
                spelled = f"{option or '--'}{flag}"
                yield Problem(
                    code="DLR063",
                    message=f"`{name}={value}` belongs together with the option `{flag}`, which jobs here do not set",
                    origin=origin,
                    help=f"add `{spelled}` to `{place}`, or leave the variable out (source: {rule.cited})",
                )


def sources(site: Site, origins: Origins) -> Iterator[Problem]:
    """Problems: sections of a profile without a source, and sources without a date."""
    for i, source in enumerate(site.sources):
        if source.date is None:
            yield Problem(
                code="DLR064",
                message=f"source {i + 1} ({source.cite}) has no date",
                origin=origins.get(f"sources.{i}.cite") or origins.get("sources"),
                help="add `date:` (YYYY-MM), the date of access: limits and names change",
                warning=True,
            )
    if site.status == "generic" or not site.sources:
        return
    covered = {key for source in site.sources for key in source.covers}
    # A source without `covers` is for the whole profile.
    if not all(source.covers for source in site.sources):
        return
    # Inherited values are cited in the profile that has them.
    file = origins["name"].name if "name" in origins else None
    own = {key.partition(".")[0] for key, origin in origins.items() if file in (None, origin.name)}
    for section in _SECTIONS:
        if section in own and not any(key.partition(".")[0] == section for key in covered):
            yield Problem(
                code="DLR064",
                message=f"there is no source for `{section}`",
                origin=origins.get(section),
                help=f"add `{section}` to the `covers:` of its source",
                warning=True,
            )
