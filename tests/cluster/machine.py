"""Runs the commands that prepare this machine itself."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

APT = ("apt-get", "-o", "DPkg::Lock::Timeout=600", "-qq")
"""apt-get, which waits if another one is at work."""


def run(command: Sequence[str], cwd: Path | None = None) -> None:
    """Run a command that asks nothing; raises ClusterError with its output if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        msg = f"`{shlex.join(command)}` failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise ClusterError(msg)
