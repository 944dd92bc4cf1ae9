"""What Grid Engine reports about jobs in the queue beside their states: why they wait, who holds them, hosts that are silent.

`qstat` lists no reasons. `LOOK` asks for those of the jobs that wait, with the scheduler's remarks (`qstat -j`), and for the
queue instances in the state `u`, of which the host, or its sge_execd, does not answer (qstat(1)).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dlrun.model.hostlist import fold
from dlrun.model.job import HELD_BY_CENTRE, JobStatus, State, silent
from dlrun.model.text import digits

LOOK = r"""
waiting=$1 held=$2 running=$3
[ -z "$waiting" ] || qstat -j "$waiting" 2>/dev/null | sed 's/^/remark /'
[ -z "$held" ] || for kind in ho hs; do qstat -s "$kind" 2>/dev/null | awk '{print "held", $1}'; done
[ -z "$running" ] || SGE_LONG_QNAMES=-1 qstat -f -qs u 2>/dev/null | sed 's/^/silent /'
true
"""
"""A bash program with the ids of jobs that wait, that are held and that run as arguments, each list joined by commas.

Without SGE_LONG_QNAMES qstat cuts the names of queue instances after 30 characters (qstat(1)).
"""
INSTANCES = ("env", "SGE_LONG_QNAMES=-1", "qstat", "-f")
"""Arguments that list all queue instances with their states."""
_ON_NODES = (State.RUNNING, State.ENDING)
_MOST = 50
"""Jobs of which the remarks are asked: each costs the master some work."""


def question(jobs: Sequence[JobStatus]) -> Sequence[str]:
    """Arguments that ask about jobs in the queue; empty where there is nothing to ask."""
    lists = [
        list(dict.fromkeys(job.job_id for job in jobs if job.state in states and job.reason is None))
        for states in ((State.PENDING,), (State.HELD,), _ON_NODES)
    ]
    return ("bash", "-c", LOOK, "qstat", *(",".join(ids[:_MOST]) for ids in lists)) if any(lists) else ()


def answered(jobs: Sequence[JobStatus], stdout: str) -> list[JobStatus]:
    """The jobs with what the output of `LOOK` has about them."""
    lines = stdout.splitlines()
    remarks = dict(_remarks([line.removeprefix("remark ") for line in lines if line.startswith("remark ")]))
    held = {line.split()[1] for line in lines if line.startswith("held ") and len(line.split()) > 1}
    lost = _silent([line.removeprefix("silent ") for line in lines if line.startswith("silent ")])
    explained = []
    for job in jobs:
        reason = job.reason
        if reason is None and job.state is State.PENDING:
            reason = remarks.get(job.job_id)
        elif reason is None and job.state is State.HELD and job.job_id in held:
            reason = HELD_BY_CENTRE
        elif reason is None and job.state in _ON_NODES and (hosts := lost.get(job.job_id)):
            reason = silent(fold(hosts), "the node, its network or its sge_execd is down")
        explained.append(job if reason == job.reason else replace(job, reason=reason))
    return explained


def _remarks(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(job, reason) of each job in the output of `qstat -j`."""
    job, block = "", list[str]()
    for line in (*lines, "job_number: "):
        if line.startswith("job_number:"):
            if digits(job) and (reason := remarks("\n".join(block))) is not None:
                yield job, reason
            job, block = line.partition(":")[2].strip(), []
        block.append(line)


def remarks(text: str) -> str | None:
    """The scheduler's remarks about one job in the output of `qstat -j`, in words; None without any."""
    match = re.search(r"^scheduling info:\s+(.*(?:\n\s{8,}\S.*)*)", text, re.MULTILINE)
    if match is None or "(Collecting" in match[1]:
        return None
    queues = re.search(r"^hard_queue_list:\s+(\S+)", text, re.MULTILINE)
    return in_words(match[1].splitlines(), queues[1].split(",") if queues else ())


_DROPPED = re.compile(r'queue instance "([^@"]+)@([^"]+)" dropped because it is (.+)')
_LIMIT = re.compile(r'cannot run because it exceeds limit "([^"]*)" in rule "([^"]+)"')
_SLOTS = re.compile(r'cannot run in PE "([^"]+)" because it only offers (\d+) slots')
_ELSEWHERE = re.compile(
    r"not contained in its hard queue list|offers only [hq]f:hostname=|Job is in hold state|All queues dropped because of"
)
"""Remarks about queues and hosts that the job does not want, and that sum up others."""


def in_words(lines: Sequence[str], queues: Sequence[str] = ()) -> str | None:
    """Remarks of the scheduler as one reason, without those about other queues than the job's (`queues`; empty: any)."""
    own: list[str] = []
    dropped: dict[str, list[str]] = {}
    for line in map(str.strip, lines):
        if (match := _DROPPED.fullmatch(line)) is not None:
            if not queues or match[1] in {queue.partition("@")[0] for queue in queues}:
                dropped.setdefault(match[3], []).append(f"{match[1]}@{match[2]}")
        elif (match := _LIMIT.fullmatch(line)) is not None:
            who = match[1].strip("/")
            own.append(f"it exceeds the resource quota `{match[2]}`" + (f" of `{who}`" if who else ""))
        elif (match := _SLOTS.fullmatch(line)) is not None:
            own.append(f"the parallel environment `{match[1]}` only offers {match[2]} slots for it")
        elif line and not _ELSEWHERE.search(line):
            own.append(line.removeprefix("it "))
    if dropped:  # no slots are left, which follows from the queue instances that were left out
        own = [text for text in own if " only offers 0 slots " not in text]
    own += [f"{_instances(names)} {why}" for why, names in dropped.items()]
    return "; ".join(list(dict.fromkeys(own))[:4]) or None


def _instances(names: Sequence[str]) -> str:
    """`queue work on n[1-2] is`, for the queue instances that were left out for one reason."""
    hosts: dict[str, list[str]] = {}
    for name in names:
        queue, _, host = name.partition("@")
        hosts.setdefault(queue, []).append(host)
    shown = [f"{queue} on {fold(dict.fromkeys(places))}" for queue, places in hosts.items()]
    return f"queue {shown[0]} is" if len(shown) == 1 else f"queues {', '.join(shown)} are"


class Instance(NamedTuple):
    """A queue on a host; state: letters as in qstat(1), such as `d` for disabled and `u` for a host that does not answer."""

    queue: str
    host: str
    state: str


def instance(line: str) -> Instance | None:
    """The queue instance in a row of `qstat -f`: name, type, slots, load, architecture and perhaps its state; None for others."""
    words = line.split()
    if not line[:1].strip() or len(words) < 5 or "@" not in words[0]:
        return None
    queue, _, host = words[0].partition("@")
    return Instance(queue=queue, host=host, state="".join(words[5:6]))


def _silent(lines: Sequence[str]) -> dict[str, list[str]]:
    """Job -> its hosts that do not answer, from `qstat -f -qs u`: jobs stand below each queue instance."""
    hosts_by_job: dict[str, list[str]] = {}
    host = ""
    for line in lines:
        words = line.split()
        if (row := instance(line)) is not None:
            host = row.host if "u" in row.state else ""
        elif host and words and digits(words[0]):
            hosts = hosts_by_job.setdefault(words[0], [])
            if host not in hosts:
                hosts.append(host)
        elif line[:1].strip():  # a rule, the heading of the jobs that wait, a row that is cut
            host = ""
    return hosts_by_job
