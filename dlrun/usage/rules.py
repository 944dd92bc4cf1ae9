"""The rules of `dlrun usage` as data: quantity, threshold, and source of the threshold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: name, meaning, threshold with its unit as text, and source of the threshold."""

    name: str
    means: str
    threshold: float
    unit: str
    source: str


_OWN = "chosen here: far above what a good run shows (docs/guide/usage.md)"

RULES = {
    rule.name: rule
    for rule in (
        Rule(
            name="memory-requested", threshold=0.5, unit="of the memory requested was used at most",
            means="the job requested more memory than it used: a smaller request starts sooner and leaves nodes to others",
            source="seff and jobstats report memory efficiency; jobstats warns of low use (Princeton)",
        ),
        Rule(
            name="memory-limit", threshold=0.95, unit="of the memory that the job may use was in use",
            means="the job came close to its memory limit: a little more, and the kernel ends a process",
            source=_OWN,
        ),
        Rule(
            name="memory-grows", threshold=0.25, unit="of a rank's memory was added in the second half of the run",
            means="the memory of a rank grows all the time, as with a list that keeps every loss tensor",
            source="PyTorch FAQ, `My model reports cuda runtime error: out of memory` ; " + _OWN,
        ),
        Rule(
            name="walltime", threshold=0.5, unit="of the walltime was used, and half an hour or more was left",
            means="the job requested more time than it used: backfill starts shorter jobs sooner",
            source="Slurm, sched/backfill: jobs start early where their time limit fits",
        ),
        Rule(
            name="idle", threshold=0.25, unit="of the time all ranks did nothing",
            means="the ranks neither compute nor load for a part of the run: they wait for something outside, or sleep",
            source=_OWN,
        ),
        Rule(
            name="slow-rank", threshold=1.18, unit="times the CPU time of its peers, which wait for it",
            means="in synchronous training each step ends with the slowest rank",
            source=_OWN,
        ),
        Rule(
            name="loader-bound", threshold=0.5, unit="of the time the program waits while its loading processes have work",
            means="the training waits for data: more loading processes, or cores for them, make it faster",
            source="PyTorch performance tuning guide, asynchronous data loading",
        ),
        Rule(
            name="network-bound", threshold=0.7, unit="of the most that the interface carried is carried half of the time",
            means="the ranks wait for one another's data: the network carries as much as it can",
            source=_OWN,
        ),
        Rule(
            name="fabric-unused", threshold=1e8, unit="bytes a second on Ethernet while the fabric's ports carry next to nothing",
            means="the communication library does not use the fabric that the node has",
            source="NCCL documentation, troubleshooting, networking issues",
        ),
        Rule(
            name="disk-bound", threshold=0.3, unit="of the samples without work had a process that waited for storage (state D)",
            means="the ranks wait for a disk or a file system",
            source="proc(5), state D; " + _OWN,
        ),
        Rule(
            name="crowded", threshold=0.15, unit="of the time a program had work and no core, with all its cores in use",
            means="more threads have work than there are cores for them",
            source="kernel documentation, sched-stats, run delay; " + _OWN,
        ),
        Rule(
            name="disturbed", threshold=0.15, unit="of the time a program had work and no core, which others used",
            means="other processes compute on the cores of the job",
            source="kernel documentation, sched-stats, run delay; " + _OWN,
        ),
        Rule(
            name="migrates", threshold=10, unit="moves of a program's main thread a second, unbound",
            means="the kernel moves the ranks from core to core, away from their caches and memory",
            source=_OWN,
        ),
        Rule(
            name="cores-requested", threshold=0.25, unit="of the cores requested were used",
            means="the job requested more cores than it used",
            source="seff reports CPU efficiency (Slurm, contribs/seff)",
        ),
        Rule(
            name="gpu-idle", threshold=50, unit="percent of the time with work on the GPUs, on average",
            means="the GPUs wait: for data, for the processor, for the network, or for small batches",
            source="NVML, nvmlUtilization_t; jobstats warns of low GPU use (Princeton, jobstats documentation)",
        ),
        Rule(
            name="gpu-slowed", threshold=0.1, unit="of the samples with a clock that heat or power had lowered",
            means="a GPU runs slower than it could",
            source="NVML, clocks throttle reasons",
        ),
        Rule(
            name="gpu-errors", threshold=1, unit="uncorrected memory error of a GPU during the run",
            means="the memory of a GPU returned wrong data that its error correction could not repair",
            source="NVML, nvmlDeviceGetTotalEccErrors: uncorrected errors since the driver was loaded",
        ),
    )
}  # fmt: skip
