"""What each format of `dlrun tune-affinity --format` sets for each rank, read back from its text.

`READERS[NAME](text, topology)` gives the fields of each rank that the format carries, by name of `RankPlacement`'s fields,
in the order of the ranks. Readers raise ValueError for text of another kind.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from dlrun.affinity.formats.as_openmpi import mapped
from dlrun.affinity.formats.logical import logical_cores
from dlrun.frameworks.common.threads import COUNTS
from dlrun.model.cpuset import parse_list, parse_mask
from dlrun.model.placement import MemoryBinding, MemoryPolicy, Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.binding_variables import VARIABLES

RankView: TypeAlias = dict[str, Any]
"""Some fields of a `RankPlacement`, by name."""

MAY_DIFFER = frozenset(variable.name for variable in VARIABLES if variable.may_differ)
SAME = frozenset(variable.name for variable in VARIABLES if not variable.may_differ)

LINE = re.compile(r"\s*export ([A-Z_]+)=(.*?)(?:  # .*)?")
RANK = re.compile(r"# local rank (\d+)")


def view(placement: Placement, names: Iterable[str]) -> tuple[RankView, ...]:
    """These fields of every rank."""
    return tuple({name: getattr(rank, name) for name in names} for rank in placement.ranks)


def read_env(text: str, topology: Topology) -> tuple[RankView, ...]:
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
    return _views(common, ranks, topology)


def _views(
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
    } - {None}
    return {
        "threads": int(_agreed("threads", {variables[name] for name in COUNTS if name in variables}) or 0),
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


def read_numactl(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """CPUs and memory policy of every line."""
    views = []
    for line in text.splitlines():
        cpus = re.search(r"(?:--physcpubind=|--cpu-list )([0-9,-]+)", line)
        if not cpus:
            raise ValueError(f"`{line}` binds no CPUs")
        memory = re.search(r"--(membind|preferred|preferred-many)=([0-9,-]+)", line)
        binding = MemoryBinding()
        if memory:
            policy: MemoryPolicy = "strict" if memory[1] == "membind" else "preferred"
            binding = MemoryBinding(policy=policy, nodes=parse_list(memory[2]))
        views.append({"mask": parse_list(cpus[1]), "memory": binding})
    return tuple(views)


def read_wrapper(text: str, topology: Topology) -> tuple[RankView, ...]:
    """What each branch of the script sets."""
    common: dict[str, str] = {}
    ranks: list[dict[str, str]] = []
    memories = []
    _, _, body = text.partition("# --- Cores, memory, GPUs")
    for line in body.partition("\nesac\n")[0].splitlines():
        if re.fullmatch(r"\d+\)", line):
            ranks.append({})
        elif match := LINE.fullmatch(line):
            (ranks[-1] if ranks else common)[match[1]] = " ".join(shlex.split(match[2]))
        elif match := re.match(r"  dlrun_bind (\d+) ([0-9,-]+)(?: (--\S+))?  # ", line):
            ranks[-1] |= {"OMP_NUM_THREADS": match[1], "DLRUN_CPUS": match[2]}
            memories.append(read_numactl(f"taskset --cpu-list 0 {match[3] or ''}", topology)[0]["memory"])
        elif match := re.match(r"  dlrun_other_cores (.*)", line):
            ranks[-1]["DLRUN_COMM_CPUS"], ranks[-1]["DLRUN_LOADER_CPUS"] = shlex.split(match[1])
        elif match := re.match(r"  dlrun_show_gpus (\w+) ([0-9,]+)  # ", line):
            ranks[-1][match[1]] = match[2]
    found = _views(common, ranks, topology)
    return tuple({**rank, "memory": memory} for rank, memory in zip(found, memories, strict=True))


def read_srun(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """The masks of `--cpu-bind=mask_cpu:`."""
    match = re.search(r"--cpu-bind=mask_cpu:(\S+)", text)
    if not match:
        raise ValueError("no `--cpu-bind=mask_cpu:` in the text")
    return tuple({"mask": parse_mask(mask)} for mask in match[1].split(","))


def read_openmpi(text: str, topology: Topology) -> tuple[RankView, ...]:
    """What the mapper does with `--map-by ppr:`."""
    match = re.search(r"--map-by ppr:(\d+):(\w+):pe=(\d+)", text)
    if not match:
        raise ValueError("no `--map-by ppr:N:OBJECT:pe=CORES` in the text")
    return tuple({"cores": cores} for cores in mapped(topology, match[2], int(match[1]), int(match[3])))


def read_rankfile(text: str, topology: Topology) -> tuple[RankView, ...]:
    """The cores of every line, back in OS ids."""
    order = logical_cores(topology)
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed) - set(topology.offline)
    views = []
    for line in text.splitlines():
        match = re.fullmatch(r"rank \d+=\S+ slot=([0-9,-]+)", line)
        if not match:
            raise ValueError(f"`{line}` is not a line of a rankfile")
        pus = [tuple(pu for pu in order[i].pus if pu in allowed) for i in parse_list(match[1])]
        cores = tuple(sorted(core[0] for core in pus))
        views.append({"cores": cores, "mask": tuple(sorted(pu for core in pus for pu in core))})
    return tuple(views)


def read_intelmpi(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """The masks of `I_MPI_PIN_DOMAIN`."""
    match = re.search(r"I_MPI_PIN_DOMAIN='?\[([^\]]+)\]", text)
    if not match:
        raise ValueError("no `I_MPI_PIN_DOMAIN=[masks]` in the text")
    return tuple({"mask": parse_mask(mask)} for mask in match[1].split(","))


def read_hydra(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """The sets of `-bind-to user:`."""
    match = re.search(r"-bind-to user:([0-9+,]+)", text)
    if not match:
        raise ValueError("no `-bind-to user:` in the text")
    return tuple({"mask": tuple(map(int, cpus.split("+")))} for cpus in match[1].split(","))


def read_json(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """Every field of every rank."""
    return view(Placement.from_json(json.loads(text)), CARRIED["json"])


def read_pals(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """The lists of `--cpu-bind list:`."""
    match = re.search(r"--cpu-bind list:([0-9,:-]+)", text)
    if not match:
        raise ValueError("no `--cpu-bind list:` in the text")
    return tuple({"mask": parse_list(cpus)} for cpus in match[1].split(":"))


def read_flux(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """The lists of `cpu-affinity=map:`."""
    words = [word for word in shlex.split(text) if word.startswith("cpu-affinity=map:")]
    if not words:
        raise ValueError("no `cpu-affinity=map:` in the text")
    return tuple({"mask": parse_list(cpus)} for cpus in words[0].removeprefix("cpu-affinity=map:").split(";"))


READERS = {
    "env": read_env, "wrapper": read_wrapper, "srun": read_srun, "openmpi": read_openmpi, "rankfile": read_rankfile,
    "intelmpi": read_intelmpi, "hydra": read_hydra, "pals": read_pals, "flux": read_flux,
    "numactl": read_numactl, "json": read_json,
}  # fmt: skip

_ENV = ("threads", "cores", "mask", "comm", "loader", "gpus", "nic")
CARRIED: dict[str, tuple[str, ...]] = {
    "env": _ENV, "wrapper": (*_ENV, "memory"), "srun": ("mask",), "openmpi": ("cores",), "rankfile": ("cores", "mask"),
    "intelmpi": ("mask",), "hydra": ("mask",), "pals": ("mask",), "flux": ("mask",), "numactl": ("mask", "memory"),
    "json": tuple(field.name for field in fields(RankPlacement)),
}  # fmt: skip
"""The fields of a rank that each format carries."""
