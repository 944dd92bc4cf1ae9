"""Functions of the bash library, called directly: `templates/lib` and the parts that stand beside back ends."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dlrun.resources import directory as resource
from tests import house

LIBRARY = resource("templates") / "lib"
BESIDE = sorted(
    path
    for place in ("schedulers/*/*.sh", "launchers/*.sh")
    for path in (house.ROOT / "dlrun").glob(place)
    if not path.stem.startswith("find_")
)
PARTS = {path.stem: path for path in (*sorted(LIBRARY.glob("*.sh")), *BESIDE)}
"""Name -> file of each part of the library."""
BASH = os.environ.get("DLRUN_TEST_BASH", "bash")
"""The bash that runs the library; an old one can be named, to see whether it does."""


OF_PAGES = ("--exclude=SC1091,SC2016,SC2054,SC2089,SC2090",)
"""How shellcheck looks at pages: lib/ is checked by itself, and literal dollars, commas and quotes are meant."""


def link(place: Path) -> None:
    """Give a job directory a `lib/` with every part."""
    (place / "lib").mkdir(exist_ok=True)
    for path in PARTS.values():
        with suppress(FileExistsError):  # several jobs of a test may begin at once
            (place / "lib" / path.name).symlink_to(path)


def call(
    place: Path, lines: str, *, check: bool = True, timeout: float = 120, shell: str = BASH, **programs: str
) -> subprocess.CompletedProcess[str]:
    """Run lines in a shell that has job.sh's functions, with `place` as job and run directory.

    `programs` are found first on PATH, each the text of a bash script. Exits and traps are the shell's own, not the job's.
    """
    link(place)
    for name, text in programs.items():
        (place / name).write_text(f"#!/bin/bash\n{text}\n")
        (place / name).chmod(0o755)
    head = f"""set -euo pipefail
    place={shlex.quote(str(place))}
    export DLRUN_JOB_DIR=$place DLRUN_RUN_DIR=$place DLRUN_HOSTS=$place/hosts PATH=$place:$PATH
    unset place
    export DLRUN_JOB_ID=7 DLRUN_RUN_ID=7.0 DLRUN_RESTART=0 DLRUN_NODES=2
    source {LIBRARY}/job.sh
    _dlrun_host=here
    _dlrun_begin_clock
    _dlrun_started=0
    dlrun_log() {{ echo "$*"; }}
    """
    return subprocess.run(
        [shell, "-c", head + lines], capture_output=True, text=True, timeout=timeout, check=check,
        env={"PATH": os.environ["PATH"], "HOME": str(place)},
    )  # fmt: skip


RANKS = (
    "rank", "warning", "bind", "divide", "gpus", "place", "locate", "checks", "world", "agent", "container", "caches", "stage",
    "seed", "standby", "left", "pull",
)  # fmt: skip
"""Parts that run in a shell of their own."""


def local_names(parts: Iterable[str] | None = None) -> set[str]:
    """The names of the local variables in these parts; without, in those that `job.sh` sources."""
    parts = parts or [name for name in PARTS if name not in RANKS]
    found: set[str] = set()
    for part in parts:
        for line in PARTS[part].read_text().splitlines():
            if match := re.match(r"\s+local (?:-\w+ )?(.*)", line):
                said = re.sub(r"\$?\([^)]*\)+|'[^']*'|\"[^\"]*\"|\s#.*", "", match[1])
                found |= {word.partition("=")[0] for word in re.findall(r"[A-Za-z_]\w*(?:=\S*)?", said)}
    return {name for name in found if not name.startswith(("_dlrun_", "DLRUN_"))}
