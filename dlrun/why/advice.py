"""Next steps that fit this job: what its plan has already is not advised again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrun.model.units import Duration
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.why.known.causes import CAUSES, SAVING
from dlrun.why.own_messages import JOB

_REQUEUE_CAUSES = {"preempted": "preempted", "node": "node_failed", "walltime": "timed_out"}
"""Cause -> the name under `on_failure` of what is requeued."""

_BY_A_MESSAGE = (JOB["user-signal"].next, CAUSES["user-signal"].next)
"""The next steps where a message has the user signal: it ended the job's script, or the shell of a rank (srun), and both trap
that of `checkpoint`."""

_WRAPPED = (
    "a program that starts another (`uv run`, a shell, a Python parent) must pass the signal of `checkpoint` on, or be replaced "
    "by it (`exec`)"
)


def fitted(
    cause: str, step: str, plan: Mapping[str, Any], restarts: int | None, queue: QueueRules | None = None
) -> str:
    """The next step for a cause, changed where the job's plan (plan.json) already has what it advises.

    queue: the rules of its partition, for causes in `queues.DEPENDENT`.
    """
    if cause == "preempted" and queue is not None and queue.preempted == "cancelled":
        return (
            f"`{queue.name}` cancels preempted jobs instead of requeueing them (PreemptMode), also with `on_failure.requeue`: "
            "`dlrun resubmit JOB` starts it again, or use another `resources.partition` or `qos`"
        )
    if cause == "walltime" and (limited := _at_the_limit(plan, queue)) is not None:
        return limited
    requeued_on = plan.get("requeue_on") or ()
    if (kind := _REQUEUE_CAUSES.get(cause)) is not None and plan.get("requeue") and kind in requeued_on:
        return _although_requeued(cause, int(plan["requeue"]), restarts or 0)
    if cause == "walltime" and plan.get("checkpoint") is not None:
        return (
            "ask for more `resources.walltime`, or set `on_failure.requeue`: `checkpoint` is set, and the job is not requeued; "
            f"if it saved nothing at its signal, {_WRAPPED}"
        )
    if cause == "user-signal" and (checkpoint := plan.get("checkpoint")) is not None:
        if step in _BY_A_MESSAGE:
            return step.removesuffix(SAVING)
        signal = checkpoint.get("signal") or "USR1"
        return (
            f"`checkpoint` sends SIG{signal} to each rank before the walltime: let the program itself handle it; {_WRAPPED}; "
            "long before the walltime somebody else sent it (`scancel --signal`, `qsig`)"
        )
    environment = plan.get("environment") or {}
    if cause == "environment-module" and "modules" in environment and not environment["modules"]:
        return "the spec has no `environment.modules`: see which line of `environment.setup` or of the command calls `module`"
    if cause == "command-missing" and (word := _one_word(plan)) is not None:
        return f"write the command as a list of words, or as shell text under `run`: {word!r} is taken as the name of one program"
    return step


def _at_the_limit(plan: Mapping[str, Any], queue: QueueRules | None) -> str | None:
    """The next step of a job that had the longest walltime of its partition already; None for others."""
    walltime = (plan.get("request") or {}).get("walltime")
    if queue is None or queue.most is None or not isinstance(walltime, int) or walltime < queue.most:
        return None
    more = f"`{queue.name}` allows no more than {Duration(queue.most)}"
    if plan.get("checkpoint") is not None and plan.get("requeue"):
        return f"{more}, and `checkpoint` and `on_failure.requeue` are set: if it saved nothing at its signal, {_WRAPPED}"
    missing = (
        "`on_failure.requeue`"
        if plan.get("checkpoint") is not None
        else "`checkpoint:` and `on_failure.requeue`"
    )
    return f"{more}: set {missing}, or use another `resources.partition`"


def _although_requeued(cause: str, most: int, restarts: int) -> str:
    if restarts >= most:
        return f"its {most} requeues (`on_failure.requeue`) are used up: raise the number, then `dlrun resubmit JOB`"
    if cause == "preempted":
        return (
            "`on_failure.requeue` is set, but this partition or QOS cancels preempted jobs instead of requeueing them "
            "(Slurm: `PreemptMode`): `dlrun resubmit JOB` starts it again, or use another `resources.partition` or `qos`"
        )
    return "`on_failure.requeue` is set, but the scheduler did not start it again: `dlrun resubmit JOB` does"


def _one_word(plan: Mapping[str, Any]) -> str | None:
    """The command of a job if it is one word with spaces; None for others."""
    for role in plan.get("roles") or ():
        argv = role.get("argv") if isinstance(role, dict) else None
        if isinstance(argv, list) and len(argv) == 1 and isinstance(argv[0], str) and " " in argv[0].strip():
            return argv[0]
    return None
