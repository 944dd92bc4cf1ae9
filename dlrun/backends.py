"""Names of back ends and where each is, `module` or `module:attribute`; third parties add theirs through entry points.

The tables are literal: reading entry points costs more than everything else at start-up, so it is done
only for a name that is not here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from dlrun.errors import Invalid
from dlrun.model.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlrun.frameworks.protocol import Framework
    from dlrun.launchers.protocol import Launcher
    from dlrun.schedulers.protocol import Scheduler

SCHEDULERS = {name: f"dlrun.schedulers.{name}" for name in ("slurm", "openpbs", "torque", "local")}
LAUNCHERS = {
    name: f"dlrun.launchers.{name}"
    for name in ("srun", "openmpi", "hydra", "intelmpi", "pals", "ibrun", "ssh", "local")
}
_OF_MPI = ("chainermn", "cntk", "nvcaffe", "caffe_mpi", "torch_mpi", "theano_mpi")
FRAMEWORKS = {
    name: f"dlrun.frameworks.mpi:{name}" if name in _OF_MPI else f"dlrun.frameworks.{name}"
    for name in (
        "torch",
        "horovod",
        "mxnet",
        "intelcaffe",
        "tensorflow",
        "keras",
        "chainermn",
        "paddle",
        "jax",
        "deepspeed",
        "accelerate",
        "lightning",
        "cntk",
        "mesh_tensorflow",
        "oneccl",
        "ray",
        "spark",
        "h2o",
        "nvcaffe",
        "caffe_mpi",
        "torch_mpi",
        "theano_mpi",
        "ibm_ddl",
        "caffe2",
        "caffeonspark",
        "deeplearning4j",
        "mpi",
    )
}


def scheduler(name: str) -> Scheduler:
    """The back end of a scheduler; raises Invalid, naming the nearest, if there is none."""
    return cast("Scheduler", _load("scheduler", name, SCHEDULERS))


def launcher(name: str) -> Launcher:
    """The back end of a launcher; raises Invalid, naming the nearest, if there is none."""
    return cast("Launcher", _load("launcher", name, LAUNCHERS))


def framework(name: str) -> Framework:
    """The back end of a framework; raises Invalid, naming the nearest, if there is none."""
    return cast("Framework", _load("framework", name, FRAMEWORKS))


def framework_options(name: str) -> type | None:
    """The dataclass of a framework's options, or None if there is no such framework."""
    try:
        return framework(name).Options
    except Invalid:
        return None


def _load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    if name in table:
        path, _, attribute = table[name].partition(":")
        module = importlib.import_module(path)
        return getattr(module, attribute) if attribute else module
    from importlib.metadata import entry_points  # noqa: PLC0415 - 50 ms, and nearly never needed

    for point in entry_points(group=f"dlrun.{kind}s", name=name):
        return point.load()
    near = nearest(name, table)
    known = ", ".join(f"`{n}`" for n in table)
    hint = f"the nearest is `{near}`; " if near else ""
    message = f"dlrun speaks no {kind} `{name}`"
    raise Invalid(message, help=f"{hint}it knows {known}")
