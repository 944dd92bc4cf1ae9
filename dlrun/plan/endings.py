"""The end of a job: early signal, requeue, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun.model.plan import Cause, CheckpointPlan, RolePlan
from dlrun.model.spec import OnFailure, Spec
from dlrun.model.text import NodeVariables, Shell, Text, lazy_pattern
from dlrun.model.units import Duration
from dlrun.plan.command import expressions
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_CAUSES: tuple[Cause, ...] = ("timed_out", "preempted", "node_failed", "out_of_memory", "hang", "user_error")
_SHELL = lazy_pattern(r"(.*/)?(ba|da|k|z|c|tc|fi)?sh")


def carrier(signal: str) -> str:
    """The signal by which the warning is sent to the rank scripts: a different one from the program's.

    Launchers forward only the two user signals (srun(1), mpirun(1)).
    """
    return "USR2" if signal == "USR1" else "USR1"


def chain(spec: Spec, layout: Layout, ledger: Ledger) -> Layout:
    """With `chain`, replace a walltime over the partition's limit by several runs of this limit."""
    limit = layout.partition.max_walltime if layout.partition else None
    if not spec.chain or layout.walltime is None or limit is None or layout.walltime <= limit:
        return layout
    # Rounded up: the last job may be shorter than its walltime.
    links = -(-layout.walltime // limit)
    because = f"{layout.walltime} in runs of {limit}, the limit of partition `{layout.partition_name}`"
    ledger.decide("chain", links, "walltime-over-limit", because, origin=ledger.origin("chain"))
    return replace(layout, walltime=limit, links=links)


def causes(policy: OnFailure, links: int, *, watched: bool = False) -> tuple[Cause, ...]:
    """The causes after which the job is requeued; a chain is always requeued at its walltime limit.

    A hang is only detected in a `watched` job.
    """
    if policy.requeue == 0:
        return ("timed_out",) if links > 1 else ()
    return tuple(
        cause
        for cause in _CAUSES
        if (getattr(policy, cause) == "requeue" or (links > 1 and cause == "timed_out"))
        and (watched or cause != "hang")
    )


def checkpoint(
    spec: Spec, roles: Sequence[RolePlan], command: Sequence[Text], path: Text | None
) -> CheckpointPlan | None:
    """The delivery of the early signal; None without `checkpoint`. `path` is the path of the checkpoints.

    The program's signal is ignored until the program installs its handler, except for a command that is a shell: a shell cannot
    trap signals that were ignored at its start (bash(1), "trap"). Only user signals are ignored, because the others are also
    needed to end programs.
    """
    wanted = spec.checkpoint
    if wanted is None:
        return None
    # Ignored until the rank script has its handlers: the default action of a user signal ends a process.
    ignored = [carrier(wanted.signal)]
    if wanted.signal.startswith("USR") and not _SHELL.fullmatch(command[0].literal or ""):
        ignored.append(wanted.signal)
    return CheckpointPlan(
        signal=wanted.signal,
        before_end=wanted.before_end,
        to=wanted.to,
        carrier=carrier(wanted.signal),
        ignored=tuple(ignored),
        agents=tuple(role.name for role in roles if not role.service and not role.binds),
        path=path,
    )


def check(spec: Spec, walltime: Duration | None, ledger: Ledger) -> Text | None:
    """Add problems for contradictory settings; returns the path of the checkpoints, if any."""
    wanted, policy = spec.checkpoint, spec.on_failure
    if wanted is not None and walltime is not None and wanted.before_end >= walltime:
        ledger.problem(
            "DLR044",
            f"the early signal is to be sent {wanted.before_end} before the end, but the walltime is {walltime}",
            "checkpoint.before_end",
            "resources.walltime",
            help="increase the walltime, or decrease `before_end`",
        )
    if policy.requeue and policy.preempted != policy.node_failed:
        ledger.problem(
            "DLR045",
            "schedulers treat preemption and node failure alike: they requeue after both or after neither",
            "on_failure.preempted",
            "on_failure.node_failed",
            help="use the same policy for `preempted` and `node_failed`",
        )
    return _path(wanted.path, spec.name, ledger) if wanted is not None and wanted.path is not None else None


def _path(text: str, name: str, ledger: Ledger) -> Text | None:
    known: dict[str, expressions.Value] = {
        "env": NodeVariables(),
        "name": name,
        "job_dir": Shell("$DLRUN_JOB_DIR"),
        "run_dir": Shell("$DLRUN_RUN_DIR"),
    }
    try:
        return expressions.substitute(text, known)
    except expressions.ExpressionError as error:
        ledger.problem("DLR029", str(error), "checkpoint.path", help=error.help)
        return None
