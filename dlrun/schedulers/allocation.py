"""A job inside an allocation that exists already, of any scheduler: a process of this machine that uses all of its nodes.

It has no directives and no queue, like a job of `local`; hosts, steps and options are those of the allocation's scheduler.
"""

from __future__ import annotations

from dlrun.schedulers.protocol import Scheduler

SUFFIX = "-allocation"
"""Ending of the name of such a back end: `slurm-allocation`."""
_OF_OUTER = (
    *(
        "HOSTS",
        "MOST_NODES",
        "WHOLE_NODES",
        "STEPS",
        "LAUNCHER",
        "CLUSTER_KEY",
        "GPUS",
        "LISTED_GPUS",
        "FEATURES",
    ),
    *("NETWORK", "REPORTS_LOST_NODES", "ALLOCATION", "ROLES_INSIDE"),
)


def name_in(scheduler: str) -> str:
    """The name of the back end for jobs inside an allocation of `scheduler`."""
    return f"{scheduler}{SUFFIX}"


def is_inside(scheduler: str) -> bool:
    """Whether a name is that of a back end for jobs inside an allocation."""
    return scheduler.endswith(SUFFIX)


def inside(outer: Scheduler, local: Scheduler) -> Scheduler:
    """`local` as the back end for jobs inside an allocation of `outer`, which must have an `ALLOCATION`."""
    held = outer.ALLOCATION
    library = (*outer.LIBRARY, *(held.library if held is not None else ()))
    of_outer = {name: getattr(outer, name) for name in _OF_OUTER}
    vars(local).update(
        {
            **of_outer,
            "NAME": name_in(outer.NAME),
            "LIBRARY": library,
            "POINTS_INSIDE": False,
        }
    )
    return local
