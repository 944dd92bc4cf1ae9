"""The back end: bsub, bjobs, bkill, bhist, bstop and bresume of LSF 10.1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlrun.errors import Invalid, OperationFailed
from dlrun.model.job import JobStatus, State
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.site import SchedulerSite
from dlrun.model.text import Shell
from dlrun.schedulers.directive_list import DirectiveList, with_value
from dlrun.schedulers.refusals import every_line_matches
from dlrun_lsf.options import OPTIONS

__all__ = ["OPTIONS"]

_HERE = Path(__file__).parent
NAME = "lsf"
PREFIX = "#BSUB"
CLIENT = "bsub"
BY_HAND = "bsub <"
ID = "[0-9]{1,12}"
JOB_ID = Shell("$LSB_JOBID")
HOSTS = "dlrun_lsf_hosts"
LIBRARY = (str(_HERE / "lsf"),)
REQUEUE = 'brequeue "$LSB_JOBID"'
FINDER = str(_HERE / "find_lsf")
WRITES_IN_PLACE = True
ACCOUNT_OPTION = "-P"
NO_EXCLUDE = (
    "bsub has no list of hosts to exclude, so the job itself does not use such a node if it is granted"
)

REFUSALS = {
    r"No such queue": "name a queue under resources.partition; `bqueues` lists them",
    r"Too many processors requested|too many (tasks|slots)": "request fewer nodes; `bqueues -l` shows the limits of a queue",
    r"RUNLIMIT: Cannot exceed": "shorten resources.walltime; `bqueues -l` shows RUNLIMIT",
    r"User cannot use the queue": "choose a queue that you may use: `bqueues -u $USER`",
    r"mbatchd|Failed in an LSF library call": "LSF does not answer: try again in a minute",
}

_WHEN = {"ok": "done", "any": "ended", "not_ok": "exit"}
_FIELDS = "jobid stat exit_code exit_reason pend_reason exec_host"


def directives(
    request: Request, site: SchedulerSite, output: str, origins: Mapping[str, Origin] | None = None
) -> Sequence[Directive]:
    """The `#BSUB` lines of a request."""
    draft = DirectiveList(PREFIX, request, site, origins or {})
    lacks = {
        "array": ("sweeps in this package", "submit the points one by one with `--set`"),
        "qos": ("QOS", "leave out resources.qos"),
        "constraint": ("features", "write `options: {R: 'select[…]'}`"),
    }
    draft.lacks("LSF", lacks)
    draft.add(f"-J {_quoted(request.name)}", "name of the spec", "name")
    draft.add(f"-o {_quoted(output)}", "standard output and error, in the job directory")
    draft.add("-r" if request.requeue else "-rn", "as `on_failure` has requeues", "requeue")
    slots = request.cpus_per_node or (request.cpus_per_rank or 1) * request.ranks_per_node
    draft.add(f"-n {slots * request.nodes}", f"{slots} slots on each of {request.nodes} nodes", "nodes")
    draft.add(f'-R "span[ptile={slots}]"', "as many slots on each host", "nodes")
    if request.exclusive and not site.exclusive:
        draft.add("-x", "whole nodes for this job", "exclusive")
    if request.gpus_per_node and site.gpus != "none":
        kind = f":gmodel={request.gpu_type}" if request.gpu_type else ""
        draft.add(f'-gpu "num={request.gpus_per_node}/host{kind}"', "GPUs of each node", "gpus_per_node")
    if request.memory_per_node == "all":
        draft.problem("LSF cannot allocate all memory of a node", "set a size", "memory_per_node")
    elif request.memory_per_node is not None:
        size = max(1, request.memory_per_node.mebibytes())
        draft.add(f'-R "rusage[mem={size}MB]"', "memory of each node", "memory_per_node")
    for option, value, because, field in (
        ("-q", request.partition, "the queue", "partition"),
        (site.account.option or "-P", request.account, "the project to charge", "account"),
        ("-U", request.reservation, "the reservation", "reservation"),
        ("-m", " ".join(request.hosts), "only these hosts", "hosts"),
    ):
        if value:
            draft.add(with_value(option, _quoted(value)), because, field)
    if request.walltime is not None:
        minutes = -(-int(request.walltime) // 60)
        draft.add(f"-W {minutes // 60}:{minutes % 60:02}", f"the walltime, {request.walltime}", "walltime")
    if request.after:
        conditions = " && ".join(f"{_WHEN[one.when]}({one.job_id})" for one in request.after)
        draft.add(f'-w "{conditions}"', "dependencies", "after")
    if request.hold:
        draft.add("-H", "submitted on hold", "hold")
    draft.add_raw(site.directives, "set for every job of this site", "scheduler.directives")
    for bare, value in draft.user_options(OPTIONS):
        draft.add(f"-{bare} {_quoted(value)}" if value else f"-{bare}", "from resources.options", "options")
    draft.add_raw(request.directives, "from the spec or site profile", "directives")
    return draft.finish()


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w./:,=@%+-]+", value) else '"' + value.replace('"', r"\"") + '"'


def submit(
    script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
) -> Sequence[str]:
    """bsub reads the directives of a script on its standard input; it has no check."""
    if check:
        raise Invalid("bsub cannot check a job without submitting it")
    return ("bash", "-c", 'exec bsub <"$1"', "bsub", script)


def submitted(stdout: str) -> str:
    """The number in `Job <31> is submitted to queue <normal>.`."""
    found = re.search(r"^Job <(\d+)> is submitted to ", stdout, re.MULTILINE)
    if found is None:
        message = "bsub printed no job id"
        raise OperationFailed(message, help="`bjobs` shows whether the job is there")
    return found[1]


def identify() -> Sequence[str]:
    """lsid prints the cluster's name."""
    return ("lsid",)


def identified(stdout: str) -> str | None:
    """`My cluster name is NAME`."""
    found = re.search(r"^My cluster name is (\S+)", stdout, re.MULTILINE)
    return found[1] if found else None


def queue(job_ids: Sequence[str]) -> Sequence[str]:
    """One bjobs for all jobs (https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bjobs.o.1.html)."""
    return ("bjobs", "-a", "-noheader", "-o", f"{_FIELDS} delimiter='^'", *job_ids)


_STATES = {
    "PEND": State.PENDING, "PSUSP": State.HELD, "WAIT": State.PENDING, "RUN": State.RUNNING, "USUSP": State.RUNNING,
    "SSUSP": State.RUNNING, "DONE": State.COMPLETED, "EXIT": State.FAILED, "ZOMBI": State.NODE_FAILED,
}  # fmt: skip
_REASONS = {
    "TERM_RUNLIMIT": State.TIMED_OUT, "TERM_CPULIMIT": State.TIMED_OUT, "TERM_MEMLIMIT": State.OUT_OF_MEMORY,
    "TERM_OWNER": State.CANCELLED, "TERM_FORCE_OWNER": State.CANCELLED, "TERM_ADMIN": State.CANCELLED_BY_ADMIN,
    "TERM_FORCE_ADMIN": State.CANCELLED_BY_ADMIN, "TERM_PREEMPT": State.PREEMPTED,
}  # fmt: skip
"""https://www.ibm.com/docs/SSWRJV_10.1.0/lsf_admin/termination_reasons_lsf.html"""


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of bjobs, a line each."""
    found = []
    for line in stdout.splitlines():
        if line.count("^") != 5:
            continue
        number, state, code, ended, waits, hosts = (
            "" if field.strip() == "-" else field.strip() for field in line.split("^")
        )
        found.append(
            JobStatus(
                job_id=number,
                state=_ended(ended, _STATES.get(state, State.UNKNOWN)),
                reason=ended or waits or None,
                exit_code=int(code) if code.isdigit() else 0 if state == "DONE" else None,
                nodes=hosts or None,
            )
        )
    return found


def _ended(reason: str, otherwise: State) -> State:
    found = re.match(r"TERM_\w+", reason)
    return _REASONS.get(found[0], otherwise) if found and otherwise is State.FAILED else otherwise


def history(job_ids: Sequence[str]) -> Sequence[str] | None:
    """bhist, for jobs that bjobs no longer lists (CLEAN_PERIOD); `-n 0` reads all event logs."""
    return ("bhist", "-l", "-n", "0", *job_ids)


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """The ended jobs in `bhist -l`, whose entries begin with `Job <31>,` and whose long lines continue indented."""
    found = []
    text = re.sub(r"\n {10,}", "", stdout)
    for entry in re.split(r"^(?=Job <\d+>)", text, flags=re.MULTILINE)[1:]:
        number = entry[5:].partition(">")[0]
        if re.search(r": Done successfully", entry):
            found.append(JobStatus(job_id=number, state=State.COMPLETED, exit_code=0))
        elif match := re.search(r": Exited(?: with exit code (\d+))?", entry):
            reason = re.search(r"TERM_\w+[^\n]*", entry)
            words = reason[0].rstrip(".;") if reason else ""
            code = int(match[1]) if match[1] else None
            found.append(
                JobStatus(
                    job_id=number, state=_ended(words, State.FAILED), reason=words or None, exit_code=code
                )
            )
    return found


def unknown_jobs(stderr: str, code: int) -> bool:
    """`Job <123> is not found`, `No matching job found`, `Job <123>: Job has already finished`."""
    return every_line_matches(r"is not found|No (matching|unfinished) job found|already finished", stderr)


def cancel(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that cancel jobs."""
    return ("bkill", *job_ids)


def hold(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that hold jobs."""
    return ("bstop", *job_ids)


def release(job_ids: Sequence[str]) -> Sequence[str]:
    """Arguments that release held jobs."""
    return ("bresume", *job_ids)
