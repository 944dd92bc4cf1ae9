"""Grid Engine (Son of Grid Engine, Univa's and Altair's): qsub, qstat, qacct, qdel, qhold and qrls; run with 8.1.9."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from dlrun.model.job import BY_SIGNAL, UNNAMED, JobStatus, ReportedState, State
from dlrun.model.text import Shell, digits
from dlrun.resources import beside
from dlrun.schedulers.dates import from_ctime, seconds
from dlrun.schedulers.gridengine import accounting, waiting
from dlrun.schedulers.gridengine.directives import PREFIX, array, directives
from dlrun.schedulers.gridengine.options import OPTIONS
from dlrun.schedulers.gridengine.waiting import answered as parse_remarks, question as remarks
from dlrun.schedulers.protocol import Allocation, Probe
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.schedulers.refusals import every_line_matches, printed_id
from dlrun.schedulers.taken import Taken

__all__ = [
    "OPTIONS",
    "PREFIX",
    "accounting",
    "array",
    "directives",
    "parse_history",
    "parse_queue",
    "parse_remarks",
    "remarks",
]

NAME = "gridengine"
CLIENT = "qsub"
JOB_ID = Shell("$JOB_ID")
ID = "[0-9]{1,12}"
# Grid Engine numbers tasks from 1; dlrun numbers points from 0.
ARRAY_INDEX = Shell("$((SGE_TASK_ID - 1))")
LIBRARY: tuple[str, ...] = (beside(__file__, "gridengine"),)
RESTARTS = Shell("$(dlrun_ge_restarts)")
HOSTS = "dlrun_ge_hosts"
REQUEUE = "dlrun_ge_requeue"
# $TASK_ID in the path of the log counts from 1, so WRITES_IN_PLACE stays false.
# sge_execd writes the paths of a job into a file of lines, which the shepherd reads (exec_job.c).
PATTERNS = r"\n"
FINDER = beside(__file__, "find_gridengine")
LAUNCHER = "qrsh"
ACCOUNT_OPTION = "-P"
HISTORY_DELAY = 20  # accounting_flush_time is 15 s by default, sge_conf(5)
QUESTIONS: Mapping[str, str] = {
    "parallel_environment": "Parallel environment with a fixed number of slots per node, such as mpi-{slots} (qconf -spl)",
    "complexes.gpu": "Complex that counts GPUs, such as gpu (qconf -sc)",
    "complexes.memory": "Complex that counts memory, such as h_vmem",
    "complexes.exclusive": "Complex for whole nodes, such as exclusive",
}
ALLOCATION = Allocation(
    start="qrsh", job_id="JOB_ID", hosts="PE_HOSTFILE", size="-pe PE {total}", then="bash -i"
)

REFUSALS = {
    r"unknown queue": "name a queue under resources.partition; `qconf -sql` lists them",
    r"parallel environment .* does not exist": (
        "correct scheduler.parallel_environment in the site profile; `qconf -spl` lists them"
    ),
    r"cannot run in PE|only offers|no suitable queues": (
        "no queue can ever run this job: request less, or another queue; `qsub -w v job.sh` shows the reasons"
    ),
    r"unknown resource": "the site profile or the spec has a complex that does not exist; `qconf -sc` lists them",
    r"project .* does not exist|no access to project": "name a project that you may use under resources.account",
    r"submit host|denied: host": "submit on a login node",
    r"unable to contact qmaster|can't get connection|commlib error": "Grid Engine does not answer: try again in a minute",
    r"unable to send message|got no response": "Grid Engine is too busy: try again in a minute",
    r"environment variable SGE_ROOT|cell directory": "source the cell's settings.sh first: SGE_ROOT is not set here",
    r"would exceed per-user|job limit": "you have reached the cell's limit of jobs: wait until some end",
}
"""Regular expressions for what the clients print, with advice."""

_CHECK = 'copy=$(mktemp) && cat -- "$1" >"$copy" && qsub -w v "$copy"; code=$?; rm -f "$copy"; exit "$code"'
"""`qsub -w v` accepts only a regular file, so a script on standard input is copied to one."""

_HISTORY = r"""
mine=$(mktemp) && trap 'rm -f "$mine"' EXIT
from=()
if awk -F: -v ids=" $* " 'index(ids, " " $6 " ") {known = 1; if ($42 !~ /^[0-9]+[.]/) print} END {exit !known}' \
  "$SGE_ROOT/${SGE_CELL:-default}/common/accounting" >"$mine" 2>/dev/null; then from=(-f "$mine"); fi
for id; do qacct "${from[@]}" -j "$id"; done
true
"""
"""A bash program that runs qacct on the accounting lines of job scripts only.

accounting(5) has one line per process that qrsh started, followed by that of the script, and qacct does not distinguish them:
as long as the script's line is missing, a job would get the exit status of one of its ranks. Field 6 is the job id; field 42
(`pe_taskid`) is set for processes of qrsh. qacct would also read the whole file once per job.
"""


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """Arguments that submit a script, or with `check` verify that some queue could ever run it."""
    return ("bash", "-c", _CHECK, "qsub", script) if check else ("qsub", "-terse", script)


def submitted(stdout: str) -> str:
    """The job id in `31`, `31.1-3:1` or `Your job 31 ("name") has been submitted`, other lines are ignored."""
    line = r"(?:Your job(?:-array)? )?(\d{1,12})(?:\.\d+-\d+:\d+)?(?: \(.*)?"
    return printed_id("qsub", line, stdout, "qstat")


def identify() -> Sequence[str]:
    """Arguments that print the scheduler's host, which identifies a cell."""
    return ("qconf", "-sss")


def identified(stdout: str) -> str | None:
    """The host name of the scheduler; None if nothing was printed."""
    return stdout.strip() or None


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One qstat for all jobs of the user, one row per array task; `qstat -j` does not print states."""
    return ("qstat", "-xml", "-g", "d", "-r")


def taken(job_id: str) -> Sequence[str]:
    """qstat, which shows a job after the submission verifiers (JSV)."""
    return ("qstat", "-j", job_id)


def parse_taken(stdout: str) -> Taken | None:
    """Queue and walltime (`h_rt`); a parallel environment's nodes are known at the start only."""
    queue = re.search(r"^hard_queue_list:\s+([^\s,]+)", stdout, re.MULTILINE)
    limit = re.search(r"^hard[ _]resource_list:.*\bh_rt=(\d{1,9})\b", stdout, re.MULTILINE)
    return Taken(
        partition=queue[1] if queue else None, walltime=int(limit[1]) if limit and digits(limit[1]) else None
    )


def queue_rules() -> Sequence[str]:
    """qstat of all queue instances, with their states."""
    return waiting.INSTANCES


def parse_queue_rules(stdout: str) -> list[QueueRules]:
    """Each queue, and whether all of its instances are disabled, suspended, in an error or silent (d, s, E, u: qstat(1))."""
    states: dict[str, list[str]] = {}
    for row in filter(None, map(waiting.instance, stdout.splitlines())):
        states.setdefault(row.queue, []).append(row.state)
    return [
        QueueRules(name=name, down=all(set(state) & set("dsEu") for state in instances))
        for name, instances in states.items()
    ]


def pending(job_id: str) -> Sequence[str]:
    """qalter, which verifies a job in the queue against an empty cluster, and qstat with the scheduler's own remarks."""
    return ("bash", "-c", 'qalter -w v "$1"; qstat -j "$1"; true', "qalter", job_id)


def parse_pending(text: str) -> str | None:
    """The reasons of a verification that found no queue: `no suitable queues: ... only offers 3 slots`, else qstat's remarks."""
    if "no suitable queues" in text:
        lines = re.findall(r"^(?:Job \d+|job|it) (cannot run .*?)\.?$", text, re.MULTILINE)
        reasons = waiting.in_words(lines)
        return "no suitable queues" + (f": {reasons}" if reasons else "")
    return waiting.remarks(text)


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """One qacct per job, over the accounting lines of job scripts only."""
    return ("bash", "-c", _HISTORY, "qacct", *job_ids)


def probe(asked: Probe) -> Sequence[str]:
    """qsub of a job with one slot."""
    named = ["-l", f"hostname={asked.host}"] if asked.host else []
    queue = ["-q", asked.queue] if asked.queue else []
    return ["qsub", "-terse", "-N", "dlrun-probe", "-S", "/bin/bash", "-j", "y", "-o", asked.log, *named, *queue,
            "-l", f"h_rt={asked.minutes * 60}"]  # fmt: skip


def unknown_jobs(stderr: str, code: int) -> bool:
    """True if a query failed only because the jobs are unknown or there is no accounting."""
    return every_line_matches(
        r"job id \S+ not found|do not exist|^\s*\d+$|no jobs running since startup", stderr
    )


def task_id(job_id: str, task: int) -> str:
    """`123.5` for task 4: Grid Engine numbers tasks from 1."""
    return f"{job_id}.{task + 1}"


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that cancel jobs."""
    return ("qdel", *job_ids)


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that hold jobs."""
    return ("qhold", *job_ids)


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that release held jobs."""
    return ("qrls", *job_ids)


# Parsers of `qstat -xml` and `qacct` (seen with Debian's 8.1.9).
_LIMIT, _SIGNALLED, _RESCHEDULED = 37, 100, 25
"""Values of `failed` in accounting(5): limit enforced; ended by a signal; rescheduled."""
_NODE_RESTARTED = 19
"""`before writing exit_status`: "probably program or machine crash" (sge_status(5)); seen after a node's reboot."""
_UNMEASURED = 3
"""Seconds between start and end with which a run time of 0 is none that was measured: `qdel -f` writes such an end."""
_START_FAILURES = range(1, 25)
"""Values of `failed` before and around the start of a job."""


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs and tasks in the output of `qstat -xml -g d -r`; empty if it is not XML."""
    if "<!DOCTYPE" in stdout:  # entities could expand to gigabytes
        return ()
    try:
        root = ET.fromstring(stdout.encode())  # noqa: S314 - no entities: nothing expands
    except (ET.ParseError, ValueError, LookupError):
        return ()
    return [status for row in root.iter("job_list") if (status := _waiting_or_running(row))]


def _waiting_or_running(row: ET.Element) -> JobStatus | None:
    number, word = row.findtext("JB_job_number", ""), row.findtext("state", "")
    if not digits(number):
        return None
    now = _state(word, [element.text or "" for element in row.iter("predecessor_jobs")])
    queue = row.findtext("queue_name", "") or ""
    return JobStatus(
        job_id=number,
        task=_task(row.findtext("tasks", "") or ""),
        state=now.state,
        reason=now.reason,
        nodes=queue.partition("@")[2] or None,
        started=row.findtext("JAT_start_time") or None,
    )


def _task(text: str) -> int | None:
    """The index of a task from 0; Grid Engine's numbers begin at 1."""
    return int(text) - 1 if digits(text) and int(text) else None


def _state(word: str, waits_for: Sequence[str]) -> ReportedState:
    """The letters of qstat(1): d deletion, E error, h hold, r running, R restarted, s/S/T suspended, t transfer, w waiting.

    q is for queued, which a job that waits for its next run has without w: `Rq` (sge_status(5)).
    """
    # The order matters, because letters are combined (`dr`, `hqw`, `Eqw`): error and deletion take precedence.
    if "E" in word:
        return ReportedState(
            State.HELD, "an error prevented its start: `qstat -j ID` shows it, `qmod -cj ID` clears it"
        )
    if "d" in word:
        return ReportedState(State.ENDING)
    if "q" in word or "w" in word:
        if "h" in word:
            return (
                ReportedState(State.PENDING, f"waits for {', '.join(waits_for)}")
                if waits_for
                else ReportedState(State.HELD)
            )
        return ReportedState(State.PENDING)
    if set(word) & set("rt"):
        return ReportedState(State.RUNNING)
    if set(word) & set("sST"):
        return ReportedState(State.RUNNING, "suspended")
    return ReportedState(State.UNKNOWN, f"Grid Engine reports {word}")


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """The jobs and tasks in the output of `qacct -j`.

    A job has one block per run. Where the accounting file is not readable there are also blocks of the processes that qrsh
    started, before the script's; the last block of a job counts.
    """
    last: dict[tuple[str, int | None], Mapping[str, str]] = {}
    for block in _blocks(stdout):
        number, failed = block.get("jobnumber", ""), _number(block.get("failed", ""))
        # A rescheduled job has a block for each run, in order; the last run decides.
        if digits(number) and failed != _RESCHEDULED:
            last[number, _task(block.get("taskid", ""))] = block
    return [_ended(number, task, block) for (number, task), block in last.items()]


def _blocks(stdout: str) -> Iterator[Mapping[str, str]]:
    for text in re.split(r"^=+\s*$", stdout, flags=re.MULTILINE):
        rows = (line.split(None, 1) for line in text.splitlines())
        block = {row[0]: row[1].strip() for row in rows if len(row) == 2}
        if block:
            yield block


def _ended(number: str, task: int | None, block: Mapping[str, str]) -> JobStatus:
    failed, status = _number(block.get("failed", "")), _number(block.get("exit_status", ""))
    end = _end(failed, status, block)
    return JobStatus(
        job_id=number,
        task=task,
        state=end.state,
        reason=end.reason,
        exit_code=status if end.state in (State.COMPLETED, State.FAILED) else None,
        nodes=block.get("hostname"),
        started=from_ctime(block.get("start_time", "")),
        ended=from_ctime(block.get("end_time", "")),
    )


def _end(failed: int | None, status: int | None, block: Mapping[str, str]) -> ReportedState:
    """The final state. `failed` 37 means either a time or a memory limit; `failed` 100 is a deleted job.

    At `s_rt` Grid Engine sends SIGUSR1 to the process group; the shepherd of qrsh's processes dies of it and the job is killed.
    """
    # accounting(5) does not name the exceeded limit, so the time that the job ran is compared with its limits.
    words = block.get("failed", "").partition(":")[2].strip() or None
    category, ran = block.get("category", ""), _number(block.get("ru_wallclock", "").removesuffix("s")) or 0
    soft, hard = (re.search(rf"\b{name}=(\d+)", category) for name in ("s_rt", "h_rt"))
    if failed in (_LIMIT, _SIGNALLED) and soft and ran >= int(soft[1]):
        return ReportedState(State.TIMED_OUT)
    if failed == _LIMIT:
        return ReportedState(State.TIMED_OUT if hard and ran >= int(hard[1]) else State.OUT_OF_MEMORY)
    if failed == _SIGNALLED:
        return ReportedState(State.CANCELLED, BY_SIGNAL)
    if failed == _NODE_RESTARTED:
        return ReportedState(
            State.NODE_FAILED, "its node was restarted, or Grid Engine's shepherd there died"
        )
    if failed in _START_FAILURES:
        return ReportedState(State.FAILED, words)
    if not failed and status == 0 and not ran and _lasted(block) >= _UNMEASURED:
        return ReportedState(State.CANCELLED, UNNAMED)
    return ReportedState(State.COMPLETED if not failed and status == 0 else State.FAILED)


def _lasted(block: Mapping[str, str]) -> int:
    """Seconds from the start to the end of a run by the clock, without whole days; 0 if they are unknown."""
    start, end = (from_ctime(block.get(name, "")) for name in ("start_time", "end_time"))
    if start is None or end is None or end < start:  # clocks of two hosts, or one that was set back
        return 0
    first, last = (seconds(stamp.partition("T")[2]) or 0 for stamp in (start, end))
    return (last - first) % 86400


def _number(text: str) -> int | None:
    word = text.split(maxsplit=1)[0] if text.split() else ""
    return int(word) if digits(word) else None
