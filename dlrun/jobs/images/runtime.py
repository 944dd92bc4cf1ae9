"""Apptainer or Singularity: pulls an image and converts it to one file, with a line about its progress from time to time."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.hubs.store import size_of
from dlrun.model.program import CONVERSION_ROOM, ImageSource
from dlrun.model.text import visible
from dlrun.model.units import Bytes, Duration
from dlrun.system.process import stop_all

_EVERY = 10.0
"""Seconds between two lines about the progress."""
_NO_ROOM = (
    "`APPTAINER_TMPDIR` and `APPTAINER_CACHEDIR` name places with room for the conversion; the file itself lies beside the job "
    "directories (`DLRUN_JOBS`), where `dlrun clean --yes` removes what no job uses"
)
_LIMITED = "the registry limits requests: submit again later; what has come is kept"
_DENIED = (
    "check the name; credentials are in `APPTAINER_DOCKER_USERNAME` and `APPTAINER_DOCKER_PASSWORD` (also under `secrets`), or "
    "kept by `apptainer registry login`"
)
_AWAY = (
    "submit from a host that has a network; an image that was pulled before is found without one by its digest "
    "(`docker://NAME@sha256:…`)"
)
_HELP = (
    (r"no space left|quota exceeded", _NO_ROOM),
    (r"toomanyrequests|too many requests", _LIMITED),
    (r"denied|unauthorized|authentication required|\b40[13]\b", _DENIED),
    (r"refused|no such host|timeout|timed out|unreachable|resolve", _AWAY),
)


def program(source: ImageSource) -> str:
    """The path of the runtime; raises Invalid without one."""
    path = next(filter(None, map(shutil.which, ("apptainer", "singularity"))), None)
    if path is None:
        raise Invalid(
            f"`{source}` is pulled and converted here, and neither apptainer nor singularity is on PATH",
            help="load its module in this shell (`module load apptainer`), or submit where it is installed; with "
            "`environment.container.fetch: job` the job pulls it, on its first node",
        )
    return path


def pull(
    source: ImageSource,
    runtime: str,
    to: Path,
    work: Path,
    inherited: Mapping[str, str],
    notice: Callable[[str], None],
) -> None:
    """Pull an image to a path below `work`, which also has the layers that have come, for a later attempt.

    inherited: the environment. Raises OperationFailed; a signal ends the pull with this process.
    """
    with tempfile.TemporaryDirectory(
        prefix="dlrun-image-", dir=_roomy(work), ignore_cleanup_errors=True
    ) as unpacked:
        environment = dict(inherited)
        places = {"CACHEDIR": str(work / "cache"), "TMPDIR": unpacked}
        for name, path in places.items():
            if not any(f"{kind}_{name}" in inherited for kind in ("APPTAINER", "SINGULARITY")):
                environment |= {f"APPTAINER_{name}": path, f"SINGULARITY_{name}": path}
        start, log = time.monotonic(), to.with_suffix(".log")
        with log.open("wb") as out:
            try:
                process = subprocess.Popen(
                    [runtime, "pull", str(to), source.pinned],
                    env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise failed(source, f"`{runtime}` cannot be started: {error.strerror}") from None
        with process:
            try:
                while _goes_on(process):
                    written = Bytes(sum(map(size_of, map(Path, places.values()))))
                    since = Duration(round(time.monotonic() - start))
                    notice(f"{source}: {_last(log) or 'begun'}; {written} written after {since}")
            except BaseException:
                stop_all(process)
                raise
    if process.returncode != 0:
        raise failed(source, _last(log) or f"{runtime} ended with exit code {process.returncode}")
    if not to.is_file() or to.is_symlink():
        raise failed(source, f"{runtime} has written no file")


def failed(source: ImageSource, why: str) -> OperationFailed:
    """The error for the user, with the way out for the causes that are known."""
    way_out = next(
        (text for pattern, text in _HELP if re.search(pattern, why, re.IGNORECASE)),
        "`apptainer pull` of it in this shell shows all of its messages",
    )
    return OperationFailed(f"`{source}` cannot be pulled: {why}", help=way_out)


def _goes_on(process: subprocess.Popen[bytes]) -> bool:
    """Wait until the next line about the progress is due; False once the process has ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EVERY)
        return False
    return True


def _last(log: Path) -> str:
    """The last line of the runtime that says something, without its colours and its level."""
    text = log.read_bytes()[-10_000:].decode("utf-8", "replace")
    lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).strip() for line in re.split(r"[\r\n]", text)]
    return visible(
        re.sub(r"^(?:INFO|FATAL|ERROR|WARNING):\s*", "", next((line for line in reversed(lines) if line), ""))
    )


def _roomy(work: Path) -> Path:
    """Where an image is unpacked: the temporary directory of this host if it has room, else the roomier of it and the store."""
    local = Path(tempfile.gettempdir())
    free = shutil.disk_usage(local).free
    return local if free >= min(CONVERSION_ROOM, shutil.disk_usage(work).free) else work
