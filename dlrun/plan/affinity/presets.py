"""Placement presets of the frameworks, by the name of `--framework`."""

from __future__ import annotations

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.nearest import nearest
from dlrun.model.placement import Preset
from dlrun.model.topology import Topology

MLSL_ON_MANY_CORES = 4
"""Number of MLSL servers on Xeon Phi, whose cores are slow (intel/caffe scripts/set_env.sh@44d5363)."""


def presets() -> dict[str, Preset]:
    """Name -> preset: each framework's default under its name, variants such as `torch-ccl`."""
    return {
        f"{name}-{variant}" if variant else name: preset
        for name in backends.FRAMEWORKS
        for variant, preset in backends.framework(name).PRESETS.items()
    }


def known_preset(framework: str) -> Preset | None:
    """The preset of a framework or variant; None for an unknown name."""
    name, _, variant = framework.partition("-")
    try:
        return backends.framework(name).PRESETS.get(variant)
    except Invalid:
        return None


def preset(framework: str) -> Preset:
    """The preset of a framework or variant; raises Invalid for an unknown name."""
    if (entry := known_preset(framework)) is not None:
        return entry
    known = sorted(presets())
    near = nearest(framework, known)
    raise Invalid(
        f"no framework `{framework}`",
        help=(f"the nearest is `{near}`; " if near else "") + f"known are {', '.join(known)}",
    )


def default_comm_cores(chosen: Preset, topology: Topology) -> int:
    """Default number of communication cores of a rank."""
    # Four hardware threads per core on one package: Xeon Phi.
    if chosen.library == "mlsl" and topology.smt() == 4 and len(topology.packages()) == 1:
        return MLSL_ON_MANY_CORES
    return chosen.comm_cores
