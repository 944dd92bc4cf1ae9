"""When a scheduler expects to start a job that it would accept: of a job for several queues, in each of them."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Scheduler
from dlrun.system.process import Completed, Runner


def expected_start(
    scheduler: Scheduler, plan: Plan, arguments: Sequence[str], accepted: Completed, ask: Runner
) -> str:
    """The expected start, or a confirmation.

    arguments, accepted: the check, and its output. ask: runs another one, which may be refused.
    """
    queues = (plan.request.partition or "").split(",")
    if not scheduler.SEVERAL_QUEUES or len(queues) == 1:
        return _start(scheduler, accepted) or f"{plan.site} would accept the job"
    starts = {queue: _start(scheduler, ask(scheduler.in_queue(arguments, queue))) for queue in queues}
    return ", ".join(f"{queue}: {start or 'no start predicted'}" for queue, start in starts.items())


def _start(scheduler: Scheduler, done: Completed) -> str | None:
    return scheduler.estimate(done.stdout + done.stderr)
