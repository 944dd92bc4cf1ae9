"""A program on each host of a sweep inside one job, which at the job's end removes the data of all points. Used by pool.py."""

import contextlib
import os
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, List

ENDS = 60.0
"""Seconds within which the programs end."""


class Holders:
    """The programs of the hosts; each lasts until its standard input ends, which it does also when this process is killed."""

    def __init__(self, directory: str) -> None:
        self.program = os.path.join(directory, "stage.sh")
        self.processes: Dict[str, Any] = {}

    def start(self, hosts: Iterable[str], words: Callable[[str], List[str]]) -> None:
        """Start one on each host, where `words` begin a program, if the job has such data; DLRUN_HELD_BY: the job."""
        run = os.environ.get("DLRUN_HELD_BY")
        environment = dict(os.environ, DLRUN_RUN_ID=run or "")
        for host in hosts if run else ():
            self.processes[host] = subprocess.Popen(
                [*words(host), "bash", "-p", self.program, "hold"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                env=environment,
            )  # fmt: skip

    def end(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            with contextlib.suppress(OSError):
                process.stdin.close()
        until = time.monotonic() + ENDS
        for process in self.processes.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
