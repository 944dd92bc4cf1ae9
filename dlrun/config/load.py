"""Loading of a spec with its layers and its site; the caller provides the site and the function that reads files.

`layers_of` reads and parses each file once, `decoded` decodes with a given site. If a login node later selects another site,
only `decoded` runs again: a site's defaults are the weakest layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from shlex import quote

from dlrun.config import layers
from dlrun.config.decode import Decoded, Given, decode, framework_of
from dlrun.config.document import parse
from dlrun.config.foreign_options import translated, translated_flags
from dlrun.config.layers import Assignment
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode
from dlrun.config.programs import default_for, with_command, with_roles
from dlrun.config.secrets import faulty_secrets, hide, plain_secrets
from dlrun.config.sites import Profile
from dlrun.config.syntax import cut_off
from dlrun.model.keys import from_home, with_paths
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import MAX_PROBLEMS, InvalidFile, Problem
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec

Read = Callable[[Path, Layer], str]
"""(path, layer) -> text of the file; raises InvalidFile."""
Options = Callable[[str], type | None]
"""Framework name -> dataclass of its options; None if there is no such framework."""
Unknown = Callable[[str], Problem | None]
"""Framework name -> problem with the name; None if there is such a framework."""


@record(frozen=True, slots=True, kw_only=True)
class LoadedSite:
    """A site profile: value, merged tree and texts, file, and the reason why it was selected."""

    site: Site
    profile: Profile
    path: Path
    because: str


@record(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The site of a spec (None if its profile is invalid), the profile's problems, and its texts."""

    loaded: LoadedSite | None
    problems: tuple[Problem, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True, slots=True, kw_only=True)
class Layers:
    """A spec before its site is known: the tree of each layer, and the problems so far."""

    path: Path
    spec: MapNode | None
    settings: MapNode | None
    assignments: tuple[Assignment, ...]
    problems: tuple[Problem, ...]
    sources: Mapping[str, str]
    trees: Mapping[str, Node]
    sets: tuple[str, ...] = ()

    @property
    def site(self) -> Node | None:
        """The value of `site` in the strongest layer."""
        return _over(layers.merge_all([self.settings, self.spec]), self.assignments, []).get("site")

    def of_site(self, name: str) -> Layers:
        """These layers with another site, as for `--site NAME`."""
        return replace(self, assignments=(*self.assignments, _flag(name)))


@record(frozen=True, slots=True, kw_only=True)
class RoleInputs:
    """A role as a spec of its own, with the keys of its job's spec where it has none; `origins` are those of such a spec.

    loaded: the site with its settings for the role's nodes, where these are of another type or partition than the job's.
    """

    spec: Spec
    origins: Mapping[str, Origin]
    loaded: LoadedSite | None = None


@record(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A spec and its site, decoded.

    `origins`: dotted path (`resources.nodes`, `torch.agent`) -> place of the value; absent for dlrun's defaults. `history`:
    dotted path -> overridden values, strongest first. `sources`: file name in the origins -> text. `directory` is the
    spec's. `notes` are warnings about accepted options of other programs (`foreign_options`). With `roles`, the spec's own
    command has no meaning.
    """

    spec: Spec
    site: Site
    origins: Mapping[str, Origin]
    history: Mapping[str, tuple[Given, ...]]
    sources: Mapping[str, str]
    directory: Path
    path: Path
    loaded: LoadedSite
    layers: Layers
    notes: tuple[Problem, ...] = ()
    roles: Mapping[str, RoleInputs] = field(default_factory=dict)

    @property
    def programs(self) -> tuple[RoleInputs, ...]:
        """The programs of the job: its own, or those of its roles."""
        return tuple(self.roles.values()) or (RoleInputs(spec=self.spec, origins=self.origins),)


def layers_of(
    path: Path,
    *,
    settings: Sequence[Path],
    environment: Mapping[str, str],
    sets: Sequence[str],
    site: str | None,
    read: Read,
) -> Layers:
    """Read a spec, the settings files (weakest first), and the assignments of variables and flags.

    Raises InvalidFile if the spec does not exist; other problems are in the result.
    """
    files = _Files(read)
    spec = files.tree(path, Layer.SPEC)
    if spec is None and not files.sources:
        # The file does not exist: problems of other files would only distract.
        raise InvalidFile(files.problems, {})
    read_settings = [files.tree(path, Layer.USER) for path in settings]
    own = layers.merge_all(read_settings) if any(read_settings) else None
    overrides = [layers.from_environment(environment), *map(layers.parse_set, sets)]
    assignments = [assignment for settings in overrides for assignment in settings.assignments]
    if site is not None:
        assignments.append(_flag(site))
    return Layers(
        path=path,
        spec=spec,
        settings=own,
        assignments=tuple(assignments),
        problems=(*files.problems, *(problem for settings in overrides for problem in settings.problems)),
        sources=files.sources,
        trees=files.trees,
        sets=tuple(sets),
    )


def decoded(unmerged: Layers, chosen: Chosen, options: Options, unknown: Unknown) -> Inputs:
    """The values of a spec on its site.

    Raises InvalidFile with every problem of spec, settings, flags and site profile.
    """
    loaded = chosen.loaded
    problems = [*unmerged.problems, *chosen.problems]
    defaults = loaded.profile.defaults if loaded else None
    # Before the merge: `--set resources.ntasks=4` overrides `ranks` of the spec, and the other way round.
    changed = translated(unmerged.spec) if unmerged.spec is not None else None
    flags = translated_flags(unmerged.assignments)
    written = changed.root if changed is not None else None
    weaker = [default_for(layer, written) for layer in (defaults, unmerged.settings)]
    root = _over(layers.merge_all([*weaker, written]), flags.assignments, problems)
    sources = {**unmerged.sources, **chosen.sources}
    if unmerged.spec is not None and changed is not None:
        single = with_command(root)
        programs = with_roles(single.root)
        _add(problems, [*single.problems, *programs.problems])
        value = _value(programs.job, options, unknown, problems)
        roles = {name: _value(part, options, unknown, problems) for name, part in programs.roles.items()}
        if value.value is not None and loaded is not None and not problems:
            return Inputs(
                spec=with_paths(value.value, from_home),
                site=loaded.site,
                origins=value.origins,
                history=value.history,
                sources=sources,
                directory=unmerged.path.parent,
                path=unmerged.path,
                loaded=loaded,
                layers=unmerged,
                notes=(
                    *changed.problems,
                    *cut_off(unmerged.spec, unmerged.sources[str(unmerged.path)]),
                    *flags.problems,
                ),
                roles={
                    name: RoleInputs(spec=with_paths(role.value, from_home), origins=role.origins)
                    for name, role in roles.items()
                    if role.value is not None
                },
            )
    raise InvalidFile(problems, hide(sources, dict(unmerged.trees)))


def _value(root: MapNode, options: Options, unknown: Unknown, problems: list[Problem]) -> Decoded[Spec]:
    """The values of a spec's tree; adds its problems."""
    value = decode(root, Spec, options=options)
    _add(problems, [*value.problems, *plain_secrets(root), *faulty_secrets(root)])
    if (fault := unknown(framework_of(root))) is not None:
        node = root.get("framework") or root
        _add(problems, [replace(fault, origin=node.origin, width=node.width)])
    return value


def _flag(site: str) -> Assignment:
    at = Origin(layer=Layer.FLAG, name=f"--site {site}")
    return Assignment(("site",), ScalarNode(text=site, origin=at, plain=False))


def _over(root: MapNode, assignments: Iterable[Assignment], problems: list[Problem]) -> MapNode:
    for assignment in assignments:
        changed = layers.assign(root, assignment)
        root = changed.root
        problems += changed.problems
    return root


def _add(known: list[Problem], problems: Iterable[Problem]) -> None:
    """Add problems, except those that are known, or at places that already have one."""
    # A value that could not be parsed would be reported again, as missing or of the wrong type; and each role has the
    # rest of the spec, with what is wrong there. A missing `name`, or a flag, has no line.
    places, seen = {p.origin for p in known if p.origin is not None and p.origin.line}, set(known)
    known += islice((p for p in problems if p.origin not in places and p not in seen), MAX_PROBLEMS)


def _of_another_kind(path: Path, text: str) -> str | None:
    """Help for a batch script or program given in place of a spec; None for any other file."""
    if re.search(r"^#(?:SBATCH|PBS)\s", text, re.MULTILINE):
        words = f"{quote(str(path))} -o {quote(str(path.with_suffix('.yaml')))}"
        return f"it is a batch script: `dlrun init --from {words}` converts it to a spec"
    if path.suffix == ".py" or re.match(r"#!.*python", text):
        return f"it is a program: `dlrun run -- python {path}` starts it, `dlrun init --run 'python {path}'` writes a spec for it"
    if text.startswith("#!"):
        return f"it is a script: `dlrun init --run 'bash {path}'` writes a spec for it"
    return None


def _of_a_site(path: Path, root: MapNode) -> str | None:
    """Help for a site profile given in place of a spec; None for any other file."""
    if root.entries.keys() & {"command", "run", "roles"} or not root.entries.keys() & {
        "scheduler",
        "node_types",
        "partitions",
    }:
        return None
    return f"it is a site profile: `--site ./{path}` selects it, `dlrun site check {path}` checks it"


class _Files:
    """Reads files and collects their problems, to report them together."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.problems: list[Problem] = []
        self.sources: dict[str, str] = {}
        self.trees: dict[str, Node] = {}

    def tree(self, path: Path, layer: Layer) -> MapNode | None:
        """The tree of a file; None, with a problem added, if it cannot be used."""
        try:
            text = self._read(path, layer)
        except InvalidFile as error:
            self.problems += error.problems
            self.sources.update(error.sources)
            return None
        self.sources[str(path)] = text
        at = Origin(layer=layer, name=str(path))
        document = parse(text, at)
        other = _of_another_kind(path, text) if layer is Layer.SPEC else None
        if isinstance(document.root, MapNode):
            other = _of_a_site(path, document.root) if layer is Layer.SPEC else None
        if other is not None:
            self.problems.append(Problem(message=f"`{path}` is not a spec", origin=at, help=other))
            return None
        self.problems += document.problems
        if document.root is not None:
            self.trees[str(path)] = document.root
        if isinstance(document.root, MapNode):
            return document.root
        if not document.problems:
            empty = document.root is None or (isinstance(document.root, ScalarNode) and document.root.is_null)
            message = "the file is empty" if empty else "a spec is a mapping: lines of the form `key: value`"
            listed = isinstance(document.root, ListNode)
            help_ = "write the keys without `- ` before them" if listed else "`dlrun keys` lists the keys"
            self.problems.append(Problem(message=message, origin=at, help=help_))
        return None
