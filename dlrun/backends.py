"""Back ends by name, each as `module` or `module:attribute`. Other packages can add theirs by entry points.

The tables are literal, and entry points are read only for names that are not in them: reading them takes longer than
everything else at start-up.
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

SCHEDULERS = {
    "slurm": "dlrun.schedulers.slurm.slurm",
    "openpbs": "dlrun.schedulers.pbs.openpbs",
    "torque": "dlrun.schedulers.pbs.torque",
    "flux": "dlrun.schedulers.flux.flux",
    "gridengine": "dlrun.schedulers.gridengine.gridengine",
    "local": "dlrun.schedulers.local",
}
LAUNCHERS = {
    name: f"dlrun.launchers.{name}"
    for name in ("srun", "openmpi", "hydra", "intelmpi", "pals", "ibrun", "flux", "qrsh", "ssh", "local")
}
FRAMEWORKS = {
    "torch": "dlrun.frameworks.torch.torch",
    "horovod": "dlrun.frameworks.mpi.horovod",
    "mxnet": "dlrun.frameworks.mxnet",
    "intelcaffe": "dlrun.frameworks.mpi.intelcaffe",
    "tensorflow": "dlrun.frameworks.tensorflow.tensorflow",
    "keras": "dlrun.frameworks.keras",
    "chainermn": "dlrun.frameworks.mpi.mpi:chainermn",
    "paddle": "dlrun.frameworks.paddle",
    "jax": "dlrun.frameworks.jax",
    "deepspeed": "dlrun.frameworks.torch.deepspeed",
    "accelerate": "dlrun.frameworks.torch.accelerate",
    "lightning": "dlrun.frameworks.torch.lightning",
    "cntk": "dlrun.frameworks.mpi.mpi:cntk",
    "mesh_tensorflow": "dlrun.frameworks.tensorflow.mesh_tensorflow",
    "oneccl": "dlrun.frameworks.mpi.oneccl",
    "ray": "dlrun.frameworks.ray",
    "spark": "dlrun.frameworks.spark.spark",
    "h2o": "dlrun.frameworks.h2o",
    "nvcaffe": "dlrun.frameworks.mpi.mpi:nvcaffe",
    "caffe_mpi": "dlrun.frameworks.mpi.mpi:caffe_mpi",
    "torch_mpi": "dlrun.frameworks.mpi.mpi:torch_mpi",
    "theano_mpi": "dlrun.frameworks.mpi.mpi:theano_mpi",
    "ibm_ddl": "dlrun.frameworks.mpi.ibm_ddl",
    "caffe2": "dlrun.frameworks.caffe2",
    "caffeonspark": "dlrun.frameworks.spark.caffeonspark",
    "deeplearning4j": "dlrun.frameworks.spark.deeplearning4j",
    "mpi": "dlrun.frameworks.mpi.mpi",
}

_SYNONYMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "scheduler": {"openpbs": ("pbs", "pbspro", "qsub"), "gridengine": ("sge", "uge", "ogs", "age"), "local": ("none", "shell")},
    "launcher": {"openmpi": ("mpirun", "orterun", "prun"), "hydra": ("mpiexec", "mpich"), "intelmpi": ("impi",)},
    "framework": {"torch": ("pytorch", "ddp", "fsdp", "torchrun"), "tensorflow": ("tf",), "mpi": ("none", "mpi4py")},
}  # fmt: skip
"""Kind -> back end -> other names for it, for the help of the error about an unknown name."""

FABRICS = ("infiniband", "omni-path", "slingshot", "roce", "efa", "ethernet")
"""Networks that `dlrun.fabrics` has settings for."""


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
    # Takes 50 ms, and is rarely needed.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for point in entry_points(group=f"dlrun.{kind}s", name=name):
        return _checked(kind, name, point.load())
    near = next((own for own, words in _SYNONYMS[kind].items() if name.lower() in words), None) or nearest(
        name, table
    )
    known = ", ".join(f"`{n}`" for n in table)
    hint = f"the nearest is `{near}`; " if near else ""
    message = f"dlrun does not support the {kind} `{name}`"
    raise Invalid(message, help=f"{hint}it supports {known}")


def _checked(kind: str, name: str, found: Any) -> Any:
    """A back end of another package; raises Invalid if it lacks a part of its Protocol, which other versions may have."""
    protocol = getattr(importlib.import_module(f"dlrun.{kind}s.protocol"), kind.capitalize())
    wanted = (*protocol.__annotations__, *(part for part in vars(protocol) if part[0] != "_"))
    missing = ", ".join(f"`{part}`" for part in dict.fromkeys(wanted) if not hasattr(found, part))
    if missing:
        message = (
            f"{kind} `{name}` of another package does not support this version of dlrun: it lacks {missing}"
        )
        raise Invalid(message, help="install a version of that package that supports it")
    return found
