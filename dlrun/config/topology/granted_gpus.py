"""Which of the GPUs that /sys shows a job was granted: /sys shows all of the node's, whatever the scheduler gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlrun.model.cpuset import parse_list
from dlrun.model.text import digits
from dlrun.model.topology import VISIBILITY, Gpu

JOB_GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The node's own numbers of the GPUs that Slurm granted, the step's first."""

NO_GPUS = ("", "-1", "NoDevFiles", "none", "void")
"""Values of a visibility variable that show none: CUDA's and Slurm's."""


def granted(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    *,
    usable: frozenset[str] | None = None,
    uuids: Mapping[str, str] | None = None,
) -> tuple[Gpu, ...]:
    """The GPUs that this process may use, each with the index that its runtime's visibility variable calls it by.

    `usable` are the PCI addresses of the GPUs whose device files a control group lets this process open; None where that
    is not known. A runtime counts only those, from 0. `uuids` are the GPUs' names by PCI address. A GPU that the variable
    names and nothing places is returned without its place.
    """
    if not gpus:
        return ()
    mine, renumbered = _of_job(gpus, environment, usable)
    shown = environment.get(VISIBILITY[gpus[0].kind])
    counted = [replace(gpu, index=i) for i, gpu in enumerate(mine)] if renumbered else list(mine)
    if shown is None:
        return tuple(counted)
    if shown in NO_GPUS:
        return ()
    names = shown.split(",")
    if all(digits(name) for name in names):
        by_index = {gpu.index: gpu for gpu in counted}
        return tuple(by_index[int(name)] for name in names if int(name) in by_index)
    by_name = {name: gpu for gpu in gpus if (name := (uuids or {}).get(gpu.pci))}
    return tuple(_named(name, i, gpus[0], by_name) for i, name in enumerate(names))


def _of_job(
    gpus: Sequence[Gpu], environment: Mapping[str, str], usable: frozenset[str] | None
) -> tuple[list[Gpu], bool]:
    """The job's GPUs, and whether runtimes count them from 0."""
    if usable is not None and 0 < len(usable) < len(gpus):
        return [gpu for gpu in gpus if gpu.pci in usable], True
    by_index = {gpu.index: gpu for gpu in gpus}
    for name in JOB_GPUS:
        try:
            listed = parse_list(environment.get(name, ""))
        except ValueError:
            continue
        if listed and all(i in by_index for i in listed):
            shown = environment.get(VISIBILITY[gpus[0].kind], "").split(",")
            others = all(digits(s) for s in shown) and not {int(s) for s in shown} <= set(listed)
            return [by_index[i] for i in listed], others
    return list(gpus), False


def _named(name: str, position: int, any_gpu: Gpu, by_name: Mapping[str, Gpu]) -> Gpu:
    """The GPU of a name, or of the beginning of one, as CUDA takes it; its index is its position in the list."""
    found = [gpu for full, gpu in by_name.items() if full.startswith(name)]
    if len(found) == 1:
        return replace(found[0], index=position)
    return Gpu(index=position, kind=any_gpu.kind)
