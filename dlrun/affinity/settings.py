"""The environment variables of a placement, each with its reason.

Variables set by the user are not changed, nor the other ones of `OPENMP_BINDING` if one of them is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dlrun.frameworks.common import comm_cores, threads
from dlrun.model.cpuset import format_list, join
from dlrun.model.placement import Placement, Preset, RankPlacement
from dlrun.model.topology import DEVICE_ORDER, VERBS_NIC, VISIBILITY

OPENMP_BINDING = ("OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
"""Variables that bind OpenMP threads; a runtime that finds two of them uses one and warns, or fails."""

COMPOSITE = ("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE")
"""With this value Level Zero counts cards, so the tile numbers of a placement would select other cards, or none."""

GpuPolicy: TypeAlias = Literal["visible", "all", "scheduler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingContext:
    """The values on which the variables depend besides the placement.

    `preset` is the framework's, `given` are the variables that are already set. `gpu_binding`: a rank sees only its own GPUs
    (`visible`), all GPUs (`all`), or those that the scheduler makes visible. `library` is the text of `templates/lib/bind.sh`,
    which scripts contain. `late`: a script reads at run time what is visible, and whether Level Zero counts cards.
    """

    preset: Preset = Preset()
    given: Mapping[str, str] = field(default_factory=dict)
    gpu_binding: GpuPolicy = "visible"
    gpu_variable: str | None = None
    library: str = ""
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankVariable:
    """One variable of one rank or of all ranks (`rank` is None), with its reason."""

    name: str
    value: str
    because: str
    rank: int | None = None


def settings(placement: Placement, job: BindingContext) -> tuple[RankVariable, ...]:
    """All variables of all ranks, common ones first, without those set by the user."""
    variables = list(_node(placement, job.preset))
    for rank in placement.ranks:
        variables += [
            *_binding(rank, job.preset),
            *_gpus(placement, rank, job),
            *_adapter(placement, rank),
        ]
    blocked = set(job.given)
    if blocked.intersection(OPENMP_BINDING):
        blocked.update(OPENMP_BINDING)
    if _counts_cards(job):
        blocked.add(VISIBILITY["ze"])
    return tuple(setting for setting in variables if setting.name not in blocked)


def _counts_cards(job: BindingContext) -> bool:
    name, value = COMPOSITE
    return job.given.get(name) == value and not job.late


def kept(placement: Placement, job: BindingContext) -> tuple[str, ...]:
    """One line per variable left as set by the user."""
    names = {setting.name for setting in settings(placement, BindingContext(preset=job.preset))}
    lines = [
        f"{name}={value} is already set and is kept" for name, value in job.given.items() if name in names
    ]
    own = [name for name in OPENMP_BINDING if name in job.given]
    dropped = sorted(names.intersection(OPENMP_BINDING) - set(job.given))
    if own and dropped:
        lines.append(f"{', '.join(dropped)} not set, because {own[0]} is already set")
    if _counts_cards(job) and VISIBILITY["ze"] in names and VISIBILITY["ze"] not in job.given:
        lines.append(
            f"{VISIBILITY['ze']} not set, because {'='.join(COMPOSITE)} counts cards and the placement tiles"
        )
    return tuple(lines)


def _node(placement: Placement, preset: Preset) -> Iterable[RankVariable]:
    for setting in comm_cores.of_library(preset.library, placement.ranks):
        yield RankVariable(name=setting.name, value=str(setting.value), because=setting.because)
    if any(name.startswith("hfi1_") for name in placement.node.nics):
        yield RankVariable(name="HFI_NO_CPUAFFINITY", value="1", because="otherwise PSM2 binds each rank")
    order = DEVICE_ORDER.get(placement.node.gpu_kind)
    if order is not None and any(rank.gpus for rank in placement.ranks):
        name, value, because = order
        yield RankVariable(name=name, value=value, because=because)


def _binding(rank: RankPlacement, preset: Preset) -> Iterable[RankVariable]:
    def mine(name: str, value: str, because: str) -> RankVariable:
        return RankVariable(name=name, value=value, because=because, rank=rank.rank)

    yield from (mine(rule.name, rule.value, rule.because) for rule in threads.counts(rank, preset))
    yield mine(
        "DLRUN_CPUS",
        format_list(rank.mask),
        "the CPU mask of the rank: all hardware threads of its compute cores",
    )
    if rank.comm:
        yield mine("DLRUN_COMM_CPUS", join(rank.comm), "bind communication threads to these")
    if rank.loader:
        yield mine("DLRUN_LOADER_CPUS", format_list(rank.loader), "bind data-loading workers to these")
    yield from (mine(rule.name, rule.value, rule.because) for rule in threads.places(rank, preset))


def visibility(placement: Placement, job: BindingContext) -> str | None:
    """The variable that limits a rank to its own GPUs; None if ranks see other GPUs, or there are none."""
    if job.gpu_binding != "visible" or not placement.node.gpus:
        return None
    return job.gpu_variable or VISIBILITY[placement.node.gpu_kind]


def at_run_time(placement: Placement, job: BindingContext) -> BindingContext:
    """The context for scripts that read the visibility variable at run time and stay within it: it does not count as given."""
    name = visibility(placement, job)
    return replace(job, given={key: value for key, value in job.given.items() if key != name}, late=True)


def _gpus(placement: Placement, rank: RankPlacement, job: BindingContext) -> Iterable[RankVariable]:
    name = visibility(placement, job)
    if rank.gpus and name is not None:
        yield RankVariable(
            name=name,
            value=join(rank.gpus),
            because="the GPUs next to these cores",
            rank=rank.rank,
        )


def _adapter(placement: Placement, rank: RankPlacement) -> Iterable[RankVariable]:
    if rank.nic and not (VERBS_NIC.fullmatch(rank.nic) and len(placement.node.nics) > 1):
        yield RankVariable(name="DLRUN_NIC", value=rank.nic, because="the nearest adapter", rank=rank.rank)
    elif rank.nic:
        yield RankVariable(
            name="UCX_NET_DEVICES", value=f"{rank.nic}:1", because="the nearest adapter", rank=rank.rank
        )
