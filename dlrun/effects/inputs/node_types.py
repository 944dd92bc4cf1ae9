"""The topology of a site's nodes: from its numbers, from a file captured there, or from this very machine.

What reads one is imported only where there is one to read, so that other dry runs stay quick.
"""

from __future__ import annotations

from pathlib import Path

from dlrun import backends
from dlrun.config.load import LoadedSite
from dlrun.config.secrets import hide
from dlrun.effects.paths import expanded
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.topology import Topology


def topology_for_site(loaded: LoadedSite, node_type: str | None) -> Topology | None:
    """The topology of one node type; of this machine, if the site is this machine and has no node types.

    None if nothing describes it. Raises InvalidFile, with the place in the profile, if its numbers
    contradict one another or its capture file cannot be read.
    """
    if node_type is None:
        return _here() if backends.scheduler(loaded.site.scheduler.type).ON_THIS_MACHINE else None
    kind = loaded.site.node_types.get(node_type)
    if kind is None:
        return None
    key = f"node_types.{node_type}.{'topology' if kind.topology is not None else 'capture'}"
    try:
        if kind.topology is not None:
            from dlrun.config.topology import short  # noqa: PLC0415

            return short.build(kind.topology)
        if kind.capture is not None:
            from dlrun.effects.inputs.topology import topology_from  # noqa: PLC0415

            return topology_from(_beside_profile(loaded, key, kind.capture))
    except (ValueError, Invalid) as error:
        origin = loaded.profile.origins.get(key)
        problem = Problem(message=f"`{key}`: {error}", origin=origin)
        raise InvalidFile([problem], hide(loaded.profile.sources, {})) from None
    return None


def _here() -> Topology | None:
    from dlrun.effects.inputs.topology import live_topology  # noqa: PLC0415

    try:
        return live_topology()
    except OperationFailed:  # a container that hides /sys: ranks then share what they get
        return None


def _beside_profile(loaded: LoadedSite, key: str, name: str) -> Path:
    """A capture lies beside the profile that names it, which may be one that this one extends."""
    origin = loaded.profile.origins.get(key)
    return (Path(origin.name) if origin else loaded.path).parent / expanded(name)
