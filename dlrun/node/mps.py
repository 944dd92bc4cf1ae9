"""NVIDIA's MPS for points that share GPUs: one control daemon on each host, from before the first point until the job ends.

lib/mps.sh holds it there as long as its standard input lasts. A program that finds no daemon runs without MPS, and does not tell
(nvidia-cuda-mps-control(1)), so points start only where one has answered.
"""

import os
import select
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, List

BEGINS = 60.0
"""Seconds within which the daemons answer: a step of the scheduler, and 30 in lib/mps.sh."""


class Daemons:
    """The daemons of a job, each held by a process here; share: percent of a GPU's threads for each point, 0: there are none."""

    def __init__(self, directory: str, share: int) -> None:
        self.program = os.path.join(directory, "lib", "mps.sh")
        self.share = share
        self.processes = {}  # type: Dict[str, Any] # by host
        self.pipes = {}  # type: Dict[str, str] # host -> directory of its daemon

    def start(self, hosts: Iterable[str], words: Callable[[str], List[str]]) -> List[str]:
        """Start a daemon on each host, where `words` begin a program; the hosts where none answers."""
        if not self.share:
            return []
        for host in hosts:
            self.processes[host] = subprocess.Popen(
                [*words(host), "bash", "-p", self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        until = time.monotonic() + BEGINS
        for host, process in self.processes.items():
            word, _, pipe = first_line(process, until).partition(" ")
            if word == "ready":
                self.pipes[host] = pipe
        return [host for host in self.processes if host not in self.pipes]

    def environment(self, host: str) -> Dict[str, str]:
        """The environment of a point on a host."""
        if host not in self.pipes:
            return dict(os.environ)
        share = str(self.share)
        return dict(
            os.environ, CUDA_MPS_PIPE_DIRECTORY=self.pipes[host], CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=share
        )


def first_line(process: Any, until: float) -> str:
    """The first line that a process prints, or what it has printed by then, or at its end."""
    text = b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        part = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not part:
            break
        text += part
    return text.decode("utf-8", "replace").strip()
