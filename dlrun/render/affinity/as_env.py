"""`export` lines for each local rank: threads, places, communication cores, GPUs, adapters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from dlrun.model.cpuset import parse_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.render.affinity.formats import RankView
from dlrun.render.affinity.settings import Job, Setting, settings

NOTE = "a rank must also be bound to its DLRUN_CPUS, or its threads may roam: `--format wrapper` does both"
SAYS = ("threads", "cores", "mask", "comm", "loader", "gpus")

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
    """What the variables say of each rank; those that are not set say nothing (empty, or the mask's cores)."""
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
    places = re.findall(r"\{(\d+)\}", variables.get("OMP_PLACES", ""))
    places = places or re.findall(r"\d+", variables.get("GOMP_CPU_AFFINITY", ""))
    of_mask = {core.pus: [pu for pu in core.pus if pu in mask] for core in topology.cores_of(mask)}
    firsts = {pus[0] for pus in of_mask.values()}
    # With every hardware thread a place, or places left to the runtime, cores are those of the mask.
    cores = sorted(int(cpu) for cpu in places if int(cpu) in firsts) or sorted(firsts)
    names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    gpus = next((variables[name] for name in names if name in variables), "")
    return {
        "threads": int(variables["OMP_NUM_THREADS"]),
        "cores": tuple(cores),
        "mask": mask,
        "comm": _comm(variables, rank, count),
        "loader": parse_list(variables.get("DLRUN_LOADER_CPUS", "")),
        "gpus": parse_list(gpus),
    }


def _comm(variables: Mapping[str, str], rank: int, count: int) -> tuple[int, ...]:
    """This rank's part of a library's list: the lists go by rank, then by worker."""
    for name in ("MLSL_SERVER_AFFINITY", "CCL_WORKER_AFFINITY", "HOROVOD_THREAD_AFFINITY"):
        if name in variables:
            cpus = parse_list(variables[name])
            each = len(cpus) // count
            return cpus[rank * each : (rank + 1) * each]
    return parse_list(variables.get("DLRUN_COMM_CPUS", ""))
