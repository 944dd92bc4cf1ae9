"""Whether a job that waits can ever start as it is, and what to change, by the scheduler's reason."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.jobs.clusters.reasons import in_words
from dlrun.model.job import HELD_BY_CENTRE, UNMET
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A reason in words; never: the job cannot start unless it is changed, or the centre changes something; next: what to do."""

    words: str
    never: bool
    next: str


_RESUBMIT = "then `dlrun cancel JOB`, and submit it again"
_NODES = f"change `resources.nodes` or `resources.partition` (`dlrun site show` has the limits), {_RESUBMIT}"
_LIMITS = f"request less, {_RESUBMIT}; `dlrun site show` has the limits of partitions and QOS"
_WAIT = "it starts by itself: `dlrun status JOB` has the expected start where the scheduler estimates one"
_CENTRE = "ask the centre when it ends, or submit it to another `resources.partition`"
_BACK = (
    f"it starts when they are back: ask the centre when, or change `resources.hosts` or `nodes`, {_RESUBMIT}"
)
_BACK_OR_FREE = f"if they are only reserved, it starts by itself; if they are down or drained, {_BACK}"
_OTHERS = (
    "it starts when jobs of the same account or QOS have ended (`dlrun status --recent` shows yours); if none runs, this one "
    "alone is over the limit: request less"
)
_QUOTA = (
    "it starts when jobs under that quota have ended (`qquota` shows them); if none runs, this one alone is over it: "
    "request less"
)
_YOURS = (
    "it starts when jobs that count towards that limit have ended (`dlrun status --recent` shows yours); if none runs, this "
    "one alone is over it: request less"
)
_RELEASE_BY_CENTRE = "ask the centre: only an administrator can release it"

_SLURM: Mapping[str, tuple[bool, str]] = {
    "JobHeldUser": (True, "`dlrun hold --release JOB` releases it"),
    "JobHoldMaxRequeue": (True, "`dlrun hold --release JOB` releases it; see first why it was requeued so often: `dlrun logs`"),
    "JobHeldAdmin": (True, _RELEASE_BY_CENTRE),
    "PartitionNodeLimit": (True, _NODES),
    "PartitionTimeLimit": (True, f"lower `resources.walltime`, {_RESUBMIT}"),
    "PartitionConfig": (True, f"change `nodes`, `walltime` or `partition` (`dlrun site show` has the limits), {_RESUBMIT}"),
    "BadConstraints": (True, f"change `resources.constraint`, `gpus_per_node` or `memory_per_node`, {_RESUBMIT}"),
    "MaxMemPerLimit": (True, f"lower `resources.memory_per_node`, {_RESUBMIT}"),
    "AccountNotAllowed": (True, f"change `resources.account` or `partition`, {_RESUBMIT}"),
    "InvalidAccount": (True, f"change `resources.account`, {_RESUBMIT}"),
    "InvalidQOS": (True, f"change `resources.qos`, {_RESUBMIT}"),
    "QOSNotAllowed": (True, f"change `resources.qos` or `partition`, {_RESUBMIT}"),
    "ReservationDeleted": (True, f"remove or change `resources.reservation`, {_RESUBMIT}"),
    "DeadLine": (True, f"lower `resources.walltime`, {_RESUBMIT}"),
    "JobLaunchFailure": (True, "`dlrun hold --release JOB` lets it try again; exclude the node that failed: `resources.exclude`"),
    "PartitionDown": (False, _CENTRE),
    "PartitionInactive": (False, _CENTRE),
    "Reservation": (False, "it starts with its reservation: `scontrol show reservation` has the time"),
    "ReqNodeNotAvail": (
        False,
        "`sinfo -R` and `scontrol show reservation` have the reason and its end; correct `resources.hosts` and `exclude`",
    ),
    "NodeDown": (False, "`sinfo -R` has the reason; remove the node from `resources.hosts` if the job names it"),
    "QOSTimeLimit": (True, "ask the centre for more, or use another `resources.qos`"),
    "AssociationTimeLimit": (True, "ask the centre for more, or use another `resources.account`"),
}  # fmt: skip
"""Reason -> whether it can never start as it is, and the next step."""
_OF_ONE_JOB = re.compile(
    r"(?:Assoc|QOS)(?:Max|Min)\w+?(?:PerJob|PerNode|PJ)(?:Limit)?|(?:Assoc|QOS)MaxWall\w*"
)
"""Limits that the job itself exceeds; others are those of all jobs together (Slurm, job reason codes)."""
_USED_UP = re.compile(r"(?:Assoc|QOS)Grp\w*Minutes\w*|QOSUsageThreshold")
_TOGETHER = re.compile(r"(?:Assoc|QOS)\w+|Association\w+")
_NEVER = re.compile(r"Can Never Run|no suitable queue|no queue can ever|can never be met", re.IGNORECASE)
_STOPPED = re.compile(r"queue \S+ is stopped|scheduler is stopped|Queue (?:is )?not started", re.IGNORECASE)
_CLOSED = re.compile(r"queues? \S+ on .+ (?:is|are) (?:disabled|suspended)\b.*")
_SILENT = re.compile(r"queues? \S+ on .+ (?:is|are) temporarily not available\b.*")
"""Parts of a reason of Grid Engine, which has one for each kind of queue instance that it left out."""
_AWAY = re.compile(
    r"(?:is|are) drained|(?:is|are) not (?:up|there)|are up\b|does not answer|ineligible state|offline|is down"
    r"|resource: host\b"
)
_AWAY_OR_RESERVED = re.compile(r"DOWN, DRAINED or reserved")
_OTHER_NODES = re.compile(r"until clean up of a previous run")
_QUOTAS = re.compile(r"exceeds the resource quota")
_LIMIT_REACHED = re.compile(
    r"has reached|job limit reached|limit reached on resource|would exceed .*?limit on resource",
    re.IGNORECASE,
)
_HELD = re.compile(r"held", re.IGNORECASE)


def outlook(reason: str | None, *, held: bool = False) -> Outlook:
    """The outlook of a pending or held job; reason: as its scheduler reports it, None if it reports none."""
    if held and reason is None:
        return Outlook(words="it is held", never=True, next="`dlrun hold --release JOB` releases it")
    if reason is None:
        return Outlook(words="the scheduler reports no reason", never=False, next=_WAIT)
    words = in_words(reason)
    name = reason.partition(",")[0].strip().removeprefix("(").removesuffix(")")
    if name in _SLURM:
        never, step = _SLURM[name]
        return Outlook(words=words, never=never, next=step)
    if reason == UNMET:
        step = "correct that job, and submit this one again with the new job under `after:`; `dlrun cancel JOB` removes it"
        return Outlook(words=words, never=True, next=step)
    if _OF_ONE_JOB.fullmatch(name) or _NEVER.search(reason):
        return Outlook(words=words, never=True, next=_LIMITS)
    if _QUOTAS.search(reason):
        return Outlook(words=words, never=False, next=_QUOTA)
    # Where other queue instances are only full, the job starts there.
    parts = reason.split("; ")
    without = all(_CLOSED.fullmatch(part) or _SILENT.fullmatch(part) for part in parts)
    if _STOPPED.search(reason) or (without and any(map(_CLOSED.fullmatch, parts))):
        return Outlook(words=words, never=False, next=_CENTRE)
    if _AWAY_OR_RESERVED.search(reason):
        return Outlook(words=words, never=False, next=_BACK_OR_FREE)
    if _AWAY.search(reason) or without:
        return Outlook(words=words, never=False, next=_BACK)
    if _OTHER_NODES.search(reason):
        step = "it starts when other nodes than those of its earlier run are free; or `dlrun cancel JOB`, and submit it again"
        return Outlook(words=words, never=False, next=step)
    if _LIMIT_REACHED.search(reason):
        return Outlook(words=words, never=False, next=_YOURS)
    if reason == HELD_BY_CENTRE:
        return Outlook(words=words, never=True, next=_RELEASE_BY_CENTRE)
    if _USED_UP.fullmatch(name):
        step = "ask the centre for more, or use another `resources.account` or `qos`"
        return Outlook(words=words, never=False, next=step)
    if _TOGETHER.fullmatch(name):
        return Outlook(words=words, never=False, next=_OTHERS)
    if held or _HELD.search(reason):
        return Outlook(
            words=words,
            never=True,
            next="`dlrun hold --release JOB` releases it, unless an administrator holds it",
        )
    return Outlook(words=words, never=False, next=_WAIT)
