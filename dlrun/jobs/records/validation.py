"""Validation of job directories: files must belong to the user, and values must be ones that dlrun could have written.

A record determines the processes and jobs that `cancel` ends and the hosts of ssh connections, and anyone can create a
directory that looks like a job's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dlrun import backends
from dlrun.errors import DlrunError, Invalid
from dlrun.model.json_codec import from_plain, to_plain
from dlrun.model.program import ROLE_NAME
from dlrun.system.paths import read_bytes

T = TypeVar("T")
MOST = 256 << 20
"""Maximum bytes of a record: the plan of a sweep of 10,000 points has 20 MB."""

_ANY_ID = r"[A-Za-z0-9][A-Za-z0-9._@\[\]:-]{0,255}"
"""Job ids of a third party's back end without an `ID` pattern."""

FOREIGN = "belongs to another user"
WITHOUT_LIST = "an earlier version of dlrun made it, without a list of its files"


class DamagedRecord(Exception):
    """A record has values that dlrun does not write; the text is the reason."""


def is_foreign(damage: str | None) -> bool:
    """Whether the damage of a record is that it belongs to another user."""
    return (damage or "").startswith(FOREIGN)


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if it cannot be read or is another value."""
    try:
        data = json.loads(read_bytes(path, MOST).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def encoded(value: Any, **changes: Any) -> dict[str, Any]:
    """A dataclass as a record for `decoded`, with these values instead of its own, and without the directory that it is in."""
    fields = {**to_plain(value), **changes, "version": 1}
    del fields["directory"]
    return fields


def decoded(kind: type[T], record: Mapping[str, Any], **known: Any) -> T:
    """A record of version 1 as a dataclass, by the types of its fields; `known` replaces what it has.

    Fields that this version does not know are ignored. Raises ValueError with the field for data of another shape.
    """
    if record.get("version") != 1:
        raise ValueError("the version is not 1")
    names = kind.__annotations__
    return from_plain(kind, {name: value for name, value in {**record, **known}.items() if name in names})


def part(kind: type[T], file: str, record: object) -> T:
    """The fields of a record that dlrun acts on, as a dataclass, by their types; None: `file` could not be read.

    Other fields are ignored, and null is the default. Raises DamagedRecord with the file, the field and what was expected.
    """
    if not isinstance(record, dict):
        raise DamagedRecord(f"`{file}` cannot be read")
    try:
        return from_plain(
            kind, {name: record[name] for name in kind.__annotations__ if record.get(name) is not None}
        )
    except ValueError as error:
        raise DamagedRecord(f"`{file}`: {str(error).removeprefix('.')[:200]}") from None


STATE = "state.json"
_CLOCKS = 60.0
"""Seconds by which the clocks of nodes, file servers and login nodes may differ."""
LATEST = 253402300799
"""Seconds since 1970: the end of the year 9999."""

_SHAPE: dict[str, type | tuple[type, ...]] = {
    "state": str, "job_id": str, "host": str, "reason": str, "role": str, "exit_code": int, "restarts": int, "ran": int,
    "earlier": int, "launched": int, "staging": int, "results": int, "points": int,
    "started": (int, float), "ended": (int, float),
}  # fmt: skip


def run_state(run: Path) -> dict[str, Any] | None:
    """The plausible values of a run's `state.json`; None without one."""
    record = read_json(run / STATE)
    if record is None:
        return None
    return {name: value for name, value in record.items() if name in _SHAPE and _plausible(name, value)}


def _plausible(name: str, value: object) -> bool:
    if not isinstance(value, _SHAPE[name]) or isinstance(value, bool):
        return False
    # Times outside of this range make time.localtime raise; the comparison is also False for NaN.
    return not isinstance(value, int | float) or 0 <= value <= LATEST


def clock(epoch: float | None) -> str | None:
    """Seconds since 1970 as local time in the format of schedulers."""
    return None if epoch is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch))


def is_recent(since: float, seconds: float) -> bool:
    """Whether a time in seconds since 1970 is at most `seconds` ago.

    A later time than now is not: the clock was set back meanwhile, and nothing is known until it has come there again.
    """
    return -_CLOCKS <= time.time() - since < seconds


@cache
def _ids(name: str) -> re.Pattern[str]:
    try:
        return re.compile(getattr(backends.scheduler(name), "ID", _ANY_ID))
    except Invalid:
        raise DamagedRecord(f"`scheduler` is {shown(name)}") from None


def job_id(value: object, scheduler: str) -> str | None:
    """Validate a job id of a scheduler, or None, and the scheduler's name; raises DamagedRecord."""
    ids = _ids(scheduler)
    if value is None or (isinstance(value, str) and ids.fullmatch(value)):
        return value
    raise DamagedRecord(f"`job_id` is {shown(value)}, not an id of {scheduler}")


def roles(whole: object) -> tuple[str, ...]:
    """Validate the names of the roles in `role_jobs` of a plan, which are names of directories; raises DamagedRecord."""
    if whole is None:
        return ()
    jobs = whole.get("jobs") if isinstance(whole, dict) else None
    names = (
        [job.get("name") if isinstance(job, dict) else None for job in jobs or ()]
        if isinstance(jobs, list)
        else [None]
    )
    if all(isinstance(name, str) and re.fullmatch(ROLE_NAME, name) for name in names):
        return tuple(map(str, names))
    raise DamagedRecord(f"`role_jobs` is {shown(whole)}")


def shown(value: object) -> str:
    """A value for a message: short, without control characters."""
    words = repr(value)
    return f"`{words if len(words) < 60 else words[:59] + '…'}`"


def refusal(name: str, damage: str) -> DlrunError:
    """The error for a job with a damaged record."""
    if is_foreign(damage):
        return Invalid(f"`{name}` {damage}", help="dlrun acts on your own jobs only")
    if damage == WITHOUT_LIST:
        return Invalid(
            f"`{name}` is not known to be dlrun's alone: {damage}",
            help="`dlrun cancel ID` ends its job, by the scheduler's id in its submission.json; remove the directory by hand "
            "once you need nothing in it",
        )
    return Invalid(
        f"the record of `{name}` is damaged: {damage}",
        help="restore the file, or remove the directory once the scheduler has no such job",
    )
