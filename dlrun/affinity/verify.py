"""Comparison of the CPU masks of all threads and the memory policy of ranks with the placement."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from dlrun.affinity.bind import end_all, is_binding, start_all
from dlrun.affinity.settings import BindingContext
from dlrun.errors import OperationFailed
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import Placement, RankPlacement
from dlrun.node.checks import placement_probe
from dlrun.plan.affinity.observed import UNKNOWN, wrong_cpus, wrong_memory
from dlrun.system.paths import runnable_meanwhile

TIMEOUT = 30.0
"""Time limit of a probe in seconds."""

SAMPLES = 20
"""Number of samples of a user's command, over `WATCH` seconds."""

WATCH = 5.0
"""Seconds for which a user's command runs."""

ENDED = "it ended before its placement could be observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The kernel's report about one rank.

    threads: CPU mask of each thread, the main thread first; team: the threads are an OpenMP team with places set; policy:
    memory policy, `unknown` if the kernel does not report it.
    """

    rank: int
    threads: tuple[tuple[int, ...], ...]
    policy: str
    nodes: tuple[int, ...] = ()
    team: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rank as observed, and its differences from the placement; none if it is correct."""

    observed: Observed
    differences: tuple[str, ...]


def compare(rank: RankPlacement, seen: Observed) -> Verdict:
    """Compare an observation with the placement of a rank."""
    differences: list[str] = []
    if not seen.threads:
        differences.append(ENDED)
    if what := wrong_cpus(rank.mask, seen.threads, whole=not seen.team):
        differences.append(what)
    if seen.team:
        differences += _compare_team(rank, seen)
    if what := wrong_memory(rank.memory, seen.policy, seen.nodes):
        differences.append(what)
    return Verdict(observed=seen, differences=tuple(differences))


def _compare_team(rank: RankPlacement, seen: Observed) -> list[str]:
    places = rank.mask if rank.threads > len(rank.cores) else rank.cores
    wanted = sorted((cpu,) for cpu in places)[: rank.threads]
    if len(seen.threads) != rank.threads:
        return [f"{len(seen.threads)} threads instead of {rank.threads}"]
    if sorted(seen.threads) != wanted and rank.threads == len(places):
        return [f"threads are on CPUs {'; '.join(map(format_list, seen.threads))}: not one on each place"]
    return []


def verify(placement: Placement, job: BindingContext) -> tuple[Verdict, ...]:
    """Start a probe as each rank, all at the same time, and compare their reports.

    Raises Invalid if a probe cannot be started, OperationFailed if one does not report.
    """
    threads = str(placement.ranks[0].threads)
    verdicts = []
    places_set = job.preset.openmp in ("gomp", "gomp-old") and not job.preset.thread_pools
    with runnable_meanwhile(Path(placement_probe.__file__)) as program:
        # -S: the probe needs no site-packages, whose start-up files could start threads.
        processes = start_all(placement, job, [sys.executable, "-S", str(program), threads], capture=True)
        try:
            for rank, process in zip(placement.ranks, processes, strict=True):
                try:
                    output, _ = process.communicate(timeout=TIMEOUT)
                    report = json.loads(output)
                except (subprocess.TimeoutExpired, ValueError):
                    raise OperationFailed(f"the probe of rank {rank.rank} did not report") from None
                verdicts.append(compare(rank, _observed(rank.rank, report, places_set)))
        finally:
            end_all(processes)
    return tuple(verdicts)


def _observed(rank: int, report: dict[str, object], places_set: bool) -> Observed:
    masks = report["threads"]
    nodes = report["nodes"]
    return Observed(
        rank=rank,
        threads=tuple(parse_list(str(mask)) for mask in masks) if isinstance(masks, list) else (),
        policy=str(report["policy"]),
        nodes=tuple(nodes) if isinstance(nodes, list) else (),
        team=bool(report["team"]) and places_set,
    )


def verify_self(rank: RankPlacement) -> Verdict:
    """Compare this process, started by a launcher, with its rank's placement."""
    policy = placement_probe.memory_policy()
    masks = tuple(parse_list(mask) for mask in placement_probe.thread_masks("self"))
    seen = Observed(rank=rank.rank, threads=masks, policy=policy.name, nodes=tuple(policy.nodes))
    return compare(rank, seen)


def verify_command(placement: Placement, job: BindingContext, command: Sequence[str]) -> tuple[Verdict, ...]:
    """Start the user's command as each rank, sample it and its children for `WATCH` seconds, and end it.

    Threads may also be on the communication and loader cores of their rank. Only the memory policy of the command itself is
    compared, not that of its children.
    """
    processes = start_all(placement, job, command, capture=False)
    masks: list[set[tuple[int, ...]]] = [set() for _ in processes]
    policies = [placement_probe.MemoryPolicy(UNKNOWN, []) for _ in processes]
    try:
        for _ in range(SAMPLES):
            for rank, process in enumerate(processes):
                # Before it executes the command, the binding script has the mask and memory policy of its launcher.
                if is_binding(process.pid):
                    continue
                for pid in _tree(process.pid):
                    masks[rank].update(parse_list(mask) for mask in placement_probe.thread_masks(str(pid)))
                # The last sample counts, because a program may set its policy some time after its start.
                policy = placement_probe.memory_policy_of(str(process.pid))
                policies[rank] = policies[rank] if policy.name == UNKNOWN else policy
            if all(process.poll() is not None for process in processes):
                break
            time.sleep(WATCH / SAMPLES)
    finally:
        end_all(processes)
    return tuple(
        _compare_command(
            place,
            Observed(
                rank=place.rank, threads=tuple(sorted(threads)), policy=policy.name, nodes=tuple(policy.nodes)
            ),
        )
        for place, threads, policy in zip(placement.ranks, masks, policies, strict=True)
    )


def _compare_command(rank: RankPlacement, seen: Observed) -> Verdict:
    siblings = (pu for core in rank.comm_siblings for pu in core)
    own = {*rank.mask, *rank.comm, *rank.loader, *siblings}
    differences = [] if seen.threads else [ENDED]
    differences += filter(
        None, (wrong_cpus(own, seen.threads, whole=False), wrong_memory(rank.memory, seen.policy, seen.nodes))
    )
    return Verdict(observed=seen, differences=tuple(differences))


def _tree(pid: int) -> list[int]:
    """A process and its descendants, itself first; empty once it has ended."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []
