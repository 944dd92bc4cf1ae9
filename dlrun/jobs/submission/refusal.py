"""The error for a job that its scheduler refused, with a remedy; for account problems with the user's accounts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence

from dlrun.errors import DlrunError, OperationFailed
from dlrun.model.nearest import nearest
from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Completed, run

_TIMEOUT = 20.0
"""Time limit of the accounting query in seconds: an error message waits for it."""
_MOST = 8
"""Maximum number of accounts in the message."""


def refusal_of(scheduler: Scheduler, done: Completed, plan: Plan) -> OperationFailed:
    """The error for a refused job, from the client's output."""
    refusal = client_message(done.stderr or done.stdout) or f"exit code {done.returncode}"
    return OperationFailed(
        f"{scheduler.CLIENT} refused the job: {refusal}",
        help=_about_accounts(scheduler, done.stderr, plan.request.account) or scheduler.advice(done.stderr),
    )


def _about_accounts(scheduler: Scheduler, stderr: str, account: str | None) -> str | None:
    """A help line about the user's accounts; None if the refusal has another reason or accounting does not answer."""
    try:
        asking = scheduler.accounts(stderr, pwd.getpwuid(os.getuid()).pw_name)
        done = run(asking, timeout=_TIMEOUT) if asking else None
    except (KeyError, DlrunError):  # KeyError: a user without a name has no accounts
        return None
    if done is None or done.returncode:
        return None
    theirs = sorted({name for line in done.stdout.splitlines() if (name := line.strip())})
    if not theirs:
        return "you have no account on this cluster: ask the centre for one"
    if account in theirs:
        return f"`{account}` is yours, but not for this partition: choose another `resources.partition`{_others(theirs, account)}"
    near = nearest(account, theirs) if account else None
    return f"{f'did you mean `{near}`? ' if near else ''}set `resources.account`; yours: {_named(theirs)}"


def _others(theirs: Sequence[str], account: str) -> str:
    others = [name for name in theirs if name != account]
    return f", or another account of yours: {_named(others)}" if others else ""


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MOST])
    return f"{shown}, …" if len(names) > _MOST else shown
