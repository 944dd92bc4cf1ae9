"""Site profiles: the chain of `extends:`, decoding, and recognition of the current cluster."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from dlrun.config import overrides
from dlrun.config.decode import Decoded, Given, decode
from dlrun.config.document import Document, parse
from dlrun.config.layers import merge
from dlrun.config.nodes import Entry, MapNode, ScalarNode, short
from dlrun.config.secrets import plain_secrets
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.site import Recognise, Site
from dlrun.model.text import lazy_pattern

_OWN_KEYS = (
    "title", "centre", "status", "confidence", "note", "sources", "recognise", "login", "extends",
)  # fmt: skip
"""Keys that describe one cluster, so a profile inherits them only from one of the same name (a user's change of it)."""


@record(frozen=True, slots=True, kw_only=True)
class ProfileText:
    """A profile as read: its name for messages, and its text."""

    name: str
    text: str


@record(frozen=True, slots=True, kw_only=True)
class Profile:
    """A merged profile: tree, value (None if there are problems), texts and the place of each value."""

    root: MapNode | None
    site: Site | None
    problems: tuple[Problem, ...]
    sources: Mapping[str, str]
    origins: Mapping[str, Origin] = field(default_factory=dict)
    history: Mapping[str, tuple[Given, ...]] = field(default_factory=dict)

    @property
    def defaults(self) -> MapNode | None:
        """The site's `defaults:` for specs, as a layer."""
        node = self.root.get("defaults") if self.root else None
        return node if isinstance(node, MapNode) else None


def load(first: ProfileText, find: Callable[[str, ProfileText], ProfileText | Problem]) -> Profile:
    """Merge a profile with those it extends. `find(name, by)` reads the profile `name` that `by` extends."""
    chain: list[MapNode] = []
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    current: ProfileText | None = first
    while current is not None:
        sources[current.name] = current.text
        document = _document(current)
        root = document.root
        problems += document.problems
        if not isinstance(root, MapNode):
            break
        chain.append(root)
        parent = root.get("extends")
        if not isinstance(parent, ScalarNode) or parent.is_null:
            break
        extended = find(parent.text, current)
        if isinstance(extended, Problem):
            problems.append(dataclasses.replace(extended, origin=parent.origin, width=parent.width))
            break
        if extended.name in sources:
            message = f"`{short(parent.text)}` extends this profile itself, directly or through others"
            way_out = "remove `extends:` from one of them"
            problems.append(Problem(message=message, origin=parent.origin, width=parent.width, help=way_out))
            break
        current = extended
    if not chain:
        return Profile(root=None, site=None, problems=tuple(problems), sources=sources)
    merged = _inherit(chain)
    decoded = decode(merged, Site, document="site")
    problems += [*decoded.problems, *plain_secrets(merged, site=True)]
    if decoded.value is not None:
        problems += contradictions(decoded.value, decoded.origins)
    problems += overrides.faults(merged)
    profile = _profile(merged, decoded, problems, sources)
    if problems:
        return profile
    # Every combination of overrides is decoded, so that the author sees their problems, not a user who submits a job.
    more = [fault for place in overrides.places(merged) for fault in at(profile, *place).problems]
    return dataclasses.replace(profile, site=None, problems=tuple(dict.fromkeys(more))) if more else profile


def at(profile: Profile, partition: str | None, node_type: str | None) -> Profile:
    """The profile for jobs of a partition on nodes of a type, with the `overrides:` of both."""
    if profile.root is None:
        return profile
    root = overrides.overridden(profile.root, partition, node_type)
    if root is profile.root:
        return profile
    decoded = decode(root, Site, document="site")
    problems = [*decoded.problems, *plain_secrets(root, site=True)]
    if decoded.value is not None:
        problems += contradictions(decoded.value, decoded.origins)
    return _profile(root, decoded, problems, dict(profile.sources))


def _profile(
    root: MapNode, decoded: Decoded[Site], problems: list[Problem], sources: dict[str, str]
) -> Profile:
    return Profile(
        root=root,
        site=None if problems else decoded.value,
        problems=tuple(problems),
        sources=sources,
        origins=decoded.origins,
        history=decoded.history,
    )


def _document(profile: ProfileText) -> Document:
    """The tree of a profile, a mapping unless there are problems."""
    at = Origin(layer=Layer.SITE, name=profile.name)
    document = parse(profile.text, at)
    if isinstance(document.root, MapNode):
        keys = document.root.entries.keys()
        if keys & {"command", "run", "roles"} and not keys & {"scheduler", "launcher", "extends"}:
            way_out = f"it is a training spec: `dlrun plan {profile.name}` checks it"
            problem = Problem(message=f"`{profile.name}` is not a site profile", origin=at, help=way_out)
            return Document(None, (problem,))
    elif not document.problems:
        message = "the file is empty" if document.root is None else "a site profile is a mapping of keys"
        problem = Problem(message=message, origin=at, help="`dlrun keys --profile` lists the keys")
        return Document(None, (problem,))
    return document


def _inherit(chain: list[MapNode]) -> MapNode:
    """The merged profiles of a chain, the last one weakest; `_OWN_KEYS` are only inherited from a profile of the same name."""
    merged = chain[-1]
    for root in reversed(chain[:-1]):
        same = _text(root, "name") == _text(merged, "name")
        drop = {"name", "extends"} if same else {"name", *_OWN_KEYS}
        base = {k: v for k, v in merged.entries.items() if k not in drop}
        if not same:
            base = {k: _uncounted(v) if k == "node_types" else v for k, v in base.items()}
        over = merge(dataclasses.replace(merged, entries=base), root)
        merged = over if isinstance(over, MapNode) else root
    return merged


def _uncounted(entry: Entry) -> Entry:
    """`node_types` without the number of nodes of each, which is that of one machine."""
    if not isinstance(entry.value, MapNode):
        return entry
    kinds = dict(entry.value.entries)
    for name, kind in kinds.items():
        if isinstance(kind.value, MapNode):
            rest = {key: value for key, value in kind.value.entries.items() if key != "count"}
            kinds[name] = dataclasses.replace(kind, value=dataclasses.replace(kind.value, entries=rest))
    return dataclasses.replace(entry, value=dataclasses.replace(entry.value, entries=kinds))


def _text(root: MapNode, key: str) -> str | None:
    node = root.get(key)
    return node.text if isinstance(node, ScalarNode) else None


@record(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Facts about this machine that are known without asking the scheduler."""

    host: str = ""
    cluster_name: str | None = None
    pbs_server: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


_RECOGNISE = lazy_pattern(r"^recognise:.*(?:\n(?:[ \t#].*)?(?=\n|\Z))*", re.MULTILINE)


def recognise_block(text: str) -> Recognise | None:
    """The `recognise` mapping of a profile. Only this part of its text is parsed: there are many profiles to compare."""
    if not (match := _RECOGNISE.search(text)):
        return None
    root = parse(match[0], Origin(layer=Layer.SITE, name="")).root
    node = root.get("recognise") if isinstance(root, MapNode) else None
    return decode(node, Recognise, document="site").value if isinstance(node, MapNode) else None


def recognised(rule: Recognise, here: Surroundings) -> str | None:
    """Reason why a profile matches this machine; None if it does not."""
    if rule.cluster_name and rule.cluster_name == here.cluster_name:
        return f"Slurm's ClusterName is `{here.cluster_name}`"
    server = (here.pbs_server or "").lower()
    if server and any(name.lower() in {server, server.split(".")[0]} for name in rule.pbs_server):
        return f"the PBS server is `{here.pbs_server}`"
    # Machines report either their short or their full name.
    host = (here.host or "").lower()
    for pattern in rule.hosts:
        if host and any(
            fnmatch.fnmatchcase(name, pattern.lower()) for name in (host, host.partition(".")[0])
        ):
            return f"the host name `{here.host}` matches `{pattern}`"
    for name, value in rule.environment.items():
        if here.environment.get(name) == value:
            return f"`{name}` is `{value}` in the environment"
    return None


# Checks of a site profile: contradictory values (errors) and missing ones (warnings for its author).

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
    for key, value in (
        ("scheduler.version", site.scheduler.version),
        ("node_types", site.node_types),
        ("partitions", site.partitions),
        ("fabric", site.fabric),
        ("recognise", site.recognise != Recognise()),
    ):
        if not value and key not in site.unknown:
            remedy = f"{_USE[key]}; if no source states it, add `{key}` to `unknown:`"
            yield _problem("DLR058", "name", f"`{key}` is not given", origins, remedy, warning=True)
        elif value and key in site.unknown:
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
