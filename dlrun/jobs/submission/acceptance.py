"""Predict whether a scheduler without a test mode would accept a job, by queries of its clients."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.errors import OperationFailed
from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Acceptance, Scheduler
from dlrun.schedulers.queue_rules import chosen
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Completed, Runner, answer


def judged(acceptance: Acceptance, plan: Plan, runner: Runner) -> str:
    """The report about an acceptable job; runner: for clients on this host or a login node.

    Raises OperationFailed with all reasons against the job, or if the first query fails.
    """
    first, *others = acceptance.questions(plan.request)
    answers = [_required(runner, first), *(answer(runner, argv) for argv in others)]
    user, groups = answer(runner, ("id", "-un")).strip(), answer(runner, ("id", "-Gn")).split()
    judgement = acceptance.judge(plan.request, answers, user, groups)
    if not judgement.problems:
        return judgement.accepted
    raise OperationFailed(
        f"{plan.scheduler} would refuse the job, or never start it: {'; '.join(judgement.problems)}",
        help="correct `resources`; `qstat -Qf`, `pbsnodes -a` and `pbs_rstat` show the limits",
    )


def _required(runner: Runner, argv: Sequence[str]) -> str:
    """The output of a client; raises OperationFailed if it fails."""
    done = runner(argv)
    if done.returncode:
        reason = client_message(done.stderr or done.stdout) or f"exit code {done.returncode}"
        raise OperationFailed(f"`{' '.join(argv)}` failed: {reason}")
    return done.stdout


# When a scheduler expects to start a job that it would accept: of a job for several queues, in each of them.
#
# Slurm names a time for a partition that is down, too: `sbatch --test-only` does not look at it (22.05 and later).


def expected_start(
    scheduler: Scheduler, plan: Plan, arguments: Sequence[str], accepted: Completed, ask: Runner
) -> str:
    """The expected start, or a confirmation.

    arguments, accepted: the check, and its output. ask: runs another one, which may be refused.
    """
    queues = (plan.request.partition or "").split(",")
    # Without an answer there are none: the check itself has succeeded.
    known = scheduler.parse_queue_rules(answer(ask, scheduler.queue_rules()))
    if not scheduler.SEVERAL_QUEUES or len(queues) == 1:
        queue = chosen(known, plan.request.partition)
        if queue is not None and queue.down:
            return f"none while the partition {queue.name} is down: the job would wait until an administrator opens it"
        return _start(scheduler, accepted) or f"{plan.site} would accept the job"
    down = {queue.name for queue in known if queue.down}
    starts = {
        queue: "none while it is down"
        if queue in down
        else _start(scheduler, ask(scheduler.in_queue(arguments, queue)))
        for queue in queues
    }
    return ", ".join(f"{queue}: {start or 'no start predicted'}" for queue, start in starts.items())


def _start(scheduler: Scheduler, done: Completed) -> str | None:
    return scheduler.estimate(done.stdout + done.stderr)
