"""What the files of a job directory contain, read together and not decoded: `jobs.load` makes a job of it.

A job that submits itself again (`dlrun_resubmit`) has another id for each of its runs, which its script records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlrun.jobs.records import ownership
from dlrun.jobs.records.directories import ANSWER, SUBMISSION
from dlrun.jobs.records.plans import PLAN
from dlrun.jobs.records.validation import FOREIGN, WITHOUT_LIST, DamagedRecord, read_json
from dlrun.model.record import record
from dlrun.system.paths import read_bytes, text_of

ID = "job-id"
"""The ids of a job that resubmits itself, written by its script."""
_FOLLOWED = ".followed"
"""The ids that another run has followed, written by the script as well."""
_MOST = 1 << 20
_MADE = (SUBMISSION, "job.sh", "lib/job.sh")
"""Files of a job directory that an earlier version made, which kept no list of them."""


@record(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Contents of the files; None: not a JSON object, or not to be read.

    damage: why they are not taken for a job's, such as another owner; last_id: of a job that resubmits itself, None for others.
    Where neither this nor the record of the submission has an id: answer: the output of the client of an interrupted submission,
    empty without one; begun: the id that a started job recorded.
    """

    plan: Mapping[str, Any] | None
    submission: Mapping[str, Any] | None
    damage: str | None = None
    last_id: str | None = None
    answer: str = ""
    begun: Any = None


def files_of(directory: Path) -> JobFiles | None:
    """The files of a job directory; None for another directory.

    Only the list of what dlrun wrote there (`ownership`) makes it one: a plan may be saved anywhere.
    """
    damage, last = _foreign(directory), None
    try:
        last = last_id(directory)
    except DamagedRecord as fault:
        damage = damage or str(fault)
    if not ownership.is_own(directory):
        # os.path: False for invalid names, for which Path.exists raises.
        if not all(os.path.lexists(os.path.join(directory, name)) for name in _MADE):  # noqa: PTH118
            return None
        damage = damage or WITHOUT_LIST
    plan, submission = (read_json(directory / name) for name in (PLAN, SUBMISSION))
    if damage is not None:
        return JobFiles(plan=plan, submission=submission, damage=damage)
    if submission is None and not (directory / SUBMISSION).exists():
        if (directory / ".submission").is_dir():
            return None  # sent from another machine that shares this file system and has the record
        submission = {}
    if last is not None or (submission or {}).get("job_id") is not None:
        return JobFiles(plan=plan, submission=submission, last_id=last)
    return JobFiles(
        plan=plan,
        submission=submission,
        answer=text_of(directory / ANSWER, _MOST).strip("\n"),
        begun=_begun(directory),
    )


def _foreign(directory: Path) -> str | None:
    """The damage of a directory of which another user owns a part; None if this user owns all, or what is there of it."""
    for path in (directory, *(directory / name for name in (PLAN, SUBMISSION, ID))):
        try:
            owner = path.stat().st_uid
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return f"`{path.name}` cannot be read: {getattr(error, 'strerror', error)}"
        if owner != os.geteuid():
            return f"{FOREIGN} (uid {owner})"
    return None


def last_id(directory: Path) -> str | None:
    """The id of the last run; None for a job that never submitted itself again. Raises DamagedRecord."""
    try:
        return read_bytes(directory / ID, _MOST).decode("ascii").split()[-1]
    except (FileNotFoundError, IndexError):
        return None
    except (OSError, ValueError):
        raise DamagedRecord(f"`{ID}` cannot be read") from None


def earlier_ids(directory: Path) -> list[str]:
    """The ids under which the job was submitted and ran before; unreadable ones are left out."""
    submitted = (read_json(directory / SUBMISSION) or {}).get("job_id")
    followed = text_of(directory / _FOLLOWED, _MOST).split()
    return [*([submitted] if isinstance(submitted, str) else []), *followed]


def _begun(directory: Path) -> object:
    states = (directory / "state.json", *directory.glob("points/*/state.json"))
    ids = ((read_json(state) or {}).get("job_id") for state in states)
    return next((job_id for job_id in ids if job_id is not None), None)
