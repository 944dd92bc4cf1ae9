"""The launcher itself: `forkrun COUNT PROGRAM…` starts processes that have FORK_RANK; the first failure ends all."""

from __future__ import annotations

import os
import subprocess
import sys


def main() -> int:
    """Start them, wait, and give the first failure's exit code."""
    count, program = int(sys.argv[1]), sys.argv[2:]
    ranks = [subprocess.Popen(program, env={**os.environ, "FORK_RANK": str(n)}) for n in range(count)]
    codes = [rank.wait() for rank in ranks]
    return next((code for code in codes if code), 0)
