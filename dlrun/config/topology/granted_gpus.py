"""The GPUs granted to a job: /sys always lists all GPUs of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dlrun.model.cpuset import parse_list
from dlrun.model.text import digits
from dlrun.model.topology import VISIBILITY, Gpu

JOB_GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""Slurm's variables with the node-wide indexes of granted GPUs; those of a step come first."""

NO_GPUS = ("", "-1", "NoDevFiles", "none", "void")
"""Values of a visibility variable that mean no GPU, from CUDA and Slurm."""


def granted(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    *,
    usable: frozenset[str] | None = None,
    uuids: Mapping[str, str] | None = None,
) -> tuple[Gpu, ...]:
    """The GPUs that this process may use, with their indexes for the runtime's visibility variable.

    `usable` are the PCI addresses of GPUs whose device files the control group allows (None: unknown); runtimes number only
    these, from 0. `uuids`: PCI address -> UUID. A GPU named by the variable with an unknown PCI address is returned
    without a location.
    """
    if not gpus:
        return ()
    job = _of_job(gpus, environment, usable)
    shown = environment.get(VISIBILITY[gpus[0].kind])
    counted = [replace(gpu, index=i) for i, gpu in enumerate(job.gpus)] if job.renumbered else list(job.gpus)
    if shown is None:
        return tuple(counted)
    if shown in NO_GPUS:
        return ()
    names = shown.split(",")
    cards = _cards(counted) if gpus[0].kind == "ze" else {}
    if cards and (environment.get("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE" or "." in shown):
        return tuple(dict.fromkeys(gpu for name in names for gpu in cards.get(name, ())))
    if all(digits(name) for name in names):
        by_index = {gpu.index: gpu for gpu in counted}
        return tuple(by_index[int(name)] for name in names if int(name) in by_index)
    by_name = {name: gpu for gpu in gpus if (name := (uuids or {}).get(gpu.pci))}
    return tuple(_named(name, i, gpus[0], by_name) for i, name in enumerate(names))


def _cards(tiles: Sequence[Gpu]) -> dict[str, tuple[Gpu, ...]]:
    """Intel's GPUs as `ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE` names them: a card `1`, which is all its tiles, or a tile `1.0`."""
    devices: dict[str, tuple[Gpu, ...]] = {}
    for card, pci in enumerate(dict.fromkeys(gpu.pci for gpu in tiles)):
        mine = tuple(gpu for gpu in tiles if gpu.pci == pci)
        devices |= {str(card): mine, **{f"{card}.{i}": (tile,) for i, tile in enumerate(mine)}}
    return devices


class _JobGpus(NamedTuple):
    """The job's GPUs; `renumbered`: runtimes number them from 0."""

    gpus: list[Gpu]
    renumbered: bool


def _of_job(gpus: Sequence[Gpu], environment: Mapping[str, str], usable: frozenset[str] | None) -> _JobGpus:
    """The GPUs of the job that this process is in."""
    # If all or none of the device files are usable, they do not distinguish the GPUs of the job.
    if usable is not None and 0 < len(usable) < len(gpus):
        return _JobGpus([gpu for gpu in gpus if gpu.pci in usable], True)
    by_index = {gpu.index: gpu for gpu in gpus}
    for name in JOB_GPUS:
        try:
            listed = parse_list(environment.get(name, ""))
        except ValueError:
            continue
        if listed and all(i in by_index for i in listed):
            shown = environment.get(VISIBILITY[gpus[0].kind], "").split(",")
            # Numbers outside Slurm's list are relative to the job: the runtime counts its GPUs from 0.
            others = all(digits(s) for s in shown) and not {int(s) for s in shown} <= set(listed)
            return _JobGpus([by_index[i] for i in listed], others)
    return _JobGpus(list(gpus), False)


def _named(name: str, position: int, any_gpu: Gpu, by_name: Mapping[str, Gpu]) -> Gpu:
    """The GPU of a UUID or unique prefix of one, as CUDA accepts it; its index is its position in the list."""
    matching = [gpu for full, gpu in by_name.items() if full.startswith(name)]
    if len(matching) == 1:
        return replace(matching[0], index=position)
    return Gpu(index=position, kind=any_gpu.kind)
