"""`export` lines for each local rank: threads, places, communication cores, GPUs, adapters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from dlrun.model.cpuset import parse_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.render.affinity.formats import RankView
from dlrun.render.affinity.settings import THREADS, Job, Setting, settings

NOTE = (
    "a rank must also be bound to its DLRUN_CPUS (`--format wrapper` does), or its threads may roam; what a bound "
    "thread forks, such as data loaders, keeps to its one core unless it binds itself"
)
SAYS = ("threads", "cores", "mask", "comm", "loader", "gpus", "nic")

LINE = re.compile(r"\s*export ([A-Z_]+)=(.*?)(?:  # .*)?")
RANK = re.compile(r"# local rank (\d+)")


def emit(placement: Placement, _topology: Topology, job: Job) -> str:
    """Variables common to all ranks, then a section for each."""
    found = settings(placement, job)
    lines = ["# every rank", *map(export, (s for s in found if s.rank is None))]
    for rank in placement.ranks:
        lines += ["", f"# local rank {rank.rank}", *map(export, (s for s in found if s.rank == rank.rank))]
    return "\n".join(lines if lines[1:2] != [""] else lines[2:]) + "\n"


def export(setting: Setting) -> str:
    """One line of shell, with its reason behind it."""
    return f"export {setting.name}={shlex.quote(setting.value)}  # {setting.because}"


def parse(text: str, topology: Topology) -> tuple[RankView, ...]:
    """What the variables say of each rank; those that are not set say nothing (empty, or the mask's cores).

    Raises ValueError if two of them contradict one another.
    """
    common: dict[str, str] = {}
    ranks: list[dict[str, str]] = []
    for line in text.splitlines():
        if RANK.fullmatch(line):
            ranks.append({})
        elif match := LINE.fullmatch(line):
            (ranks[-1] if ranks else common)[match[1]] = " ".join(shlex.split(match[2]))
    return views(common, ranks, topology)


def views(
    common: Mapping[str, str], ranks: Iterable[Mapping[str, str]], topology: Topology
) -> tuple[RankView, ...]:
    """Rank views out of the values of variables."""
    each = list(ranks)
    return tuple(_view({**common, **own}, i, len(each), topology) for i, own in enumerate(each))


def _view(variables: Mapping[str, str], rank: int, count: int, topology: Topology) -> RankView:
    mask = parse_list(variables["DLRUN_CPUS"])
    listed = re.search(r"proclist=\[([\d,]+)\]", variables.get("KMP_AFFINITY", ""))
    places = re.findall(r"\{(\d+)\}", variables.get("OMP_PLACES", ""))
    places = places or re.findall(r"\d+", listed[1] if listed else variables.get("GOMP_CPU_AFFINITY", ""))
    of_mask = {core.pus: [pu for pu in core.pus if pu in mask] for core in topology.cores_of(mask)}
    firsts = {pus[0] for pus in of_mask.values()}
    # With every hardware thread a place, or places left to the runtime, cores are those of the mask.
    cores = sorted(int(cpu) for cpu in places if int(cpu) in firsts) or sorted(firsts)
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    gpus = next((variables[name] for name in names if name in variables), "")
    adapters = {
        variables.get("DLRUN_NIC"),
        variables.get("UCX_NET_DEVICES", "").removesuffix(":1") or None,
        variables.get("NCCL_IB_HCA", "").removeprefix("=") or None,
    } - {None}
    return {
        "threads": int(_agreed("threads", {variables[name] for name in THREADS if name in variables}) or 0),
        "cores": tuple(cores),
        "mask": mask,
        "comm": _comm(variables, rank, count),
        "loader": parse_list(variables.get("DLRUN_LOADER_CPUS", "")),
        "gpus": parse_list(gpus),
        "nic": _agreed("adapter", adapters),
    }


def _agreed(what: str, values: set[str] | set[str | None]) -> str | None:
    """The one value, None if there is none; raises ValueError if there are several."""
    if len(values) > 1:
        raise ValueError(f"variables differ about the {what} of a rank: {', '.join(map(str, values))}")
    return next(iter(values), None)


def _comm(variables: Mapping[str, str], rank: int, count: int) -> tuple[int, ...]:
    """This rank's communication cores, and its part of a library's list: the lists go by rank, then by worker.

    Horovod's list says less: one CPU a rank, which may be another hardware thread of the core.
    """
    own = parse_list(variables.get("DLRUN_COMM_CPUS", ""))
    found = {own} if own else set()
    for name in ("MLSL_SERVER_AFFINITY", "CCL_WORKER_AFFINITY"):
        if name in variables:
            cpus = parse_list(variables[name])
            each = len(cpus) // count
            found.add(cpus[rank * each : (rank + 1) * each])
    if len(found) > 1:
        raise ValueError(f"variables differ about the communication cores of rank {rank}")
    return next(iter(found), ())
