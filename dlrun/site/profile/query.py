"""Query the scheduler of this cluster with an ordinary user's rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.schedulers.facts import Cluster, Commands
from dlrun.system.inputs.profiles import Machine
from dlrun.system.process import Runner, run


def ask_cluster(here: Machine, runner: Runner = run) -> Cluster:
    """The facts of this cluster; raises Invalid without a scheduler, OperationFailed if it does not answer."""
    failed = None
    for module in filter(lambda module: here.has(module.CLIENT), _modules()):
        try:
            return cast("Cluster", module.cluster(Commands(runner, here.has)))
        except OperationFailed as error:
            # Clusters may have clients of several schedulers, after a change or as wrappers (Slurm's `pbsnodes`).
            failed = failed or error
    if failed is not None:
        raise failed
    clients = [f"`{module.CLIENT}`" for module in _modules()]
    other = next((backends.UNSUPPORTED[name] for client, name in _OTHERS.items() if here.has(client)), None)
    raise Invalid(
        f"the scheduler here is {other}, which dlrun does not support"
        if other
        else "no scheduler that dlrun supports is installed here",
        help=f"run this on a login node of the cluster (with {' or '.join(clients)}), or write a profile with `dlrun site new`",
    )


_OTHERS = {"pjsub": "pjm", "bsub": "lsf"}
"""Client -> a scheduler that dlrun does not support."""


def has_client(here: Machine) -> bool:
    """Whether a client of a supported scheduler is installed on this host."""
    return any(here.has(module.CLIENT) for module in _modules())


def _modules() -> Sequence[Any]:
    """What detects a scheduler by a client (`CLIENT`) and asks it (`cluster`), in the order to try.

    They are modules `detection` in the folders; those that also run inside jobs of others (`INSIDE_OTHERS`) are last.
    """
    return sorted(backends.parts("detection"), key=lambda module: getattr(module, "INSIDE_OTHERS", False))
