"""The container of the ranks: mounts and start.

Apptainer is started by `rank.sh`; enroot by srun's pyxis plug-in, which then runs `rank.sh` inside.
"""

from __future__ import annotations

from dlrun.launchers.protocol import Launcher
from dlrun.model.data import Snapshot
from dlrun.model.plan import Variable
from dlrun.model.program import (
    Container,
    ContainerPlan,
    ImageSource,
    is_pulled,
    is_pulled_in_job,
    parse_image,
)
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, expanding, lazy_pattern
from dlrun.plan.data.software import code_of
from dlrun.plan.data.storage import NodeStorage
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
    stored: NodeStorage,
    launcher: Launcher,
    ledger: Ledger,
    *,
    role: str | None = None,
) -> ContainerPlan | None:
    """The container's plan, None without a container; job directory, working directory and all data are mounted.

    role: whose it is; the job directory of a role is inside that of the whole job.
    """
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
    source, in_job = _pulled_once(wanted, ledger), is_pulled_in_job(wanted)
    data, local = stored.data, site.storage.node_local
    led = {variable.name: Text.of(Shell(f"${variable.name}")) for variable in _of_snapshot(spec, directory)}
    job = Shell("${DLRUN_JOB_DIR%/roles/*}" if role is not None else "$DLRUN_JOB_DIR")
    mounts = [Text.of(job), led.get(_SUBMITTED, Text.of(directory))]
    in_place = [data_set for data_set in data if data_set.strategy == "in_place"]
    mounts += [data_set.path for data_set in in_place]
    for data_set in data:
        if data_set.strategy == "image":
            ledger.decide(f"data.{data_set.name}.mount", "squashfuse, else Apptainer", "staging", _OF_IMAGES)
    if local is not None and any(data_set.strategy != "in_place" for data_set in data):
        mounts.append(expanding(local.path))
    _check_mount(directory, "directory", ledger)
    for data_set in in_place:
        _check_mount(str(data_set.path), f"data.{data_set.name}", ledger)
    gpus = layout.topology.gpus if layout.topology and layout.gpus_per_node else ()
    return ContainerPlan(
        runtime=wanted.runtime,
        image=wanted.image,
        mounts=(
            *dict.fromkeys(mounts),
            *(_mounted(bind, led.get(_bind(number))) for number, bind in enumerate(wanted.binds)),
        ),
        gpu_flag=_GPU_FLAGS.get((wanted.runtime, gpus[0].kind)) if gpus else None,
        workdir=led.get(_WORKDIR) or (None if wanted.workdir is None else Text.of(wanted.workdir)),
        arguments=wanted.arguments,
        source=source,
        path=stored.staged.path if stored.staged is not None else _PULLED if in_job else None,
        in_job=in_job,
    )


_OF_IMAGES = (
    "Apptainer binds the directory above with all mounts below it, of which each node has one; where it has no squashfuse, "
    "Apptainer mounts the image for each rank (Apptainer User Guide, Image Mounts)"
)
_PULLED = Text.of(Shell("$DLRUN_IMAGE_FILE"))
"""Where an image is that the job has pulled (templates/lib/pull.sh)."""
_SUBMITTED = "DLRUN_SUBMIT_DIR"
_WORKDIR = "DLRUN_MOUNT_WORKDIR"


def _bind(number: int) -> str:
    return f"DLRUN_MOUNT_{number}"


def _mounted(bind: str, source: Text | None) -> Text:
    """A mount of the user's; source: the path on the host, if the job finds that out."""
    return Text.of(bind) if source is None else Text.of(source, ":", bind.partition(":")[2])


def _of_snapshot(spec: Spec, directory: str) -> tuple[Variable, ...]:
    """Variables for what a container mounts from the directory of the submission where the job runs a copy of the code.

    `dlrun_use_snapshot` changes the values where the copy has what they name.
    """
    wanted = spec.environment.container
    if wanted is None or not isinstance(code_of(spec), Snapshot):
        return ()
    paths = {_SUBMITTED: (directory, "mounted into the container; if it is gone, the copy of the code")}
    for number, bind in enumerate(wanted.binds):
        source, mark, inside = bind.partition(":")
        # What keeps its path is the directory of the submission, also inside.
        if mark and inside.partition(":")[0] != source:
            paths[_bind(number)] = (
                source,
                "mounted into the container, from the copy of the code if that has it",
            )
    if wanted.workdir is not None:
        paths[_WORKDIR] = (
            wanted.workdir,
            "the working directory in the container, in the copy of the code if that has it",
        )
    return tuple(
        Variable(name=name, value=Text.of(value), rule="container-snapshot", because=because)
        for name, (value, because) in paths.items()
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
        Text.of("--container-image=", container.path or container.image),
        Text.of("--container-mounts=", *mounts),
        Text.of("--container-workdir=", container.workdir or directory),
        *map(Text.of, [container.gpu_flag] if container.gpu_flag else []),
        *map(Text.of, container.arguments),
    )


def of_container(container: ContainerPlan | None, spec: Spec, directory: str) -> tuple[Variable, ...]:
    """The variables of the job that are there for its container."""
    return (*_of_gpus(container), *_of_snapshot(spec, directory))


def _of_gpus(container: ContainerPlan | None) -> tuple[Variable, ...]:
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


_IN_REGISTRY = lazy_pattern(r"(?![~./])(?:[\w.-]+[/#])+[\w.-]+:[\w.-]+")
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


def _pulled_once(wanted: Container, ledger: Ledger) -> ImageSource | None:
    """The source of an image that is pulled once, at the submission or in the job; None for other images."""
    key = "environment.container.fetch"
    if wanted.runtime != "apptainer":
        if wanted.fetch == "submission" and ledger.given(key):
            ledger.problem("DLR031", "pyxis imports the image on each node by itself", key, "environment.container",
                           help="remove `fetch`, or use `runtime: apptainer`")  # fmt: skip
        return None
    if not is_pulled(wanted.image):
        return None
    where = "the first node of the job" if wanted.fetch == "job" else "the host that submits"
    because = f"pulled and converted once, on {where}, and kept by its digest for later jobs"
    ledger.decide(
        "environment.container.image",
        wanted.image,
        "image",
        because,
        origin=ledger.origin("environment.container.image"),
    )
    return parse_image(wanted.image)


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
