"""The topology of a site's nodes: from its profile, from a captured file, or from this machine.

The parsers are imported only when needed, to keep other dry runs fast.
"""

from __future__ import annotations

from pathlib import Path

from dlrun import backends
from dlrun.config.load import LoadedSite
from dlrun.config.secrets import hide
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.site import NodeType
from dlrun.model.topology import Topology
from dlrun.system.paths import expanded


def _check_gpus(kind: NodeType) -> None:
    """Raise Invalid if the GPUs of a node are stated twice."""
    if kind.gpus is not None and (kind.topology is not None or kind.capture is not None):
        raise Invalid("GPUs are part of it: remove `gpus`, which is for nodes whose cores are not known")


def topology_for_site(loaded: LoadedSite, node_type: str | None) -> Topology | None:
    """The topology of a node type, or of this machine for a local site without node types; None if not described.

    Raises InvalidFile, with the place in the profile, for inconsistent values or an unreadable capture file.
    """
    if node_type is None:
        return _this_machine() if backends.scheduler(loaded.site.scheduler.type).ON_THIS_MACHINE else None
    kind = loaded.site.node_types.get(node_type)
    if kind is None:
        return None
    key = f"node_types.{node_type}.{'topology' if kind.topology is not None else 'capture'}"
    try:
        _check_gpus(kind)
        if kind.topology is not None:
            from dlrun.config.topology import short  # noqa: PLC0415

            return short.build(kind.topology)
        if kind.capture is not None:
            from dlrun.system.inputs.topology import topology_from  # noqa: PLC0415

            return topology_from(_beside_profile(loaded, key, kind.capture))
    except (ValueError, Invalid) as error:
        problem = Problem(message=f"`{key}`: {error}", origin=loaded.profile.origins.get(key))
        raise InvalidFile([problem], hide(loaded.profile.sources, {})) from None
    return None


def _this_machine() -> Topology | None:
    """The topology of this machine; None if it cannot be read."""
    from dlrun.system.inputs.topology import live_topology  # noqa: PLC0415

    try:
        return live_topology()
    except OperationFailed:
        # A container may hide /sys; then the ranks share the granted CPUs.
        return None


def _beside_profile(loaded: LoadedSite, key: str, name: str) -> Path:
    """The path of a capture, relative to the profile with the key, which may be one that this profile extends."""
    origin = loaded.profile.origins.get(key)
    return (Path(origin.name) if origin else loaded.path).parent / expanded(name)
