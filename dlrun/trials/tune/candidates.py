"""Settings worth a trial for a spec at a site: those that dlrun's rules leave open, one change each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.fabrics.table import rules_for
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.topology import Topology
from dlrun.plan.fabric import libraries_of

DEFAULT = "as planned"
"""Name of the unchanged plan, the baseline of all comparisons."""
JOINED = " + "
"""Between the names of the settings of a combination."""


@record(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting to try: spec keys with values (as for `--set`), parameters of the command, and the reason."""

    name: str
    sets: Mapping[str, str]
    parameters: Mapping[str, str]
    because: str

    @property
    def keys(self) -> frozenset[str]:
        """The changed keys; candidates with a common key exclude each other."""
        return frozenset({*self.sets, *self.parameters})


def together(candidates: Sequence[Candidate], parameters: Mapping[str, str]) -> Candidate:
    """The combination of several candidates; `parameters` are those of the unchanged plan."""
    sets = {key: value for candidate in candidates for key, value in candidate.sets.items()}
    changed = {
        name: value
        for candidate in candidates
        for name, value in candidate.parameters.items()
        if value != parameters.get(name)
    }
    return Candidate(
        name=JOINED.join(candidate.name for candidate in candidates),
        sets=sets,
        parameters={**parameters, **changed},
        because="the changes together are faster than each alone",
    )


def as_planned(parameters: Mapping[str, str]) -> Candidate:
    """The candidate of the unchanged plan."""
    return Candidate(name=DEFAULT, sets={}, parameters=parameters, because="what `dlrun submit` would run")


class Try(NamedTuple):
    """`--try NAME=A,B`: a key of the spec or a parameter `{{ NAME }}` of the command, and at least one value."""

    name: str
    values: tuple[str, ...]


def parameters_of(tries: Sequence[Try], keys: frozenset[str]) -> dict[str, str]:
    """The parameters of the unchanged plan, each with its first value: names whose first part is not one of the spec's keys."""
    return {name: values[0] for name, values in tries if name.partition(".")[0] not in keys}


def from_options(tries: Sequence[Try], parameters: Mapping[str, str]) -> list[Candidate]:
    """Candidates of `--try`; parameters: those of the unchanged plan. Other names are keys of the spec."""
    return [
        Candidate(
            name=f"{name}={value}",
            sets={} if name in parameters else {name: value},
            parameters={**parameters, **({name: value} if name in parameters else {})},
            because="from `--try`",
        )
        for name, values in tries
        for value in (values[1:] if name in parameters else values)
    ]


@record(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory settings available on the machine: files of `ALLOCATORS`, and whether huge pages can be requested."""

    allocators: tuple[str, ...] = ()
    huge_pages: bool = True


def from_rules(
    spec: Spec,
    site: Site,
    plan: Plan,
    topology: Topology | None,
    parameters: Mapping[str, str],
    memory: Memory,
) -> list[Candidate]:
    """Candidates from dlrun's rules: threads, SMT, reserved cores, ranks per node, library settings, memory.

    None changes the result of the training: ranks vary only where `batch_per_rank` keeps the global batch.
    """
    candidates: list[Candidate] = []

    def add(key: str, value: object, because: str, **more: object) -> None:
        sets = {key: str(value), **{name.replace("__", "."): str(text) for name, text in more.items()}}
        name = ", ".join(f"{k}={v}" for k, v in sets.items())
        candidates.append(Candidate(name=name, sets=sets, parameters=parameters, because=because))

    for key, value, because in _of_placement(spec, plan, topology):
        add(f"placement.{key}", value, because)
    for ranks, batch, because in _ranks(plan, topology, spec):
        add("resources.ranks_per_node", ranks, because, batch_per_rank=batch)
    for name, value, because in (*_variables(spec, site, plan), *_of_memory(spec, plan, memory)):
        add(f"environment.variables.{name}", value, because)
    return candidates


def _of_placement(spec: Spec, plan: Plan, topology: Topology | None) -> Iterator[tuple[str, object, str]]:
    """Keys of `placement:` with values to try, where the plan binds the ranks."""
    placement = plan.binding.placement
    if placement is None or not placement.ranks:
        return
    cores = len(placement.ranks[0].cores)
    comm = len(placement.ranks[0].comm)
    for count in (0, 1, 2):
        if count != comm and count < cores + comm:
            yield (
                "comm_cores",
                count,
                "communication cores: how many are best depends on the training",
            )
    if spec.placement.loader_cores == 0 and cores > 1:
        yield "loader_cores", max(1, cores // 4), "cores reserved for data-loading processes"
    if cores > 1:
        yield "threads", cores // 2, "fewer compute threads leave cores to the other threads of the training"
    if topology is not None and topology.smt() > 1:
        other = "all" if spec.placement.smt == "one" else "one"
        yield (
            "smt",
            other,
            "hardware threads share a core, and whether a second one helps depends on the training",
        )


def _ranks(plan: Plan, topology: Topology | None, spec: Spec) -> Iterator[tuple[int, int, str]]:
    """Ranks per node with the batch per rank that keeps the global batch, on nodes without GPUs."""
    if topology is None or topology.gpus or spec.batch_per_rank is None:
        return
    if plan.pool is not None and plan.pool.nodes_per_point == 1:  # the places of a node are of one plan
        return
    now, batch = plan.request.ranks_per_node, spec.batch_per_rank
    counts = {len(topology.cpu_nodes()), len(topology.packages()), now * 2, now // 2}
    for count in sorted(counts - {now, 0}):
        if now * batch % count == 0 and count <= len(topology.cores):
            yield count, now * batch // count, "fewer ranks have more threads each; the global batch stays"


def _of_memory(spec: Spec, plan: Plan, memory: Memory) -> Iterator[tuple[str, str, str]]:
    """Huge pages and other allocators than the C library's, for training on CPUs."""
    if plan.request.gpus_per_node:
        return
    taken = {
        *spec.environment.variables,
        *spec.environment.drop,
        *(variable.name for variable in plan.variables),
    }
    used = backends.framework(spec.framework).LIBRARIES
    for name, value, library, because in HUGE_PAGES if memory.huge_pages else ():
        if name not in taken and (library is None or library in used):
            yield name, value, because
    if "LD_PRELOAD" not in taken and spec.environment.container is None:
        for file in memory.allocators:
            yield "LD_PRELOAD", file, ALLOCATOR


def _variables(spec: Spec, site: Site, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Settings of the job's libraries that neither dlrun nor the user sets."""
    fabric = site.fabric
    used = libraries_of(
        spec.framework, plan.launch.name, site, "cuda" if plan.request.gpus_per_node else None
    )
    taken = {
        *spec.environment.variables,
        *spec.environment.drop,
        *(variable.name for variable in plan.variables),
    }
    for name, values in VALUES.items():
        if name in taken or (plan.request.nodes == 1 and name in SEVERAL_NODES):
            continue
        known = [
            rule
            for rule in rules_for(name)
            if rule.cls == "tunable"
            and rule.library in used
            and {"any", fabric.name if fabric else ""} & {*rule.fabrics}
        ]
        if known:
            for value in values:
                yield name, value, f"{known[0].because.rstrip('.')} [{known[0].cited}]"


_TRY = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<values>.+)", re.DOTALL)


def parse_try(text: str) -> Try:
    """Read `placement.threads=4,8`; raises Invalid for anything else."""
    match = _TRY.fullmatch(text)
    values = tuple(part.strip() for part in match["values"].split(",")) if match else ()
    if match is None or not all(values):
        raise Invalid(
            f"`--try {text}` is not `NAME=VALUE,VALUE`",
            help="as in `--try placement.threads=4,8`, or `--try workers=2,4,8` for `{{ workers }}` in the command",
        )
    return Try(match["name"], tuple(dict.fromkeys(values)))


# Variables of communication libraries that change the speed of a training but not its result, with values to try.
#
# What each does, and the source, is its row in the tables of `dlrun.fabrics`; all are `tunable` there.

VALUES = {
    "HOROVOD_FUSION_THRESHOLD": ("33554432", "67108864"),
    "HOROVOD_CYCLE_TIME": ("5", "10"),
    "HOROVOD_HIERARCHICAL_ALLREDUCE": ("1",),
    "NCCL_SOCKET_NTHREADS": ("4",),
    "CCL_WORKER_COUNT": ("2",),
    "I_MPI_ASYNC_PROGRESS": ("1",),
    "MPICH_ASYNC_PROGRESS": ("1",),
    "UCX_MAX_RNDV_RAILS": ("1",),
}
"""Variable -> values to try besides the library's default: half and double sizes, the opposite of switches."""

SEVERAL_NODES = frozenset(
    {
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        "NCCL_SOCKET_NTHREADS",
        "I_MPI_ASYNC_PROGRESS",
        "MPICH_ASYNC_PROGRESS",
        "UCX_MAX_RNDV_RAILS",
    }
)
"""Variables that only affect communication between nodes."""

HUGE_PAGES = (
    (
        "GLIBC_TUNABLES",
        "glibc.malloc.hugetlb=1",
        None,
        "malloc requests transparent huge pages (glibc 2.35 and later) [GNU C Library manual, Memory Allocation Tunables]",
    ),
    (
        "THP_MEM_ALLOC_ENABLE",
        "1",
        "torch",
        "PyTorch requests transparent huge pages for tensors of 2 MB and more [PyTorch, pull request 107697]",
    ),
)
"""(variable, value, library that reads it (None: any program), reason), for training without GPUs."""

ALLOCATORS = ("jemalloc", "tcmalloc_minimal", "tcmalloc")
"""Libraries that replace malloc by LD_PRELOAD, without `lib` and `.so`."""

ALLOCATOR = "replaces malloc, where many threads allocate memory [PyTorch performance tuning guide, Switch memory allocator]"
