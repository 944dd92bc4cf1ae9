"""Parser of `flux jobs --format=FORMAT` (flux-jobs(1); seen with 0.88)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dlrun.model.hostlist import expand, fold
from dlrun.model.job import UNMET, JobStatus, ReportedState, State
from dlrun.model.record import record
from dlrun.model.text import digits
from dlrun.model.units import many
from dlrun.schedulers.flux.ids import plain

FIELDS = {
    "job": "{id.f58plain}",
    "state": "{state}",
    "result": "{result}",
    "wait_status": "{waitstatus}",
    "urgency": "{urgency}",
    "started": "{t_run!d:%FT%T}",
    "ended": "{t_inactive!d:%FT%T}",
    "nodes": "{nodelist}",
    "waits_for": "{dependencies}",
    "estimate": "{sched.t_estimate!d:%FT%T}",
    "exception": "{exception.type}",
    "note": "{exception.note}",
}
"""Field -> its name in `--format`. Free text is last: a `|` in it must not shift other fields."""

FORMAT = "|".join(FIELDS.values())

_OPEN = {
    "NEW": State.PENDING,
    "DEPEND": State.PENDING,
    "PRIORITY": State.PENDING,
    "SCHED": State.PENDING,
    "RUN": State.RUNNING,
    "CLEANUP": State.ENDING,
}
_RESULTS = {
    "COMPLETED": State.COMPLETED,
    "FAILED": State.FAILED,
    "CANCELED": State.CANCELLED,
    "TIMEOUT": State.TIMED_OUT,
}


def parse(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of `flux jobs` with FORMAT."""
    lines = stdout.splitlines()
    known = facts([line for line in lines if line.startswith(MARK)])
    rows = (line.split("|", len(FIELDS) - 1) for line in lines if not line.startswith(MARK))
    fields = (dict(zip(FIELDS, row, strict=True)) for row in rows if len(row) == len(FIELDS))
    return [status for row in fields if (status := _status(row, known))]


def _status(row: Mapping[str, str], known: Facts) -> JobStatus | None:
    job_id = plain(row["job"])
    if job_id is None:
        return None
    now = _ended(row) if row["state"] == "INACTIVE" else _open(row, known)
    code, signal = _ending(row["wait_status"]) if now.state.final else (None, None)
    return JobStatus(
        job_id=job_id,
        state=now.state,
        reason=now.reason,
        exit_code=code,
        signal=signal,
        nodes=row["nodes"] or None,
        started=row["started"] or None,
        ended=(row["ended"] or None) if now.state.final else None,
    )


def _open(row: Mapping[str, str], known: Facts) -> ReportedState:
    """State of a job that has not ended, and the reason why it is pending."""
    state = _OPEN.get(row["state"], State.UNKNOWN)
    if state is State.UNKNOWN:
        return ReportedState(state, f"Flux reports {row['state']}")
    if state is not State.PENDING:
        return ReportedState(state)
    if row["urgency"] == "0":
        return ReportedState(State.HELD)
    if row["waits_for"]:
        return ReportedState(state, f"waits for {row['waits_for']}")
    if row["estimate"]:
        return ReportedState(state, f"expected to start at {row['estimate']}")
    return ReportedState(state, reason(row["job"], known))


def _ended(row: Mapping[str, str]) -> ReportedState:
    """Final state and reason: the note of the severity-0 exception that ended the job."""
    state, note = _RESULTS.get(row["result"], State.UNKNOWN), row["note"] or None
    if state is State.UNKNOWN:
        return ReportedState(state, f"Flux reports {row['result']}")
    if row["exception"] == "dependency":
        return ReportedState(State.CANCELLED, UNMET)
    if state is State.FAILED and "node failure" in f"{row['exception']} {row['note']}".replace("-", " "):
        return ReportedState(State.NODE_FAILED, note)
    return ReportedState(state, note if state in (State.FAILED, State.CANCELLED) else None)


def _ending(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal from a wait(2) status; both None for a job that never ran."""
    # A job that never ran has -1, and a number over 16 bits is not a status of wait(2).
    if not digits(text) or (status := int(text)) >= 1 << 16:
        return None, None
    return (None, status & 0x7F) if status & 0x7F else (status >> 8, None)


# Reasons of pending jobs, since Flux lists none: a stopped queue, and nodes that are not up.
#
# `LOOK` is appended to the query of the queue. Its lines (seen with 0.88) are those of `flux queue status`, `flux resource
# status` and of the jobspec (RFC 14, 25) of the first jobs that wait, each after a word.

MARK = "dlrun:"
LOOK = r"""
shown=$(flux jobs --no-header --format="$1" "${@:2}") || code=$?
printf '%s\n' "$shown"
wait=$(printf '%s\n' "$shown" | awk -F'|' '$2 == "SCHED" && $5 > 0 {print $1}' | head -n 50)
if [ -n "$wait" ]; then
  flux queue status 2>/dev/null | sed 's/^/dlrun:queue /'
  flux resource status --no-header --format='{state}|{nodelist}|{reason}' 2>/dev/null | sed 's/^/dlrun:nodes /'
  for id in $wait; do flux job info "$id" jobspec 2>/dev/null | sed "s/^/dlrun:asks $id /"; done
fi
exit "${code:-0}"
"""
"""A bash program with the format and the job ids as arguments."""

_STOPPED = re.compile(r"(?:(\S+): )?Scheduling is stopped(?:: (.*))?")


@record(frozen=True, slots=True, kw_only=True)
class Facts:
    """Queue -> why it is stopped ("" is the only one); host -> why it is not up; the hosts that are; job -> its jobspec."""

    stopped: Mapping[str, str]
    lost: Mapping[str, str]
    up: frozenset[str]
    asks: Mapping[str, Mapping[str, Any]]


def facts(lines: Sequence[str]) -> Facts:
    """What the lines of LOOK that begin with MARK contain."""
    stopped: dict[str, str] = {}
    lost: dict[str, str] = {}
    up: set[str] = set()
    asks: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        kind, _, rest = line.removeprefix(MARK).partition(" ")
        if kind == "queue" and (match := _STOPPED.fullmatch(rest.strip())):
            stopped[match[1] or ""] = match[2] or ""
        elif kind == "nodes":
            state, nodes, reason = (*rest.split("|", 2), "", "")[:3]
            words = (
                "is not up"
                if "*" in state
                else {"drained": "is drained", "draining": "is drained"}.get(state)
            )
            words = words or {"offline": "is not up", "torpid": "does not answer"}.get(state)
            hosts = _expanded(nodes)
            if words:
                lost |= dict.fromkeys(hosts, f"{words}: {reason}" if reason else words)
            elif state in ("avail", "online"):
                up.update(hosts)
        elif kind == "asks":
            job, _, text = rest.partition(" ")
            with suppress(ValueError):
                asks[job] = json.loads(text)
    return Facts(stopped=stopped, lost=lost, up=frozenset(up - lost.keys()), asks=asks)


def reason(job_id: str, known: Facts) -> str | None:
    """Why a job waits; None if nothing is known."""
    asked = known.asks.get(job_id)
    if asked is None:
        return None
    for name in (_system(asked).get("queue") or "", ""):
        if name in known.stopped:
            why = f": {known.stopped[name]}" if known.stopped[name] else ""
            return f"queue {name} is stopped{why}" if name else f"the scheduler is stopped{why}"
    if not known.up and not known.lost:
        return None
    named, needed = _named(asked), _nodes(asked)
    suitable = [host for host in named if host in known.up] if named else known.up
    if len(suitable) >= needed:
        return "waits for nodes that are in use, or for jobs before it"
    away = [host for host in known.lost if not named or host in named]
    why = ", ".join(
        f"{fold(hosts)} {words if len(hosts) == 1 else words.replace('is ', 'are ', 1)}"
        for words, hosts in _together(away, known.lost)
    )
    if not why:
        return f"it can never run: it needs {many(needed, 'node')}, and there are {len(suitable)}"
    of = "of those that it names " if named else ""
    return f"it needs {many(needed, 'node')}, and {of}{len(suitable)} are up: {why}"


def _expanded(text: str) -> tuple[str, ...]:
    with suppress(ValueError):
        return expand(text) if text else ()
    return ()


def _together(hosts: Sequence[str], words: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """What is said of hosts -> those of which the same is said, in order."""
    return [
        (text, [host for host in hosts if words[host] == text])
        for text in dict.fromkeys(words[host] for host in hosts)
    ]


def _system(jobspec: Mapping[str, Any]) -> Mapping[str, Any]:
    with suppress(KeyError, TypeError):
        return dict(jobspec["attributes"]["system"])
    return {}


def _nodes(jobspec: Mapping[str, Any]) -> int:
    """The nodes that a jobspec asks for; 1 where it asks for slots without nodes."""
    with suppress(KeyError, TypeError, IndexError):
        first = jobspec["resources"][0]
        if first["type"] == "node":
            return int(first["count"])
    return 1


def _named(jobspec: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts to which the constraints of a jobspec restrict a job; empty without such."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        constraints = _system(jobspec)["constraints"]
        for constraint in constraints.get("and", [constraints]):
            if "hostlist" in constraint:
                return tuple(host for text in constraint["hostlist"] for host in expand(text))
    return ()
