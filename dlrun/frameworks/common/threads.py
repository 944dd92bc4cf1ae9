"""Number and binding of a rank's compute threads: one set of rules for jobs and `dlrun tune-affinity`.

Jobs do not bind single threads, because processes started by a bound thread inherit its one-core mask
(docs/decisions/0007), except for frameworks that start no processes (`bind`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dlrun.frameworks import protocol
from dlrun.frameworks.protocol import Setting, Shape
from dlrun.model.cpuset import join
from dlrun.model.placement import Preset, RankPlacement
from dlrun.model.record import record
from dlrun.model.text import Shell
from dlrun.model.units import many

COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables for the number of compute threads; libraries fall back to the first where theirs is not set."""

SLEEP = "KMP_BLOCKTIME"
_SLEEP_SOURCE = "pytorch torch/backends/xeon/run_cpu.py"
_POOL_SOURCE = "tensorflow core/common_runtime/process_util.cc"


@record(frozen=True, slots=True, kw_only=True)
class ThreadRule:
    """A variable of one rank; `binds`: it binds single threads."""

    name: str
    value: str
    because: str
    binds: bool = False
    source: str | None = None


def counts(rank: RankPlacement, preset: Preset) -> Iterator[ThreadRule]:
    """Variables for the number of threads of a rank's libraries."""
    count = str(rank.threads)
    because = f"{many(rank.threads, 'compute thread')} on {many(len(rank.cores), 'core')}"
    for name in COUNTS:
        yield ThreadRule(name=name, value=count, because=because)
    if preset.thread_pools:
        yield ThreadRule(name="TF_NUM_INTRAOP_THREADS", value=count, because=because, source=_POOL_SOURCE)
        yield ThreadRule(
            name="TF_NUM_INTEROP_THREADS",
            value=str(min(2, len(rank.numa))),
            because="operations that run concurrently: one per NUMA node, at most 2",
            source=_POOL_SOURCE,
        )


def places(rank: RankPlacement, preset: Preset) -> Iterator[ThreadRule]:
    """Variables for the binding of a rank's OpenMP threads and the spin time of idle ones."""
    intel = preset.openmp in ("iomp", "iomp-list")
    if not preset.thread_pools and preset.openmp != "none":
        yield from _bound(rank, preset)
    if intel and rank.comm:
        yield ThreadRule(name=SLEEP, value="1", because="idle threads sleep after 1 ms", source=_SLEEP_SOURCE)
    elif preset.shares_cores:
        yield ThreadRule(name=SLEEP, value="1", because=_SHARES, source=_SLEEP_SOURCE)


_SHARES = "idle threads of Intel's OpenMP sleep after 1 ms, because other threads of the rank need the cores"


def _bound(rank: RankPlacement, preset: Preset) -> Iterator[ThreadRule]:
    # More threads than cores: the placement uses every hardware thread (`smt: all`).
    every_thread = rank.threads > len(rank.cores)
    # Cores with fewer hardware threads than others: each core gets a thread before any gets its second.
    uneven = every_thread and rank.threads < len(rank.mask)
    seconds = [cpu for cpu in rank.mask if cpu not in rank.cores]
    cpus = (
        sorted((*rank.cores, *seconds)[: rank.threads])
        if uneven
        else rank.mask
        if every_thread
        else rank.cores
    )

    def bind(name: str, value: str, because: str) -> ThreadRule:
        return ThreadRule(name=name, value=value, because=because, binds=True)

    if preset.openmp == "gomp-old":
        # libgomp before GCC 4.9 has no OMP_PLACES.
        yield bind("GOMP_CPU_AFFINITY", join(cpus), "one thread on each")
    elif preset.openmp == "gomp":
        yield bind("OMP_PLACES", ",".join(f"{{{cpu}}}" for cpu in cpus), "one thread on each")
        yield bind("OMP_PROC_BIND", "close", "threads stay on their places")
    elif preset.openmp == "iomp-list" or uneven:
        named = f"granularity=fine,proclist=[{join(cpus)}],explicit"
        yield bind("KMP_AFFINITY", named, "one thread on each")
    else:
        order = "compact" if every_thread else "compact,1,0"
        yield bind("KMP_AFFINITY", f"granularity=fine,{order}", "one thread per place, within the mask")
        # The mask has all hardware threads of each core, of which compute threads use one.
        if not every_thread and len(rank.mask) > len(rank.cores):
            yield bind("KMP_HW_SUBSET", "1t", "one hardware thread of each core")


def settings(shape: Shape, preset: Preset, *, bind: bool = False) -> tuple[Setting, ...]:
    """The variables of a job's ranks by these rules, without OMP_NUM_THREADS; `bind`: including those that bind threads."""
    of_ranks = [
        {rule.name: rule for rule in (*counts(rank, preset), *places(rank, preset))} for rank in shape.ranks
    ]
    if not of_ranks:
        return _unplaced(preset, bind=bind)
    return tuple(
        Setting(name=name, value=_by_rank([rules[name].value for rules in of_ranks]), because=rule.because, source=rule.source)
        for name, rule in of_ranks[0].items()
        if name not in COUNTS and (bind or not rule.binds) and all(name in rules for rules in of_ranks)
    )  # fmt: skip


def _by_rank(values: list[str]) -> str | Shell:
    """One value for all ranks of a node, or an expansion that selects it by local rank."""
    if len(set(values)) == 1:
        return values[0]
    return Shell(f'$(set -- {" ".join(values)}; shift "{protocol.LOCAL_RANK.code}"; printf %s "$1")')


def _unplaced(preset: Preset, *, bind: bool) -> tuple[Setting, ...]:
    """`settings` for ranks whose cores are known only inside the job."""
    unplaced = []
    if preset.thread_pools:
        why = "one per core of the rank"
        unplaced.append(
            Setting(
                name="TF_NUM_INTRAOP_THREADS", value=Shell("$DLRUN_THREADS"), because=why, source=_POOL_SOURCE
            )
        )
    if preset.shares_cores:
        unplaced.append(Setting(name=SLEEP, value="1", because=_SHARES, source=_SLEEP_SOURCE))
    if bind and preset.openmp == "iomp":
        unplaced += [
            Setting(
                name="KMP_AFFINITY",
                value="granularity=fine,compact,1,0",
                because="one thread per place, within the mask",
            ),
            Setting(name="KMP_HW_SUBSET", value="1t", because="one hardware thread of each core"),
        ]
    return tuple(unplaced)  # fmt: skip
