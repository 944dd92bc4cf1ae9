"""The container that ranks run in: what it must see of the host, and how it is started.

Apptainer is started by `rank.sh`; enroot by srun's pyxis plug-in, which then runs `rank.sh` inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.plan import ContainerPlan, DataPlan
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, expanding
from dlrun.plan.ledger import Ledger
from dlrun.plan.resources import Layout

_GPU_FLAGS = {"cuda": "--nv", "rocm": "--rocm"}
"""Apptainer User Guide, GPU Support."""


def contain(
    spec: Spec,
    site: Site,
    layout: Layout,
    directory: str,
    data: Sequence[DataPlan],
    launcher: str,
    ledger: Ledger,
) -> ContainerPlan | None:
    """The container's plan, None without one; the job directory, the work directory and all data are mounted."""
    wanted = spec.environment.container
    if wanted is None:
        return None
    if wanted.runtime == "enroot" and launcher != "srun":
        ledger.problem(
            "DLR031",
            f"`runtime: enroot` is started by srun's pyxis plug-in, and the launcher is `{launcher}`",
            "environment.container.runtime",
            "environment.container",
            help="use `runtime: apptainer`",
        )
    local = site.storage.node_local
    mounts = [Text.of(Shell("$DLRUN_JOB_DIR")), Text.of(directory)]
    mounts += [one.path for one in data if one.strategy == "in_place"]
    if local is not None and any(one.strategy != "in_place" for one in data):
        mounts.append(expanding(local.path))
    gpus = layout.topology.gpus if layout.topology and layout.gpus_per_node else ()
    return ContainerPlan(
        runtime=wanted.runtime,
        image=wanted.image,
        mounts=(*dict.fromkeys(mounts), *map(Text.of, wanted.binds)),
        gpu_flag=_GPU_FLAGS.get(gpus[0].kind) if gpus and wanted.runtime == "apptainer" else None,
        arguments=wanted.arguments,
    )


def launch_arguments(container: ContainerPlan | None, directory: str) -> tuple[Text, ...]:
    """What srun is told so that pyxis starts the container (pyxis README, "Usage")."""
    if container is None or container.runtime != "enroot":
        return ()
    mounts: list[str | Shell | Text] = []
    for mount in container.mounts:
        path = Text.of(mount)
        inside = path if ":" in str(path) else Text.of(path, ":", path)
        mounts += [",", inside] if mounts else [inside]
    return (
        Text.of(f"--container-image={container.image}"),
        Text.of("--container-mounts=", *mounts),
        Text.of(f"--container-workdir={directory}"),
        *map(Text.of, container.arguments),
    )
