"""Run a staging plan: the node program on this machine, or the staging job's script in this allocation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, Any, Protocol

from dlrun.errors import Interrupted, OperationFailed
from dlrun.jobs.clusters.environment import secret_values
from dlrun.jobs.code import programs
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.staging.plan import StagingJob, expanded, expanded_here
from dlrun.jobs.submission import node_archive
from dlrun.jobs.submission.files import files
from dlrun.model.plan import DataPlan
from dlrun.model.text import LINES, Shell, Text, visible
from dlrun.node import bundle
from dlrun.node.__main__ import RESUME_HINTS
from dlrun.plan.data.stage_arguments import stage_words
from dlrun.render.written_names import written_names
from dlrun.system.writing import append_to

EVENTS = "stage-0.jsonl"
"""The file in a job's logs with the staging events of its first node, as JSON lines."""

POLL = 0.2
"""Seconds between reads of the first node's log."""

_PROGRESS = re.compile(r".+?: \d+ %, \S+ of ")
"""A progress line of a node (`dlrun.node.common.progress`), redundant beside a bar."""


class Bar(Protocol):
    """Draws the progress of staging on a terminal."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Take a JSON event of the node program."""

    def message(self, line: str) -> None:
        """Print a message above the bar."""

    def close(self) -> None:
        """Remove the bar."""


class Events:
    """The JSON lines of the node program, read while they are written."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def new(self) -> Iterator[dict[str, Any]]:
        """The events since the last call, from complete lines."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return
        end = content.rfind(b"\n") + 1
        for line in content[self._offset : end].splitlines():
            yield json.loads(line)
        self._offset = max(self._offset, end)

    def all(self) -> Iterator[dict[str, Any]]:
        """Every event."""
        self._offset = 0
        return self.new()


def summary(staging: StagingJob, nodes: int, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The result of a staging: the path of each set on the nodes, and the report of the first node."""
    reports = {
        event["name"]: {key: value for key, value in event.items() if key not in ("event", "name", "version")}
        for event in events
        if event["event"] in ("done", "in place")
    }
    there = expanded(staging.directory)
    sets = {
        data.name: data.source
        if data.strategy == "in_place" or "why" in reports.get(data.name, {})
        else f"{there}/{data.name}/data"
        for data in staging.plan.data
    }
    return {"nodes": nodes, "sets": sets, "reports": reports}


def on_this_machine(
    staging: StagingJob,
    *,
    as_json: bool,
    notice: Callable[[str], None],
    events: Path | None = None,
    bar: Bar | None = None,
) -> int:
    """Copy all data sets to this machine; returns 0, or the exit status of the first failure.

    The node program prints the paths. events: a file for the JSON lines, too; bar: draws their progress.
    """
    directory = expanded_here(staging.directory)
    with (
        node_program(events, secret_values(staging.plan)) as program,
        tempfile.TemporaryDirectory(prefix="dlrun-stage-") as run_dir,
    ):
        for data in staging.plan.data:
            notice(f"{data.name}: {data.strategy.replace('_', ' ')}: {data.because}")
            if data.strategy == "in_place":
                _print_in_place(data, as_json)
                continue
            words = [
                _literal(word, run_dir)
                for word in stage_words(data, staging.plan.request, staging.plan.stage_quota)
            ]
            more = ["--json"] if as_json else ["--interval", "0.2s"] if bar else []
            status = program("stage", *words, "--to", directory, *more, bar=bar)
            if status:
                return status
    return 0


@contextmanager
def node_program(
    events: Path | None = None, secrets: Mapping[str, str] | None = None
) -> Iterator[Callable[..., int]]:
    """Yield a function that runs a command of the node program with this process's streams and returns its exit status.

    `secrets` are variables that this program needs.
    """
    environment = {**os.environ, **(secrets or {}), **({"DLRUN_STAGE_EVENTS": str(events)} if events else {})}
    with tempfile.TemporaryDirectory(prefix="dlrun-node-") as scratch:
        path = str(Path(scratch) / "node.pyz")
        bundle.write(path, node_archive.content())

        def run(*words: str, bar: Bar | None = None, output: IO[bytes] | None = None) -> int:
            sys.stdout.flush()
            command = [sys.executable, "-I", path, *words]
            if bar is not None and events is not None:
                return _drawn(command, {**environment, "DLRUN_STAGE_BAR": "1"}, Events(events), bar)
            process = subprocess.Popen(command, env=environment, stdout=output)
            try:
                return process.wait()
            except KeyboardInterrupt:
                # Ctrl-C in the terminal also interrupts the program, which reports it, unless it had ended or just started.
                status = process.wait()
                if status != Interrupted.exit_code:
                    raise
                return status

        yield run


def _drawn(command: Sequence[str], environment: Mapping[str, str], events: Events, bar: Bar) -> int:
    """Run a command of the node program with a progress bar; returns its exit status.

    Messages are printed above the bar, the result after the bar is removed.
    """
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None  # noqa: S101 - they are pipes
    assert process.stderr is not None  # noqa: S101
    messages = process.stderr

    def pass_messages() -> None:
        for line in messages:
            bar.message(line.rstrip("\n"))

    printer = Thread(target=pass_messages, daemon=True)
    printer.start()
    try:
        pass_on(events, lambda: process.poll() is not None, bar.event)
    except KeyboardInterrupt:
        # Ctrl-C in the terminal has interrupted the program, too.
        process.wait()
    finally:
        printer.join()
        bar.close()
    sys.stdout.write(visible(process.stdout.read(), keep=LINES))
    return process.returncode


def in_allocation(
    staging: StagingJob,
    *,
    notice: Callable[[str], None],
    event: Callable[[dict[str, Any]], None] | None = None,
    bar: Bar | None = None,
) -> Events:
    """Run the staging job's script on the nodes of this allocation; returns the events of the first node.

    Its report goes to `notice`, or as events to `event`; bar: draws its progress. Raises OperationFailed with the last lines
    of the script's log.
    """
    target = directories.new_directory(jobs.home(), staging.plan.name).absolute()
    made = files(staging.plan, staging.inputs, target)
    shared = programs.shared(target.parent, target, made)
    directories.create(target, made, written_names(staging.plan), shared=shared)
    log, events = target / "logs" / "job.log", Events(target / "logs" / EVENTS)
    with append_to(log) as stream:
        process = subprocess.Popen(
            ["bash", str(target / "job.sh")],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=target,
        )
        try:
            report = target / "logs" / "stage-0.log"
            if event is not None:
                pass_on(events, lambda: process.poll() is not None, event)
            elif bar is not None:
                _follow(process, report, bar.message, draw=lambda: _each(events.new(), bar.event))
            else:
                _follow(process, report, notice)
        except KeyboardInterrupt:
            # The script passes the signal on and waits for the nodes' programs.
            process.terminate()
            process.wait()
            raise Interrupted("interrupted", help=RESUME_HINTS["stage"]) from None
        finally:
            if bar is not None:
                bar.close()
    if process.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        raise OperationFailed(
            "the data did not reach every node:\n  " + "\n  ".join(last),
            help=f"every node's report is in {target}/logs",
        )
    return events


def pass_on(events: Events, ended: Callable[[], bool], event: Callable[[dict[str, Any]], None]) -> None:
    """Call `event` for new events until `ended()`."""
    while True:
        # Called before the read: events written between the two are read in a last round.
        last = ended()
        for record in events.new():
            event(record)
        if last:
            return
        time.sleep(POLL)


def _follow(
    process: subprocess.Popen[bytes],
    log: Path,
    notice: Callable[[str], None],
    draw: Callable[[], None] | None = None,
) -> None:
    """Pass the first node's report to `notice` while the script runs; with `draw`, without progress lines."""
    printed = 0
    while True:
        ended = process.poll() is not None
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        for line in lines[printed:]:
            if draw is None or not _PROGRESS.match(line):
                notice(line)
        printed = len(lines)
        if draw is not None:
            draw()
        if ended:
            return
        time.sleep(POLL)


def _each(events: Iterator[dict[str, Any]], event: Callable[[Mapping[str, Any]], None]) -> None:
    for record in events:
        event(record)


def _literal(word: Text, run_dir: str) -> str:
    return "".join(run_dir if isinstance(part, Shell) else part for part in word.parts)


def _print_in_place(data: DataPlan, as_json: bool) -> None:
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
        sys.stdout.write(visible(data.source) + "\n")


def data_sets(directory: str) -> list[dict[str, Any]] | None:
    """The data sets of a staging directory on this machine; None after a failure, which the node program has reported."""
    with node_program() as program, tempfile.TemporaryFile() as output:
        if program("list", "--to", directory, "--json", output=output):
            return None
        output.seek(0)
        sets: list[dict[str, Any]] = json.load(output)["sets"]
        return sets


def manage(words: Sequence[str]) -> int:
    """Run `list`, `evict` or `clean` of the node program on this machine; returns its exit status."""
    with node_program() as program:
        return program(*words)
