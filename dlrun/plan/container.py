"""The container of the ranks: mounts and start.

Apptainer is started by `rank.sh`; enroot by srun's pyxis plug-in, which then runs `rank.sh` inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.launchers.protocol import Launcher
from dlrun.model.plan import ContainerPlan, DataPlan, Variable
from dlrun.model.site import Site
from dlrun.model.spec import Container, Spec
from dlrun.model.text import Shell, Text, expanding
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_ENROOT_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
"""Variables of enroot's hook 98-nvidia.sh; without the first, which not all images set, it mounts no GPU."""

_GPU_FLAGS = {
    ("apptainer", "cuda"): "--nv",
    ("apptainer", "rocm"): "--rocm",
    ("enroot", "cuda"): f"--container-env={','.join(_ENROOT_GPUS)}",
}
"""(runtime, kind of GPU) -> option (Apptainer User Guide, "GPU Support"; pyxis README, "Usage")."""


def contain(
    spec: Spec,
    site: Site,
    layout: Layout,
    directory: str,
    data: Sequence[DataPlan],
    launcher: Launcher,
    ledger: Ledger,
) -> ContainerPlan | None:
    """The container's plan, None without a container; job directory, working directory and all data are mounted."""
    wanted = spec.environment.container
    if wanted is None:
        return None
    if wanted.runtime == "enroot" and not launcher.ENROOT:
        ledger.problem(
            "DLR031",
            f"`runtime: enroot` needs srun with the pyxis plug-in, but the launcher is `{launcher.NAME}`",
            "environment.container.runtime",
            "environment.container",
            help="use `runtime: apptainer`",
        )
    _check_environments(spec, ledger)
    _check_image(wanted, ledger)
    local = site.storage.node_local
    mounts = [Text.of(Shell("$DLRUN_JOB_DIR")), Text.of(directory)]
    in_place = [one for one in data if one.strategy == "in_place"]
    mounts += [one.path for one in in_place]
    if local is not None and any(one.strategy != "in_place" for one in data):
        mounts.append(expanding(local.path))
    _check_mount(directory, "directory", ledger)
    for one in in_place:
        _check_mount(str(one.path), f"data.{one.name}", ledger)
    gpus = layout.topology.gpus if layout.topology and layout.gpus_per_node else ()
    return ContainerPlan(
        runtime=wanted.runtime,
        image=wanted.image,
        mounts=(*dict.fromkeys(mounts), *map(Text.of, wanted.binds)),
        gpu_flag=_GPU_FLAGS.get((wanted.runtime, gpus[0].kind)) if gpus else None,
        workdir=wanted.workdir,
        arguments=wanted.arguments,
    )


def launch_arguments(container: ContainerPlan | None, directory: Text) -> tuple[Text, ...]:
    """Options of srun for the pyxis container (pyxis README, "Usage")."""
    if container is None or container.runtime != "enroot":
        return ()
    mounts: list[str | Shell | Text] = []
    for mount in container.mounts:
        path = Text.of(mount)
        # `binds` of the user may have both paths already.
        inside = path if ":" in str(path) else Text.of(path, ":", path)
        mounts += [",", inside] if mounts else [inside]
    return (
        Text.of(f"--container-image={container.image}"),
        Text.of("--container-mounts=", *mounts),
        Text.of("--container-workdir=", container.workdir or directory),
        *map(Text.of, [container.gpu_flag] if container.gpu_flag else []),
        *map(Text.of, container.arguments),
    )


def gpu_variables(container: ContainerPlan | None) -> tuple[Variable, ...]:
    """Variables for srun's environment that make enroot mount the GPUs."""
    if container is None or container.runtime != "enroot" or not container.gpu_flag:
        return ()
    because = "makes enroot mount NVIDIA GPUs and libraries into the container"
    return tuple(
        Variable(
            name=name, value=Text.of(value), rule="container-gpus", because=because,
            source="enroot, Standard Hooks, 98-nvidia.sh",
        )
        for name, value in _ENROOT_GPUS.items()
    )  # fmt: skip


_IN_REGISTRY = re.compile(r"(?![~./])(?:[\w.-]+[/#])+[\w.-]+:[\w.-]+")
"""`pytorch/pytorch:2.6`, `nvcr.io/nvidia/pytorch:25.01-py3`: an image as Docker names it."""


def _check_image(wanted: Container, ledger: Ledger) -> None:
    """Add a problem for an image of a registry that the runtime would take for a file, or for one of another registry."""
    image = wanted.image
    if not _IN_REGISTRY.fullmatch(image):
        return
    host = image.partition("/")[0]
    if wanted.runtime == "apptainer":
        instead = f"docker://{image.replace('#', '/')}"
        message = f"apptainer takes `{image}` for a file"
    elif "#" not in image and "." in host:
        instead = image.replace("/", "#", 1)
        message = f"enroot looks for `{image}` in Docker Hub"
    else:
        return
    ledger.problem(
        "DLR031",
        message,
        "environment.container.image",
        "environment.container",
        help=f'write `image: "{instead}"`',
    )


def _check_environments(spec: Spec, ledger: Ledger) -> None:
    """Add a problem for a venv or conda environment: inside the container PATH is the image's."""
    for kind, name in (("venv", spec.environment.venv), ("conda", spec.environment.conda)):
        if name is not None:
            ledger.problem(
                "DLR066",
                f"`{kind}: {name}` is activated outside the container and not available inside",
                f"environment.{kind}",
                help="remove it, or remove `container:`; a Python outside the image can be used by its path",
            )


def _check_mount(path: str, key: str, ledger: Ledger) -> None:
    if ":" in path or "," in path:
        ledger.problem(
            "DLR067",
            f"`{path}` contains a colon or a comma, which separate the mounts of a container",
            f"{key}.source",
            key,
            "environment.container",
            help="rename it, or use a symbolic link without these characters",
        )
