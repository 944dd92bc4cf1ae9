"""Get an allocation with the scheduler's own command, in which the same command line runs."""

from __future__ import annotations

import os
import shlex
import sys

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.submission.prepare import prepare
from dlrun.model.plan import Plan
from dlrun.system.inputs.spec import Inputs


def run_in_allocation(inputs: Inputs) -> int:
    """Replace this process by the command that gets an allocation and runs this command line in it.

    Raises Invalid if the site's scheduler has no such command, OperationFailed if it is not installed.
    """
    scheduler = backends.scheduler(inputs.site.scheduler.type)
    allocation = scheduler.ALLOCATION
    if allocation is None or allocation.without is None:
        way = (
            f"start `{allocation.line()}`, and run this there" if allocation else "leave out `--interactive`"
        )
        raise Invalid(f"{scheduler.NAME} gives no allocation for one command", help=way)
    start = shlex.split(allocation.start)
    words = [*start, *options(prepare(inputs.path, inputs=inputs).plan, allocation.without), *own_command()]
    try:
        os.execvp(words[0], words)  # noqa: S606 - a list of arguments
    except OSError as error:
        raise OperationFailed(f"`{words[0]}` cannot be started: {error.strerror}") from None


def options(plan: Plan, without: tuple[str, ...]) -> list[str]:
    """The directives of a plan as options, but those that an allocation does not have."""
    return [
        directive.text for directive in plan.directives if directive.text.partition("=")[0] not in without
    ]


def own_command() -> list[str]:
    """This command line, for the allocation."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)  # what follows is the training's own
    own = [word for word in words[:end] if word != "--interactive"]
    return [sys.executable, "-m", "dlrun", *own, *words[end:]]
