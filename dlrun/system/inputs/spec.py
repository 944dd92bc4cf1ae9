"""Read a spec with its settings and its site from disk; `dlrun.config.load` decodes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.config import sites
from dlrun.config.load import Chosen, Inputs, Layers, LoadedSite, RoleInputs, decoded, layers_of
from dlrun.config.nodes import ScalarNode
from dlrun.errors import Invalid
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.spec import Resources
from dlrun.model.topology import Topology
from dlrun.plan.resources import node_type_of, partition_of, partition_with
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import Machine, load_profile, load_site, locate, recognise
from dlrun.system.inputs.text import read_text

__all__ = [
    "Inputs",
    "LoadedSite",
    "Machine",
    "load_site",
    "load_spec",
    "topology_for_site",
    "topology_for_spec",
]


def load_spec(
    path: Path,
    *,
    sets: Sequence[str] = (),
    site: str | None = None,
    options: Callable[[str], type | None] = backends.framework_options,
    here: Machine | None = None,
    text: str | None = None,
) -> Inputs:
    """Read a spec with settings and site profile; text: the spec's, which is then not read from `path`.

    sets: arguments of `--set` (`a.b=c`, `a+=x`); site: argument of `--site`; options: framework name -> its options
    dataclass; here: environment, home and machine (default: the real ones). Raises InvalidFile (exit code 2) with all
    problems of spec, settings, flags and site profile.
    """
    here = here or Machine()

    def read(file: Path, layer: Layer) -> str:
        return text if text is not None and layer is Layer.SPEC else read_text(file, layer)

    layers = layers_of(
        path,
        settings=[place for place in here.settings_files if place.is_file()],
        environment=here.environment,
        sets=sets,
        site=site,
        read=read,
    )
    return _decoded(layers, here, options)


def on_site(inputs: Inputs, name: str, here: Machine | None = None) -> Inputs:
    """The same spec on another site, as with `--site`; only that site's profile is read."""
    return _decoded(inputs.layers.of_site(name), here or Machine(), backends.framework_options)


def _decoded(layers: Layers, here: Machine, options: Callable[[str], type | None]) -> Inputs:
    inputs = decoded(layers, _site(layers, here), options, _unknown)
    loaded = _on_its_nodes(inputs.loaded, inputs.spec.resources)
    roles = {name: _role_on_its_nodes(name, role, inputs) for name, role in inputs.roles.items()}
    return replace(inputs, site=loaded.site, loaded=loaded, roles=roles)


def _role_on_its_nodes(name: str, role: RoleInputs, inputs: Inputs) -> RoleInputs:
    """A role in the partition that has nodes of its type; raises InvalidFile if several have such and none is named."""
    own, wanted, site = role.spec.resources, inputs.spec.resources, inputs.site
    if (own.partition, own.node_type) == (wanted.partition, wanted.node_type):
        return role
    if own.partition is None and own.node_type is not None:
        try:
            own = replace(own, partition=partition_with(own.node_type, wanted, site))
        except Invalid as error:
            at = role.origins.get("resources.node_type")
            problem = Problem(message=f"role `{name}`: {error.message}", origin=at, help=error.help or "")
            raise InvalidFile([problem], dict(inputs.sources)) from None
    spec = replace(role.spec, resources=own)
    return replace(role, spec=spec, loaded=_on_its_nodes(inputs.loaded, own))


def _on_its_nodes(loaded: LoadedSite, wanted: Resources) -> LoadedSite:
    """The site with its settings for the partition and the node type of a job."""
    partition = partition_of(wanted, loaded.site)
    profile = sites.at(loaded.profile, partition, node_type_of(wanted, loaded.site))
    return loaded if profile.site is None else replace(loaded, site=profile.site, profile=profile)


def topology_for_spec(inputs: Inputs) -> Topology | None:
    """The topology of the requested nodes, for a `local` site that of this machine; None if not in the profile.

    Raises InvalidFile for an invalid one in the profile.
    """
    return topology_for_site(inputs.loaded, node_type_of(inputs.spec.resources, inputs.site))


def _unknown(framework: str) -> Problem | None:
    try:
        backends.framework(framework)
    except Invalid as error:
        return Problem(message=error.message, help=error.help or "")
    return None


def _site(layers: Layers, here: Machine) -> Chosen:
    """The site of flags, spec, DLRUN_SITE or settings, in this order; else this machine's."""
    named = layers.site
    # DLRUN_SITE overrides the user's settings, but neither flags nor the spec.
    variable = here.environment.get("DLRUN_SITE")
    if variable and named is (layers.settings.get("site") if layers.settings else None):
        at = Origin(layer=Layer.ENVIRONMENT, name="DLRUN_SITE")
        named = ScalarNode(text=variable, origin=at, plain=False)
    if isinstance(named, ScalarNode) and not named.is_null:
        beside = Path(named.origin.name).parent
        base = {Layer.SPEC: layers.path.parent, Layer.USER: beside}.get(named.origin.layer, Path())
        return _read(named.text, here, base, f"named in {named.origin}", named)
    name, because = recognise(here)
    return _read(name, here, Path(), because, None)


def _read(name: str, here: Machine, base: Path, because: str, node: ScalarNode | None) -> Chosen:
    path = locate(name, here, base)
    if isinstance(path, Problem):
        fault = replace(path, origin=node.origin if node else None, width=node.width if node else 1)
        return Chosen(loaded=None, problems=(fault,))
    try:
        profile = load_profile(path, here)
    except InvalidFile as error:
        at = node.origin if node else None
        return Chosen(loaded=None, problems=tuple(replace(p, origin=p.origin or at) for p in error.problems))
    loaded = None
    if profile.site is not None:
        loaded = LoadedSite(site=profile.site, profile=profile, path=path, because=because)
    return Chosen(loaded=loaded, problems=profile.problems, sources=profile.sources)
