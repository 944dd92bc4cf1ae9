"""What a command starts from: the spec, its site profile and settings, read, layered and decoded.

Everything that can be wrong in them comes as one `InvalidFile` with all problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from dlrun import backends
from dlrun.config import layers, sites
from dlrun.config.decode import Given, decode, framework_of
from dlrun.config.document import parse
from dlrun.config.layers import Assignment
from dlrun.config.nodes import MapNode, Node, ScalarNode
from dlrun.config.secrets import faulty_secrets, hide, plain_secrets
from dlrun.effects.inputs.node_types import topology_for_site
from dlrun.effects.inputs.profiles import (
    Here,
    LoadedSite,
    load_profile,
    load_site,
    locate,
    read_text,
    recognise,
)
from dlrun.errors import Invalid
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import MAX_PROBLEMS, InvalidFile, Problem
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Resources, Spec
from dlrun.model.topology import Topology
from dlrun.plan.resources import node_type_of, partition_of

__all__ = ["Here", "Inputs", "LoadedSite", "load_site", "load_spec", "topology_for_site", "topology_for_spec"]


@record(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A spec and its site, decoded.

    `origins` says where each value of the spec was written, by dotted path (`resources.nodes`,
    `torch.agent`); a value that is not there is dlrun's default. `history` has what each value
    overrode, strongest first. `sources` has the text of every file read, by its name in the origins;
    `directory` is the spec's. `loaded` is the site with its own origins, file and why it was chosen.
    """

    spec: Spec
    site: Site
    origins: Mapping[str, Origin]
    history: Mapping[str, tuple[Given, ...]]
    sources: Mapping[str, str]
    directory: Path
    path: Path
    loaded: LoadedSite


def load_spec(
    path: Path,
    *,
    sets: Sequence[str] = (),
    site: str | None = None,
    options: Callable[[str], type | None],
    here: Here | None = None,
) -> Inputs:
    """Read a spec and everything that goes with it.

    `sets` are arguments of `--set` (`a.b=c`, `a+=x`), `site` that of `--site`; `options` gives the options
    dataclass of a framework by name; `here` the environment, home and machine (default: the real ones).
    Raises InvalidFile (exit code 2) with every problem of spec, settings, flags and site profile.
    """
    here = here or Here()
    reader = _Reader(here)
    spec = reader.read(path, Layer.SPEC)
    if spec is None and not reader.sources:  # there is no such file: nothing else matters
        raise reader.failure()
    settings_file = here.settings / "settings.yaml"
    settings = reader.read(settings_file, Layer.USER) if settings_file.is_file() else None
    assignments = reader.assignments(sets, site)
    upper = _over(layers.merge_all([settings, spec]), assignments, [])
    loaded = reader.site(upper.get("site"), settings.get("site") if settings else None, path)
    defaults = loaded.profile.defaults if loaded else None
    root = _over(layers.merge_all([defaults, settings, spec]), assignments, reader.problems)
    if spec is not None:
        decoded = decode(root, Spec, options=options)
        reader.add([*decoded.problems, *plain_secrets(root), *faulty_secrets(root)])
        reader.add(_framework_problems(root, options))
        if decoded.value is not None and loaded is not None and not reader.problems:
            loaded = _on_its_nodes(loaded, decoded.value.resources)
            return Inputs(
                spec=decoded.value,
                site=loaded.site,
                origins=decoded.origins,
                history=decoded.history,
                sources={**reader.sources, **loaded.profile.sources},
                directory=path.parent,
                path=path,
                loaded=loaded,
            )
    raise reader.failure()


def _on_its_nodes(loaded: LoadedSite, wanted: Resources) -> LoadedSite:
    """The site as it is for the partition and the node type of the job."""
    partition = partition_of(wanted, loaded.site)[0]
    profile = sites.at(loaded.profile, partition, node_type_of(wanted, loaded.site)[0])
    return loaded if profile.site is None else replace(loaded, site=profile.site, profile=profile)


def _over(root: MapNode, assignments: Sequence[Assignment], problems: list[Problem]) -> MapNode:
    for assignment in assignments:
        root, problem = layers.assign(root, assignment)
        if problem is not None:
            problems.append(problem)
    return root


def topology_for_spec(inputs: Inputs) -> Topology | None:
    """The topology of the nodes that the spec asks for; None if the profile does not say.

    A `local` site is this very machine, so there its own topology is read. Raises InvalidFile if the
    profile says it wrongly.
    """
    name, _ = node_type_of(inputs.spec.resources, inputs.site)
    return topology_for_site(inputs.loaded, name)


def _framework_problems(root: MapNode, options: Callable[[str], type | None]) -> Iterator[Problem]:
    name = framework_of(root)
    if options(name) is None:
        try:
            backends.framework(name)
        except Invalid as error:
            node = root.get("framework") or root
            yield Problem(message=error.message, help=error.help or "", origin=node.origin, width=node.width)


class _Reader:
    """Reads files one after the other and keeps what is wrong with them, to say it all at once."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.problems: list[Problem] = []
        self.sources: dict[str, str] = {}
        self.trees: dict[str, Node] = {}

    def read(self, path: Path, layer: Layer) -> MapNode | None:
        """The tree of a file; None if it is unusable, which is then among the problems."""
        try:
            text = read_text(path, layer)
        except InvalidFile as error:
            self.problems += error.problems
            self.sources.update(error.sources)
            return None
        self.sources[str(path)] = text
        at = Origin(layer=layer, name=str(path))
        document = parse(text, at)
        self.problems += document.problems
        if document.root is not None:
            self.trees[str(path)] = document.root
        if isinstance(document.root, MapNode):
            return document.root
        if not document.problems:
            empty = document.root is None or (isinstance(document.root, ScalarNode) and document.root.is_null)
            message = (
                "the file is empty" if empty else "a spec is a mapping of keys, `key: value` on each line"
            )
            self.problems.append(
                Problem(message=message, origin=at, help="`dlrun schema spec` lists the keys")
            )
        return None

    def add(self, problems: Iterable[Problem]) -> None:
        """Keep problems, but not a second one about what could not be read in the first place."""
        known = {p.origin for p in self.problems if p.origin is not None and p.origin.line}
        self.problems += islice((p for p in problems if p.origin not in known), MAX_PROBLEMS)

    def assignments(self, sets: Sequence[str], site: str | None) -> list[Assignment]:
        """What variables and flags set, weakest first."""
        found, problems = layers.from_environment(self.here.environment)
        for text in sets:
            assignment, faults = layers.parse_set(text)
            problems += faults
            if assignment is not None:
                found.append(assignment)
        if site is not None:
            at = Origin(layer=Layer.FLAG, name=f"--site {site}")
            found.append(Assignment(("site",), ScalarNode(text=site, origin=at, plain=False)))
        self.problems += problems
        return found

    def site(self, named: Node | None, by_settings: Node | None, spec: Path) -> LoadedSite | None:
        """The site that flags, spec, DLRUN_SITE or settings name, in this order; else this machine's own."""
        variable = self.here.environment.get("DLRUN_SITE")
        if variable and named is by_settings:
            at = Origin(layer=Layer.ENVIRONMENT, name="DLRUN_SITE")
            named = ScalarNode(text=variable, origin=at, plain=False)
        if isinstance(named, ScalarNode) and not named.is_null:
            because = f"named in {named.origin}"
            base = {Layer.SPEC: spec.parent, Layer.USER: self.here.settings}.get(named.origin.layer, Path())
            return self._load(named.text, base, because, named)
        name, because = recognise(self.here)
        return self._load(name, Path(), because, None)

    def _load(self, name: str, base: Path, because: str, node: ScalarNode | None) -> LoadedSite | None:
        path = locate(name, self.here, base)
        if isinstance(path, Problem):
            origin = node.origin if node else None
            self.problems.append(replace(path, origin=origin, width=node.width if node else 1))
            return None
        try:
            profile = load_profile(path, self.here)
        except InvalidFile as error:
            self.problems += [
                replace(p, origin=p.origin or (node.origin if node else None)) for p in error.problems
            ]
            return None
        self.problems += profile.problems
        self.sources.update(profile.sources)
        if profile.site is None:
            return None
        return LoadedSite(site=profile.site, profile=profile, path=path, because=because)

    def failure(self) -> InvalidFile:
        """All problems, with sources in which no secret can be read."""
        return InvalidFile(self.problems, hide(self.sources, self.trees))
