"""Requests and sites for the tests of this directory."""

from __future__ import annotations

from typing import Any

from dlrun.model.plan import Request
from dlrun.model.problem import InvalidFile
from dlrun.model.site import Account, SchedulerSite


def request(**given: Any) -> Request:
    """Two nodes of two ranks, and what the test gives."""
    base: dict[str, Any] = {"name": "train", "nodes": 2, "ranks": 4, "ranks_per_node": 2}
    return Request(**{**base, **given})


def site(kind: str, **given: Any) -> SchedulerSite:
    """A site of this scheduler; `account` is the option's spelling."""
    if "account" in given:
        given["account"] = Account(option=given["account"])
    return SchedulerSite(type=kind, **given)


def lines(back_end: Any, asked: Request, at: SchedulerSite, output: str = "logs/job.log") -> list[str]:
    """The directives as they stand after the prefix."""
    return [directive.text for directive in back_end.directives(asked, at, output)]


def faults(back_end: Any, asked: Request, at: SchedulerSite, output: str = "logs/job.log") -> list[str]:
    """The messages of all that is wrong, each of which must have a way out; none if the request can be said."""
    try:
        back_end.directives(asked, at, output)
    except InvalidFile as error:
        return [problem.message for problem in error.problems if problem.help]
    return []
