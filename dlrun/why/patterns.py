"""What a job's end means where no line of a log tells it: by state, by note, by signal; and exceptions, which have no table."""

from __future__ import annotations

from dlrun.model.job import ASKED_TO_END, BY_SIGNAL, UNNAMED, State
from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Pattern

# ruff: noqa: E501 - a table
EXCEPTION = Pattern(
    cause="exception",
    regex=r"^[\s|]*(?:(?:\[[^\]\s]{1,40}\](?:<std(?:err|out)>)?|\([^()]{0,60}\bpid=\d+[^()]{0,60}\)|ERROR [\d-]+ [\d:.,]+ \[\S+\]|\d{4}-\d\d-\d\d [\d:.,]+ - [\w.]{1,60} - [A-Z]+ -|(?:\d{1,6}|[a-z][\w.-]*\d)(?=: )):?\s*){0,3}(?:what\(\): +(\S.{0,120})|((?:(?:\w+\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Expired|Iteration|Failure)|Exception)|(?:\w+\.)+[A-Z]\w*(?:Invalid|Unsupported|Timeout|NotFound|Denied|Full|Empty)|(?:[a-z_]\w*\.){2,}[A-Z]\w+(?=: )|(?:struct|zlib|copy|socket|select)\.error)(?::?\s*$|: .{0,120})))",
    means="the program raised {1}",
    next="the whole traceback: `dlrun logs JOB --rank {rank}`",
)
"""The last line of a traceback, or a C++ exception, after the line prefixes of torchrun, mpirun, srun, pdsh and Ray."""

REPORTED = Pattern(
    cause="reported",
    regex="",
    means="the program says: {1}",
    next="look its words up in that program's documentation; the lines around it: `dlrun logs JOB --rank {rank}`",
)
"""A line that a program marks as its error, and that the table does not know."""

FRAMED = Pattern(
    cause="launcher",
    regex="",
    means="MPI or its launcher reported: {1}",
    check="the lines below it, up to the rule",
    next="see all of it: `dlrun logs JOB --rank all`; compare `launcher` in the site profile with `dlrun plan`, and the variables `OMPI_MCA_…` and `PRTE_MCA_…` of the job",
    consequence=True,
)
"""A message between two rules that the table does not know."""

COMMAND_MISSING = Pattern(
    cause="command-missing",
    regex="",
    means=CAUSES["command-missing"].means,
    named=CAUSES["command-missing"].named,
    check=CAUSES["command-missing"].check,
    next=CAUSES["command-missing"].next,
)
"""For a shell that did not find the program (exit code 126 or 127)."""

LAUNCHER_MISSING = Pattern(
    cause="launcher",
    regex="",
    means="the launcher, or a program that the job's script runs, does not exist: `{1}`",
    next="correct `launcher.program` in the site profile, or load the module that has it (`environment.modules`)",
)
"""For a program missing in the job's own script."""

BY_STATE = {
    State.TIMED_OUT: ("walltime", "the walltime was exceeded", "ask for more `resources.walltime`, or give `checkpoint:` and `on_failure.requeue`"),
    State.OUT_OF_MEMORY: ("memory", "a node's memory, or the job's part of it, ran out", "ask for more with `resources.memory_per_node`, or use fewer data-loader processes"),
    State.NODE_FAILED: ("node", "a node died", "submit again; `on_failure.requeue` does so automatically"),
    State.PREEMPTED: ("preempted", "a job of higher priority took its nodes", "submit again; `on_failure.requeue` does so automatically"),
    State.CANCELLED: ("cancelled", "it was cancelled by its user", "`dlrun resubmit JOB` submits it again"),
    State.CANCELLED_BY_ADMIN: ("cancelled-by-admin", "it was cancelled by an administrator", "ask the centre, then `dlrun resubmit JOB`"),
    State.LOST: ("lost", "how it ended is unknown", "see the end of its log: `dlrun logs JOB --rank job`"),
}  # fmt: skip
"""State that is a cause by itself -> (cause, meaning, next step)."""

WELL = ("none", "it ended without an error", "nothing needs to be done")
"""Cause, meaning and next step of a completed job."""

BY_WHOM = {
    BY_SIGNAL: "it was cancelled (by its user's own command, or by an administrator), or its job script was killed: the scheduler records all of these in the same way",
    UNNAMED: "it was deleted, not with `dlrun cancel`: by whom (its user's own command, an administrator) is not recorded",
}
"""Reason of a cancelled job -> what it means, where nothing has who it was."""

DEPENDENCY = (
    "dependency",
    "it can never start, because a job under `after` did not end as `after` requires",
    "correct that job, and submit this one again with the new job under `after:`; `dlrun cancel JOB` removes it from the queue",
)
"""A job whose dependency can never be met."""

BY_NOTE = {
    "hang": ("hang", "no rank wrote or computed anything for the time that `hang` allows", "see where each rank waited, in its log and {stacks}; a rank in another place than the others is the likely cause"),
    "placement": ("placement", "the placement of ranks differs from the plan: the first {1}", "`dlrun verify` with its spec compares every rank and names the likely cause"),
    "node failed": ("node", "a node failed: {1}", "`dlrun logs JOB --rank job` names the nodes; request more `spare_nodes`, or report them to the centre"),
    "environment": ("environment", "the environment of a node differs from that of the first node: {1}", "have `environment.venv` or `conda` on a file system that all nodes see, or copy it to each: `environment.stage: true`; exclude the node (`resources.exclude`) if only it is wrong"),
    "code changed": ("code", "its code had changed since the submission, which `code: strict` does not allow", "submit it again, or restore the file; with `code: record` the job runs with what is there"),
    "no snapshot": ("code", "the stored code that it was to run is missing or damaged", "`dlrun resubmit JOB --code now` submits it with today's code"),
    "alone": ("mpi-pmi", "each rank trained alone: {1}", "`dlrun plan` names what the launcher lacks, where dlrun knows the MPI; with `verify: warn` the job runs nevertheless"),
    "fabric": ("fabric", "the job fell back to a slower network: {1}", "see the library's messages in {log} before the selected transport (NCCL: `NET/`); with `fabric_check: warn` the job runs nevertheless"),
}  # fmt: skip
"""Reason in a job's note -> (cause, meaning, next step); `{1}`: the note's detail."""

ASKED = (
    ASKED_TO_END,
    "terminated",
    "something outside the job asked it to end (SIGTERM), and its scheduler has no record of a cancellation",
    "find who signalled it (by a client of the scheduler, such as `scancel --signal` and `qsig`, or `kill`), or ended the allocation or instance that it ran in",
)
"""Reason in state.json, then cause, meaning and next step."""

_EARLY = (
    "user-signal",
    "it received a user signal (SIGUSR1 or SIGUSR2), which it does not handle",
    "schedulers send these before a limit is reached, and so does `checkpoint`: handle the signal in the program, or find its sender among the options of the job and the site",
)
SIGNALS = {
    138: _EARLY,
    140: _EARLY,
    137: ("killed", "it was killed (SIGKILL), for an unknown reason: neither memory nor walltime is known to be used up", "check what else runs on the node, and the node's system log"),
    139: ("segmentation-fault", "it crashed (SIGSEGV), in compiled code", "update or rebuild the library at the top of the stack; `environment.variables: {PYTHONFAULTHANDLER: 1}` shows it"),
    143: ("terminated", "it was terminated (SIGTERM), but not by the job", "find what else ends processes: a launcher inside the command, a time limit of its own, another user"),
    136: ("arithmetic", "it crashed (SIGFPE): a division by zero in compiled code", "`environment.variables: {PYTHONFAULTHANDLER: 1}` shows where"),
    134: ("abort", "it aborted (SIGABRT), in compiled code", "the line before the abort in its log has the reason"),
    135: ("bus-error", "it crashed (SIGBUS): a file that it had mapped was cut short or could not be read, or its file system or /dev/shm is full", "check whether /dev/shm or a file system is full, and let nothing write or truncate a mapped file while ranks read it; `environment.variables: {PYTHONFAULTHANDLER: 1}` shows where"),
    132: ("illegal-instruction", "it was built for a CPU that this node does not have (SIGILL)", "build it on a compute node, or ask for the right one with `resources.constraint`"),
}  # fmt: skip
"""Exit code of a signal (128 + its number) -> (cause, meaning, next step), for logs without evidence."""


def is_general(pattern: Pattern) -> bool:
    """Whether a pattern is of what a program itself says, which no table knows."""
    return pattern.cause in (EXCEPTION.cause, REPORTED.cause)
