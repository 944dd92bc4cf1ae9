"""Run what was planned: the node program on this machine, or the staging job's own script in this allocation."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dlrun.effects import jobs
from dlrun.effects.job_files import files
from dlrun.effects.stage import Staging, expanded
from dlrun.errors import OperationFailed
from dlrun.model.plan import DataPlan
from dlrun.model.text import Shell, Text
from dlrun.node import bundle
from dlrun.plan.data_words import stage_words

LOOK = 0.2
"""Seconds between looks at the log of the job's first node."""


def on_this_machine(staging: Staging, *, as_json: bool, quota: str | None, say: Callable[[str], None]) -> int:
    """Stage every set here; the exit status of the first that fails. Its place is printed by the node program."""
    directory = expanded(staging.directory)
    with node_program() as program, tempfile.TemporaryDirectory(prefix="dlrun-stage-") as run_dir:
        for data in staging.plan.data:
            say(f"{data.name}: {data.strategy.replace('_', ' ')}: {data.because}")
            if data.strategy == "in_place":
                _tell_in_place(data, as_json)
                continue
            words = [_literal(word, run_dir) for word in stage_words(data, staging.plan.request)]
            more = ["--json"] if as_json else []
            if quota is not None:
                more += ["--quota", quota]
            status = program("stage", *words, "--to", directory, *more)
            if status:
                return status
    return 0


@contextmanager
def node_program() -> Iterator[Callable[..., int]]:
    """Runs commands of the node program with this terminal's streams; returns their exit status."""
    with tempfile.TemporaryDirectory(prefix="dlrun-node-") as scratch:
        path = str(Path(scratch) / "node.pyz")
        bundle.write(path)

        def run(*words: str) -> int:
            sys.stdout.flush()
            process = subprocess.Popen([sys.executable, "-I", path, *words])
            try:
                return process.wait()
            except KeyboardInterrupt:  # it was interrupted as well
                process.wait()
                raise

        yield run


def in_allocation(staging: Staging, *, say: Callable[[str], None]) -> None:
    """Run the staging job's script on the nodes of this allocation. Raises OperationFailed with its last words."""
    target = jobs.new_directory(jobs.home(), staging.plan.name).absolute()
    jobs.create(target, files(staging.plan, staging.inputs, target), None)
    log = target / "logs" / "job.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            ["bash", str(target / "job.sh")],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=target,
        )
        try:
            _follow(process, target / "logs" / "stage-0.log", say)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        raise OperationFailed(
            "the data did not reach every node:\n  " + "\n  ".join(last),
            help=f"every node's report is in {target}/logs",
        )


def _follow(process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None]) -> None:
    """Say what the first node reports while the script runs."""
    told = 0
    while True:
        ended = process.poll() is not None
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        for line in lines[told:]:
            say(line)
        told = len(lines)
        if ended:
            return
        time.sleep(LOOK)


def _literal(word: Text, run_dir: str) -> str:
    return "".join(run_dir if isinstance(part, Shell) else part for part in word.parts)


def _tell_in_place(data: DataPlan, as_json: bool) -> None:
    if as_json:
        event = {
            "event": "in place",
            "name": data.name,
            "path": data.source,
            "version": 1,
            "why": data.because,
        }
        sys.stdout.write(json.dumps(event, sort_keys=True) + "\n")
    else:
        sys.stdout.write(data.source + "\n")


def look_after(words: Sequence[str]) -> int:
    """Run `list`, `evict` or `clean` of the node program on this machine."""
    with node_program() as program:
        return program(*words)
