"""Commands with streams that are closed, full or without a reader, in directories, with variables and limits that do not fit."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests import forked

SLOW = 2.0
"""Seconds of CPU that a command may take."""
ALLOWED = (0, 1, 2)
"""Exit codes: done, the operation failed, invalid (`dlrun help exit-codes`)."""
SUBMIT = ("submit", "submit --parsable", "submit --json")
COMMANDS = (
    *SUBMIT, *SUBMIT, "list", "list --json", "status", "status latest", "logs latest", "why latest", "results latest",
    "usage latest", "report latest -o page.html", "cancel latest", "top latest --once", "clean", "explain DLR001", "keys",
    "schema spec", "site list", "site show workstation", "plan spec.yaml", "plan spec.yaml -o run.json", "render spec.yaml",
    "submit spec.yaml --dry-run", "init", "init new.yaml --run true", "import old.sbatch", "import old.sbatch -o new.yaml",
    "tune-affinity spec.yaml", "completion bash", "--help", "--version", "help exit-codes", "submit missing.yaml", "nothing",
    "fetch latest", "stage-data --list", "scale show missing", "tune --show missing", "resubmit latest --help",
)  # fmt: skip
SPEC = "name: a\ncommand: ['true']\nresources: {nodes: 1, walltime: 1h}\nsite: generic-slurm\n"
SBATCH = "#!/bin/sh\ncat >/dev/null\necho 'Submitted batch job 4242'\n"


@cache
def _jobs() -> Path:
    """A directory with a job that ran here."""
    place = Path(tempfile.mkdtemp(prefix="dlrun-fuzz-jobs-"))
    (place / "spec.yaml").write_text(SPEC.replace("generic-slurm", "workstation"))
    done = forked.run(["submit", "spec.yaml", "--wait"], place, {"DLRUN_JOBS": str(place / "jobs")})
    assert done.code == 0, done.stderr
    return place / "jobs"


def _project(place: Path) -> None:
    (place / "spec.yaml").write_text(SPEC)
    (place / "old.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    (place / "bin").mkdir()
    for name in ("sbatch", "scontrol", "squeue", "sacct"):
        (place / "bin" / name).write_text(SBATCH)
        (place / "bin" / name).chmod(0o755)
    (place / "file").touch()
    for name, mode in (("shared", 0o777), ("readonly", 0o555), ("home", 0o700), ("work", 0o755)):
        (place / name).mkdir()
        (place / name).chmod(mode)


def _variables(place: Path, chance: random.Random) -> dict[str, str | None]:
    places = (None, "", "/proc/nowhere", str(place / "absent"), "relative", "~", str(place / "file"), str(place / "shared"),
              str(place / "home"),
              "/dev/null", str(place / "readonly"), "/" + "x" * 300)  # fmt: skip
    found: dict[str, str | None] = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    for name in (
        "HOME",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "DLRUN_SITE_PATH",
    ):
        if chance.random() < 0.35:
            found[name] = chance.choice(places)
    for name, values in {
        "COLUMNS": ("0", "-5", "x", "99999999"),
        "TERM": ("", "dumb", "nothing", "xterm-256color"),
        "LANG": ("C", "xx_YY", ""),
        "NO_COLOR": ("1",),
        "FORCE_COLOR": ("1",),
        "TZ": ("nowhere", "", ":"),
    }.items():
        if chance.random() < 0.15:
            found[name] = chance.choice(values)
    return found


def _streams(chance: random.Random) -> dict[int, str]:
    kinds = ("closed", "full", "broken", "unreadable")
    return {number: chance.choice(kinds) for number in (0, 1, 2) if chance.random() < 0.4}


def _apply(streams: dict[int, str], limits: dict[int, int], gone: Path | None) -> Callable[[], None]:
    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if gone is not None:
            os.chdir(gone)
            gone.rmdir()
        for number, kind in streams.items():
            if kind == "closed":
                os.close(number)
                continue
            if kind == "broken":
                read, opened = os.pipe()
                os.close(read)
            elif kind == "full":
                opened = os.open("/dev/full", os.O_RDWR)
            else:
                opened = os.open(os.devnull, os.O_WRONLY if number == 0 else os.O_RDONLY)
            os.dup2(opened, number)
            os.close(opened)
        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))

    return before


def case(place: Path, chance: random.Random) -> None:
    """One command: it ends with one of its exit codes, in time, without a traceback, and names the job that it submitted."""
    _project(place)
    command = chance.choice(COMMANDS)
    submits = command in SUBMIT
    words = [command.split()[0], "spec.yaml", *command.split()[1:]] if submits else command.split()
    variables = _variables(place, chance)
    variables["DLRUN_JOBS"] = str(place / "jobs") if submits else str(_jobs())
    streams = _streams(chance)
    limits = {}
    if chance.random() < 0.15:
        limits[resource.RLIMIT_FSIZE] = chance.choice((0, 100, 5000))
    if chance.random() < 0.1:
        limits[resource.RLIMIT_NOFILE] = chance.choice((8, 16, 64))
    gone = place / "work" if chance.random() < 0.2 else None
    try:
        done = forked.run(words, place, variables, before=_apply(streams, limits, gone), seconds=60)
        _check(done, words, place, submits, streams)
    finally:
        shutil.rmtree(place / "shared", ignore_errors=True)


def _check(done: forked.Ended, words: list[str], place: Path, submits: bool, streams: dict[int, str]) -> None:
    assert done.code != 99, done.stderr[-1500:]
    shown = f"{' '.join(words)}: exit code {done.code}, streams {streams}\n{done.stdout[-200:]}\n{done.stderr[-1500:]}"
    assert done.code in ALLOWED, shown
    assert "Traceback" not in done.stderr, shown
    assert "this is a bug" not in done.stderr, shown
    assert done.cpu < SLOW, f"{done.cpu:.1f} s: {shown}"
    submitted = submits and any(
        '"job_id": "4242"' in path.read_text() for path in place.glob("jobs/*/submission.json")
    )
    readable = (1 not in streams and done.code == 0) or 2 not in streams
    if submitted and readable:
        assert "4242" in done.stdout + done.stderr, shown
    if submitted and not done.stdout and 2 not in streams:
        assert "the job is submitted as 4242" in done.stderr, shown
