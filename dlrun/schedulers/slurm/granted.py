"""What an allocation of Slurm has, from the output of `scontrol show job --details --oneliner`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.model.hostlist import expand
from dlrun.model.text import digits, lazy_pattern, whole_number
from dlrun.schedulers.dates import seconds
from dlrun.schedulers.protocol import Granted
from dlrun.schedulers.queue_rules import Preempted, QueueRules
from dlrun.schedulers.taken import Taken

# Nodes with the same resources: `Nodes=n[1-2] CPU_IDs=0-7 Mem=4000 GRES=gpu:a100:2(IDX:0-1)` (scontrol(1), `-d`).
_NODES = lazy_pattern(r"\sNodes=(\S+) CPU_IDs=(\S*) Mem=\d+ GRES=(\S*)")
_TASKS = lazy_pattern(r"NtasksPerN:B:S:C=(\d+):")
_GPUS = lazy_pattern(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)(?=[(,]|$)")


def parse(stdout: str) -> Granted:
    """The hosts of the allocation; CPUs and GPUs are those of the node that has fewest. Without hosts: empty."""
    groups = _NODES.findall(f" {stdout}")
    cpus = [_count(ids) for _, ids, _ in groups]
    gpus = [sum(map(int, _GPUS.findall(gres))) for *_, gres in groups]
    folded = _value(stdout, "NodeList")
    return Granted(
        hosts=expand(folded) if folded and folded != "(null)" else (),
        cpus=min(cpus, default=None),
        gpus=min(gpus, default=None),
        tasks=int(tasks[1]) or None if (tasks := _TASKS.search(stdout)) else None,
        partition=_value(stdout, "Partition"),
        ends=_value(stdout, "EndTime"),
    )


def taken(stdout: str) -> Taken | None:
    """What a job was taken as, from the output of `scontrol show job --oneliner`; None without a job."""
    line = stdout.partition("\n")[0]
    if _value(line, "JobId") is None:
        return None
    # Of a heterogeneous job there is a line for each component.
    lines = stdout.splitlines() if _value(line, "HetJobId") is not None else [line]
    counts = [re.match(r"[0-9]{1,9}", _value(line, "NumNodes") or "") for line in lines if line.strip()]
    return Taken(
        partition=_known(_value(line, "Partition")),
        walltime=seconds(_value(line, "TimeLimit") or ""),
        nodes=sum(int(count[0]) for count in counts if count) if all(counts) else None,
        account=_known(_value(line, "Account")),
        qos=_known(_value(line, "QOS")),
    )


_PREEMPTED: Mapping[str, Preempted] = {"CANCEL": "cancelled", "REQUEUE": "requeued", "SUSPEND": "suspended"}
"""PreemptMode of slurm.conf(5); `SUSPEND,GANG` counts as its first word, OFF as no preemption."""


def partitions(stdout: str) -> list[QueueRules]:
    """The partitions in the output of `scontrol show partition --oneliner`."""
    return [
        QueueRules(
            name=name,
            most=seconds(_value(line, "MaxTime") or ""),
            fewest=whole_number(_value(line, "MinNodes")),
            # MaxNodes may be UNLIMITED.
            largest=min(
                filter(None, (whole_number(_value(line, name)) for name in ("MaxNodes", "TotalNodes"))),
                default=None,
            ),
            preempted=_PREEMPTED.get((_value(line, "PreemptMode") or "").partition(",")[0]),
            default=_value(line, "Default") == "YES",
            down=_value(line, "State") == "DOWN",
        )
        for line in stdout.splitlines()
        if (name := _value(line, "PartitionName")) is not None
    ]


def _known(value: str | None) -> str | None:
    return None if value in {None, "(null)", "N/A"} else value


def _value(stdout: str, name: str) -> str | None:
    match = re.search(rf"(?:^|\s){name}=(\S+)", stdout)
    return match[1] if match else None


def _count(ids: str) -> int:
    """The number of CPUs in a list such as `0-3,8`."""
    total = 0
    for part in ids.split(","):
        first, _, last = part.partition("-")
        if digits(first) and (not last or digits(last)):
            total += int(last or first) - int(first) + 1
    return total
