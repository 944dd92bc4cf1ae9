"""Predict whether a scheduler without a test mode would accept a job, by queries of its clients."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.errors import OperationFailed
from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Acceptance
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Runner, answer


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
