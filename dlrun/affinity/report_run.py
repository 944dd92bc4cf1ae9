"""Measure a node without binding, with the scheduler's default binding and with dlrun's, for a report to others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dlrun.affinity import measure, report_load
from dlrun.affinity.bind import end_all, environment_of, start_all, start_process
from dlrun.affinity.settings import BindingContext
from dlrun.errors import OperationFailed
from dlrun.frameworks.common.threads import COUNTS
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.model.units import many
from dlrun.plan.affinity.binding_report import BindingReport, Method
from dlrun.render.placement_table import headline
from dlrun.system.paths import runnable

SECONDS = 0.7
"""Seconds per load: with 3 loads, 3 bindings and 3 rounds the report takes less than a minute."""

LOADS = (("bandwidth", "GB/s"), ("gemm", "GFLOP/s"), ("all-reduce", "MB/s"))
SUMMED = ("bandwidth", "gemm")
"""Loads whose rates are summed over the ranks; an all-reduce has the rate of the slowest rank."""

FEW = 8
"""Cores of a single NUMA node below which the report notes that only sharing of cores can be seen."""


def report(
    topology: Topology, placement: Placement, job: BindingContext, *, notice: Callable[[str], None]
) -> BindingReport:
    """Run all bindings `measure.ROUNDS` times. Raises OperationFailed if a run does not report."""
    ways = {"no binding": _unbound, "srun's default": _srun, "dlrun": _bound}
    notes = []
    # Outside of a job srun would queue for an allocation of its own.
    if not os.environ.get("SLURM_JOB_ID") or shutil.which("srun") is None:
        del ways["srun's default"]
        notes.append(
            "the scheduler's default binding was not measured: run this in a Slurm job to measure it"
        )
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    busy = 0.0
    for number in range(measure.ROUNDS):
        busy = max(busy, measure.busy_fraction())
        for name, start in ways.items():
            notice(f"round {number + 1} of {measure.ROUNDS}: {name}")
            runs[name].append(_run(start, placement, job))
    return BindingReport(
        node=headline(placement),
        ranks=len(placement.ranks),
        loads=tuple(load for load in LOADS if any(load[0] in rates for rates in runs["dlrun"])),
        methods=tuple(
            Method(name=name, runs={k: tuple(rates[k] for rates in results if k in rates) for k, _ in LOADS})
            for name, results in runs.items()
        ),
        doubts=_doubts(topology, placement, busy),
        notes=tuple(notes),
    )


def _doubts(topology: Topology, placement: Placement, busy: float) -> tuple[str, ...]:
    doubts = []
    if busy > measure.BUSY:
        doubts.append(f"too busy to tell: other work used {100 * busy:.0f} % of the CPUs")
    cores = placement.node.usable_cores
    if len(topology.cpu_nodes()) == 1 and cores < FEW:
        doubts.append(
            f"too small to tell: {many(cores, 'core')} on one NUMA node show only that threads do not share cores"
        )
    if len(placement.ranks) == 1:
        doubts.append("only one rank: there is no all-reduce and nothing to separate; try `--ranks-per-node`")
    return tuple(doubts)


Start = Callable[[Placement, BindingContext, Sequence[str]], "list[subprocess.Popen[str]]"]


def _run(start: Start, placement: Placement, job: BindingContext) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="dlrun-") as ring:
        program = [
            measure.python(),
            str(runnable(Path(report_load.__file__), Path(ring))),
            str(SECONDS),
            ring,
        ]
        processes = start(placement, job, program)
        try:
            lines = [process.communicate(timeout=measure.LONGEST)[0].splitlines() for process in processes]
            results = [json.loads(line) for each in lines for line in each]
        except (subprocess.TimeoutExpired, ValueError):
            results = []
        finally:
            end_all(processes)
    if len(results) != len(placement.ranks):
        raise OperationFailed("a rank of the measurement did not report; its message is above")
    return {
        load: sum(rates[load] for rates in results)
        if load in SUMMED
        else min(rates[load] for rates in results)
        for load in results[0]
    }


def _bound(placement: Placement, job: BindingContext, program: Sequence[str]) -> list[subprocess.Popen[str]]:
    return start_all(placement, job, program, capture=True)


def _unbound(
    placement: Placement, _job: BindingContext, program: Sequence[str]
) -> list[subprocess.Popen[str]]:
    """Without binding, like a loop in a shell: each rank may use all CPUs, and its libraries start as many threads."""
    clean = {name: value for name, value in os.environ.items() if name not in COUNTS}
    return [
        start_process(program, {**clean, **environment_of(placement, rank, 0)}, capture=True)
        for rank in placement.ranks
    ]


def _srun(placement: Placement, _job: BindingContext, program: Sequence[str]) -> list[subprocess.Popen[str]]:
    """One job step on this node with Slurm's default binding."""
    clean = {name: value for name, value in os.environ.items() if name not in COUNTS}
    count = str(len(placement.ranks))
    here = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    words = ["srun", "--mpi=none", "--overlap", "-N1", f"-n{count}", f"--nodelist={here}", *program]
    return [start_process(words, clean, capture=True)]
