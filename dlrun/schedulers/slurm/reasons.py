"""Slurm's pending reasons in plain English: squeue(1) and the list of job reason codes of Slurm 25.05."""

from __future__ import annotations

import re
from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "Priority": "jobs with a higher priority come first",
    "Resources": "waits for free nodes",
    "Dependency": "waits for other jobs",
    "BeginTime": "its earliest start time has not been reached",
    "JobHeldUser": "held by you: `dlrun hold --release` releases it",
    "JobHeldAdmin": "held by an administrator: ask the centre",
    "JobHoldMaxRequeue": "held after too many requeues: `dlrun hold --release` releases it",
    "Licenses": "waits for a software licence",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition starts no jobs now",
    "PartitionNodeLimit": "more nodes (or fewer) than the partition allows: change `resources.nodes`",
    "PartitionTimeLimit": "the walltime is over the partition's limit: lower `resources.walltime`",
    "PartitionConfig": "the partition does not allow this request (its nodes or its walltime)",
    "NodeDown": "a node that the job needs is down",
    "ReqNodeNotAvail": "a node that the job needs is down, drained or reserved (often for maintenance)",
    "Reservation": "waits for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted: change `resources.reservation`",
    "InvalidAccount": "the account is not valid here: change `resources.account`",
    "AccountNotAllowed": "the partition does not allow this account",
    "InvalidQOS": "the QOS is not valid here: change `resources.qos`",
    "QOSNotAllowed": "the partition or account does not allow this QOS",
    "QOSJobLimit": "the QOS has reached its limit of jobs",
    "QOSResourceLimit": "the QOS has reached its limit of resources",
    "QOSTimeLimit": "the QOS has used up its time",
    "QOSUsageThreshold": "the QOS has used more than its threshold",
    "BadConstraints": "no node has what the job requests: change `resources`",
    "JobArrayTaskLimit": "`sweep.at_once` points of the sweep are already running",
    "MaxMemPerLimit": "more memory than the limit per node or core: lower `resources.memory_per_node`",
    "JobLaunchFailure": "the job could not be started: its node failed, or its directory is missing there",
    "NonZeroExitCode": "the program failed",
    "RaisedSignal": "the program was ended by a signal",
    "OutOfMemory": "the job ran out of memory",
    "TimeLimit": "the walltime was exceeded",
    "SystemFailure": "the scheduler or the file system failed",
    "Prolog": "the nodes are being prepared",
    "Cleaning": "its previous run is still being cleaned up",
    "WaitingForScheduling": "the scheduler has not considered it yet",
    "FrontEndDown": "the front end is down",
    "BurstBufferResources": "waits for space in the burst buffer",
    "BurstBufferStageIn": "data is being copied to the burst buffer",
    "AssociationJobLimit": "your account has reached its limit of jobs",
    "AssociationResourceLimit": "your account has reached its limit of resources",
    "AssociationTimeLimit": "your account has used up its time",
    "DeadLine": "it cannot end before its deadline",
    "FedJobLock": "the clusters of the federation agree on where it runs",
}
"""Reason -> text; families of limits (`AssocGrpCpuLimit`) are handled by `_limit`."""

_FAMILY = re.compile(
    r"(Assoc|QOS)(Grp|Max|Min)(\w+?)(?:PerUser|PerAccount|PerJob|PerNode|PerUA|PU|PJ|PA)*(?:Limit)?"
)
_OF = {"Assoc": "account", "QOS": "QOS"}
_WHAT = {
    "cpu": "cores", "node": "nodes", "mem": "memory", "memory": "memory", "gres": "GPUs", "jobs": "jobs", "job": "jobs",
    "submitjobs": "jobs", "submitjob": "jobs", "wall": "walltime", "wallduration": "walltime", "billing": "billing units",
    "cpuminutes": "core-hours", "cpurunminutes": "core-hours", "gresminutes": "GPU-hours", "billingminutes": "billing units",
    "tres": "resources",
}  # fmt: skip

_UNAVAILABLE = re.compile(r"UnavailableNodes:([^\s,(][^\s()]*)")
_NODES_AWAY = "DOWN, DRAINED or reserved"
"""Of a reason that squeue shows as a sentence (seen with 22.05)."""


def in_words(reason: str, code: str) -> str | None:
    """The text for a reason of Slurm, `code` without what follows it; None for others."""
    if code in WORDS:
        away = _UNAVAILABLE.search(reason)
        return f"{WORDS[code]}: {away[1]}" if away else WORDS[code]
    if _NODES_AWAY in reason:
        return (
            "nodes that it needs are down, drained, or reserved for jobs in partitions of a higher priority"
        )
    family = _FAMILY.fullmatch(code)
    return _limit(*family.groups()) if family else None


def _limit(whose: str, kind: str, what: str) -> str:
    """The text for a limit such as `AssocGrpCPUMinutesLimit`, from its three parts."""
    plain, of = what.lower(), _OF[whose]
    thing = next(
        # Longest first: `cpuminutes` also begins with `cpu`.
        (_WHAT[name] for name in sorted(_WHAT, key=len, reverse=True) if plain.startswith(name)),
        what,
    )
    if kind == "Min":
        return f"fewer {thing} than the {of} requires"
    if plain.endswith("minutes"):
        return f"the {of} has used up its {thing}"
    return (
        f"the {of} uses all {thing} of its limit" if kind == "Grp" else f"more {thing} than the {of} allows"
    )
