"""Back ends by name, each as `module` or `module:attribute`. Other packages can add theirs by entry points.

The tables are literal, and entry points are read only for names that are not in them: reading them takes longer than
everything else at start-up.
"""

from __future__ import annotations

import contextlib
import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from dlrun.errors import Invalid
from dlrun.model.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

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
HISTORICAL = {
    "mesh_tensorflow": "dlrun.frameworks.tensorflow.mesh_tensorflow",
    "chainermn": "dlrun.frameworks.mpi.mpi:chainermn",
    "cntk": "dlrun.frameworks.mpi.mpi:cntk",
    "caffe2": "dlrun.frameworks.caffe2",
    "intelcaffe": "dlrun.frameworks.mpi.intelcaffe",
    "nvcaffe": "dlrun.frameworks.mpi.mpi:nvcaffe",
    "caffe_mpi": "dlrun.frameworks.mpi.mpi:caffe_mpi",
    "torch_mpi": "dlrun.frameworks.mpi.mpi:torch_mpi",
    "theano_mpi": "dlrun.frameworks.mpi.mpi:theano_mpi",
    "ibm_ddl": "dlrun.frameworks.mpi.ibm_ddl",
    "caffeonspark": "dlrun.frameworks.spark.caffeonspark",
    "deeplearning4j": "dlrun.frameworks.spark.deeplearning4j",
}
"""Frameworks without a release for years, kept for those who repeat old results."""
FRAMEWORKS = {
    "torch": "dlrun.frameworks.torch.torch",
    "accelerate": "dlrun.frameworks.torch.accelerate",
    "lightning": "dlrun.frameworks.torch.lightning",
    "deepspeed": "dlrun.frameworks.torch.deepspeed",
    "jax": "dlrun.frameworks.jax",
    "ray": "dlrun.frameworks.ray",
    "tensorflow": "dlrun.frameworks.tensorflow.tensorflow",
    "keras": "dlrun.frameworks.keras",
    "horovod": "dlrun.frameworks.mpi.horovod",
    "mpi": "dlrun.frameworks.mpi.mpi",
    "paddle": "dlrun.frameworks.paddle",
    "spark": "dlrun.frameworks.spark.spark",
    "oneccl": "dlrun.frameworks.mpi.oneccl",
    "h2o": "dlrun.frameworks.h2o",
    "mxnet": "dlrun.frameworks.mxnet",
    **HISTORICAL,
}
"""All frameworks, the most used first: an order by judgement, not a measurement."""

_SYNONYMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "scheduler": {"openpbs": ("pbs", "pbspro", "qsub"), "gridengine": ("sge", "uge", "ogs", "age"), "local": ("none", "shell")},
    "launcher": {
        "openmpi": ("mpirun", "orterun", "prun", "mpi", "prrte"), "hydra": ("mpiexec", "mpich"), "intelmpi": ("impi",),
        "srun": ("slurm",), "pals": ("aprun", "alps"), "local": ("none", "bash", "shell"),
    },
    "framework": {
        "torch": (
            "pytorch", "ddp", "fsdp", "fsdp2", "torchrun", "torchtitan", "torchtune", "megatron", "megatron-lm", "nemo",
            "composer", "mosaic", "axolotl", "trl", "unsloth", "llama-factory", "fairseq", "timm", "mmengine", "vllm", "sglang",
            "nccl", "gloo", "cuda", "rocm",
        ),
        "accelerate": ("huggingface", "hf", "transformers", "peft"),
        "lightning": ("pytorch_lightning", "pytorch-lightning", "pl"),
        "ray": ("verl", "openrlhf", "ray-train", "raytrain"), "jax": ("flax", "maxtext", "t5x"), "tensorflow": ("tf",),
        "mpi": ("none", "mpi4py", "python", "numpy", "scikit-learn", "sklearn"), "keras": ("keras3",),
        "deepspeed": ("ds", "zero"),
    },
}  # fmt: skip
"""Kind -> back end -> other names for it, for the help of the error about an unknown name."""

_IN_USE = {
    "framework": (
        "torch",
        "accelerate",
        "lightning",
        "deepspeed",
        "jax",
        "ray",
        "tensorflow",
        "keras",
        "horovod",
        "mpi",
    )
}
"""Kind -> the back ends to name where the one that is meant is not known."""

_AGENT = (
    "leave `launcher:` out: the site's starts the ranks; `{}: {{agent: true}}` starts this one, once per node"
)
_ELSEWHERE = {
    "launcher": {
        "torchrun": _AGENT.format("torch"), "accelerate": _AGENT.format("accelerate"), "deepspeed": _AGENT.format("deepspeed"),
        "horovodrun": _AGENT.format("horovod"), "auto": "leave `launcher:` out",
    }
}  # fmt: skip
"""Kind -> name of something else -> the way out."""

FABRICS = ("infiniband", "omni-path", "slingshot", "roce", "efa", "ethernet")
"""Networks that `dlrun.fabrics` has settings for."""


def scheduler(name: str) -> Scheduler:
    """The back end of a scheduler, or of jobs inside an allocation of it (`slurm-allocation`).

    Raises Invalid, naming the nearest, if there is none.
    """
    outer = name.removesuffix("-allocation")
    if outer != name and outer:
        back_end = scheduler(outer)
        if back_end.ALLOCATION is not None:
            from dlrun.schedulers.allocation import inside  # noqa: PLC0415 - most jobs have an allocation of their own

            return inside(back_end, scheduler("local"))
    return cast("Scheduler", _load("scheduler", name, SCHEDULERS))


def schedulers() -> Iterator[str]:
    """The names of all schedulers: dlrun's own, then those of other packages."""
    yield from SCHEDULERS
    yield from elsewhere("schedulers")


@cache
def own_parts(name: str) -> Sequence[Any]:
    """The modules of a name in the folders of dlrun's own schedulers, in the order of the rows: a folder may lack it."""
    from importlib.util import find_spec  # noqa: PLC0415 - rarely needed

    folders = dict.fromkeys(module.rpartition(".")[0] for module in SCHEDULERS.values())
    return tuple(
        importlib.import_module(f"{folder}.{name}") for folder in folders if find_spec(f"{folder}.{name}")
    )


@cache
def parts(name: str) -> Sequence[Any]:
    """The modules of a name in the folders of all schedulers, dlrun's own and then those of other packages.

    Raises Invalid for one of another package that cannot be imported.
    """
    return (*own_parts(name), *other_parts(name))


@cache
def other_parts(name: str) -> Sequence[Any]:
    """Those of other packages; raises Invalid as `parts` does."""
    from importlib.util import find_spec  # noqa: PLC0415 - rarely needed

    modules: dict[str, Any] = {}
    for point in elsewhere("schedulers").values():
        with _importing("scheduler", point.name):
            spec = find_spec(point.module)
            is_folder = spec is not None and spec.submodule_search_locations is not None
            folder = point.module if is_folder else point.module.rpartition(".")[0]
            if folder and folder not in modules and find_spec(f"{folder}.{name}"):
                modules[folder] = importlib.import_module(f"{folder}.{name}")
    return tuple(modules.values())


@contextlib.contextmanager
def _importing(kind: str, name: str) -> Iterator[None]:
    """Raise Invalid for whatever another package's code raises while it is imported."""
    try:
        yield
    except Exception as fault:
        raise Invalid(
            f"{kind} `{name}` of another package cannot be imported: {type(fault).__name__}: {fault}",
            help="repair that package, or uninstall it",
        ) from fault


def elsewhere(group: str) -> Mapping[str, EntryPoint]:
    """Name -> entry point of other packages in the group `dlrun.GROUP`."""
    # Takes 50 ms, and is rarely needed.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=f"dlrun.{group}")}


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


_DEFAULTS = {
    "scheduler": "dlrun.schedulers.defaults",
    "launcher": "dlrun.launchers.protocol",
    "framework": "dlrun.frameworks.common.defaults",
}
"""Kind -> the module with what its back ends have by default."""
UNSUPPORTED = {
    "pjm": "Fujitsu's PJM, of Fugaku",
    "lsf": "IBM Spectrum LSF",
}
"""Schedulers by the names that people give them, of which no installation was available to test a back end."""


def _load(kind: str, name: str, table: Mapping[str, str]) -> Any:
    if name in table:
        path, _, attribute = table[name].partition(":")
        module = importlib.import_module(path)
        return completed(kind, getattr(module, attribute) if attribute else module)
    if (point := elsewhere(f"{kind}s").get(name)) is not None:
        with _importing(kind, name):
            back_end = point.load()
        return completed(kind, back_end, name)
    if name.lower() in UNSUPPORTED and kind == "scheduler":
        raise Invalid(
            f"dlrun does not support the scheduler `{name}` ({UNSUPPORTED[name.lower()]})",
            help="it supports "
            + ", ".join(f"`{n}`" for n in table)
            + "; a package can add one: docs/concepts/architecture.md, Back ends",
        )
    near = next((own for own, words in _SYNONYMS[kind].items() if name.lower() in words), None) or nearest(
        name, table
    )
    known = ", ".join(f"`{n}`" for n in _IN_USE.get(kind, table))
    raise Invalid(
        f"dlrun does not support the {kind} `{name}`",
        help=f"the nearest is `{near}`"
        if near
        else _ELSEWHERE.get(kind, {}).get(name.lower()) or f"it supports {known}",
    )


def completed(kind: str, module: Any, elsewhere: str = "") -> Any:
    """A back end with the defaults of its kind for what it leaves out.

    elsewhere: its name, if it is of another package; Invalid is raised if it lacks a part, which other versions may have.
    """
    defaults = importlib.import_module(_DEFAULTS[kind])
    back_end = defaults.Defaults()
    vars(back_end).update({name: getattr(module, name) for name in defaults.MEMBERS if hasattr(module, name)})
    missing = sorted(name for name in defaults.MEMBERS if not hasattr(back_end, name)) if elsewhere else ()
    if missing:
        lacks = ", ".join(f"`{name}`" for name in missing)
        raise Invalid(
            f"{kind} `{elsewhere}` of another package does not support this version of dlrun: it lacks {lacks}",
            help="install a version of that package that supports it",
        )
    return back_end
