"""A program on each host of a sweep inside one job, which at the job's end removes the data of all points. Used by pool.py."""

import os
import subprocess
from typing import Any, Callable, Dict, Iterable, List


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
