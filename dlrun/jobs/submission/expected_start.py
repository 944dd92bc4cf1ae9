"""When a scheduler expects to start a job that it would accept: of a job for several queues, in each of them.

Slurm names a time for a partition that is down, too: `sbatch --test-only` does not look at it (22.05 and later).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.queue_rules import QueueRules, chosen
from dlrun.system.process import Completed, Runner, answer


def expected_start(
    scheduler: Scheduler, plan: Plan, arguments: Sequence[str], accepted: Completed, ask: Runner
) -> str:
    """The expected start, or a confirmation.

    arguments, accepted: the check, and its output. ask: runs another one, which may be refused.
    """
    queues = (plan.request.partition or "").split(",")
    known = _rules(scheduler, ask)
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


def _rules(scheduler: Scheduler, ask: Runner) -> list[QueueRules]:
    """What the queues allow; empty if the scheduler does not show it, or does not answer: the check itself has succeeded."""
    return scheduler.parse_queue_rules(answer(ask, scheduler.queue_rules()))


def _start(scheduler: Scheduler, done: Completed) -> str | None:
    return scheduler.estimate(done.stdout + done.stderr)
