"""Records of the jobs that use a published data set: they prevent its eviction, and show which sets belong to ended jobs.

A use ends when it is released, when the node reboots, or at the end of the job's walltime. That time is on the boot-time
clock, so that changes of the wall clock cannot expire it. Where what should have released it was killed, it ends when none of
the job's processes is on this node any more, and either its own record has its end, or it has left a standby's record here: a
standby is there as long as its job (templates/lib/stage.sh).
"""

import contextlib
import json
import os
import time
from typing import Any, Dict, List, NamedTuple, Sequence

from ..common import text
from ..common.errors import NodeError
from ..common.system import boot, environment
from .area import CONTROL, Area, set_name

STANDBY = b"standby."  # with a job: the record that its standby has begun on this node
MOUNTS = b"mounts"  # in the control directory: a directory for each set and job
FOREVER = 30 * 86400.0  # duration of a use in seconds without a walltime
_LOOKS = 3  # at most, for processes of a run, where some end meanwhile
TICK = 1e-3  # seconds between the last uses of two sets, at least
# Python 3.6 has only the monotonic clock, which does not run while a node is suspended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Use(NamedTuple):
    """One job's use of one data set on this node."""

    name: bytes
    job: str
    keep: str
    live: bool


def record_use(area: Area, name: bytes, job: str, lasting: float, keep: str) -> None:
    """Record that a job uses a set for at most `lasting` seconds (0: `FOREVER`), from now on."""
    run = [os.environ.get(key, "") for key in ("DLRUN_RUN_DIR", "DLRUN_RUN_ID")]
    _write(area, name, job, lasting, keep, run=run)


def record_given(area: Area, name: bytes, arguments: Any) -> None:
    """Record the use by the job that the arguments name, and by the whole job of which that is a part."""
    if arguments.job:
        record_use(area, name, arguments.job, arguments.lasting, arguments.keep)
    if arguments.held_by:
        run = [os.environ.get(key, "") for key in ("DLRUN_JOB_DIR", "DLRUN_HELD_BY")]
        _write(area, name, arguments.held_by, arguments.lasting, arguments.keep, run=run)


def _write(area: Area, name: bytes, job: str, lasting: float, keep: str, *, run: List[str]) -> None:
    set_name(job)
    until = _since_boot() + (lasting or FOREVER)
    area.write_record(_record(name, job), {"until": until, "boot": boot(), "keep": keep, "run": run})


def touch(area: Area, name: bytes) -> None:
    """Record a use of a set now, for the order of eviction: later than all others, even after a clock change."""
    others = max((used for other, used in last_uses(area).items() if other != name), default=0.0)
    area.write_record(b"used." + name, {"at": max(time.time(), others + TICK)})


def recorded(area: Area) -> List[bytes]:
    """The names of the sets that dlrun published here: a copy of a set's directory has no record."""
    return area.controls(b"used.")


def last_uses(area: Area) -> Dict[bytes, float]:
    """The time of the last use of each set that dlrun published here, in seconds since 1970; 0 if unknown."""
    return {name: float(area.read_record(b"used." + name).get("at", 0.0)) for name in recorded(area)}


def _since_boot() -> float:
    """Seconds."""
    return time.clock_gettime(_CLOCK)


def _record(name: bytes, job: str) -> bytes:
    return b"use." + name + b"@" + job.encode("ascii")


def all_uses(area: Area) -> List[Use]:
    """All recorded uses, including those of dead jobs."""
    now, here = _since_boot(), boot()
    uses = []
    for rest in area.controls(b"use."):
        name, _, job = rest.rpartition(b"@")
        record = area.read_record(b"use." + rest)
        live = record.get("boot") == here and float(record.get("until", 0.0)) > now
        if live:
            standby = area.read_record(STANDBY + job)
            live = not _is_over(record, standby)
        uses.append(Use(name, job.decode("ascii"), str(record.get("keep", "cache")), live))
    return uses


def _is_over(record: Dict[str, Any], standby: Dict[str, Any]) -> bool:
    """Whether the run of a job with this record of use is certainly over on this node; False if it is unknown."""
    try:
        directory, run = record["run"]
        # The processes of another PID namespace may not be seen here.
        stood_by = standby.get("boot") == boot() and standby.get("names") == os.readlink("/proc/self/ns/pid")
        return bool(run and (stood_by or _has_ended(directory, run)) and not _runs_here(os.fsencode(run)))
    except (KeyError, TypeError, ValueError, OSError):
        return False


def _has_ended(directory: str, run: str) -> bool:
    """Whether a run has recorded its end."""
    with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
        state = json.load(file)
    return bool(state["state"] == "ended" and run.startswith(state["job_id"]))


def _runs_here(run: bytes) -> bool:
    """Whether a process of this run is on this node: also its standby, which may still copy results from here."""
    mark = b"DLRUN_RUN_ID=" + run
    for _ in range(_LOOKS):
        ended = False
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in environment(process):
                    return True
            except (FileNotFoundError, ProcessLookupError):
                ended = True  # it may have started another since the list was read
            except OSError:
                pass
        if not ended:
            break
    return False


def users_by_set(area: Area) -> Dict[bytes, List[str]]:
    """The jobs that use each set now; sets without users are left out."""
    jobs: Dict[bytes, List[str]] = {}
    for use in all_uses(area):
        if use.live:
            jobs.setdefault(use.name, []).append(use.job)
    return jobs


def users(area: Area, name: bytes, except_job: str = "") -> List[str]:
    """The jobs that use a set now, other than `except_job`."""
    return [job for job in users_by_set(area).get(name, []) if job != except_job]


def require_unused(area: Area, name: bytes, job: str, changed: Sequence[bytes]) -> None:
    """Raise NodeError if a job other than `job` uses a set that is to be replaced; changed: files that differ from the copy."""
    others = users(area, name, job)
    if others:
        data_set, by = name.decode("ascii"), "in use by job {}".format(", ".join(others))
        message = "`{}` is out of date and {}".format(data_set, by)
        if changed:
            message = "the copy of `{}` was changed ({}) and is {}".format(data_set, text.names(changed), by)
        raise NodeError(message, "stage it under another name, or wait until that job ends")


def release(area: Area, use: Use) -> None:
    """End a use."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_record(use.name, use.job), dir_fd=area.control)


def mount_point(area: Area, name: bytes, job: str) -> bytes:
    """Where a job sees a set that is an image: the directory exists afterwards."""
    for directory in (MOUNTS, MOUNTS + b"/" + name + b"@" + job.encode("ascii")):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700, dir_fd=area.control)
    return b"/".join((area.path, CONTROL, directory))


def mounts(area: Area) -> Dict[bytes, bytes]:
    """`SET@JOB` -> path of all directories for mounts."""
    above = b"/".join((area.path, CONTROL, MOUNTS))
    with contextlib.suppress(FileNotFoundError):
        # By its path: a descriptor cannot be listed in Python 3.6.
        return {name: above + b"/" + name for name in os.listdir(above)}
    return {}


def unmount_unused(there: Dict[bytes, bytes], recorded: Sequence[Use]) -> None:
    """Unmount what no job uses any more; recorded: the uses, read after `there`, since a job mounts what it uses already."""
    live = {use.name + b"@" + use.job.encode("ascii") for use in recorded if use.live}
    for place in [there[name] for name in there if name not in live]:
        # Imported only here: most jobs have no image.
        from ..common.mounts import unmount

        unmount(place)
        with contextlib.suppress(OSError):
            os.rmdir(place)
