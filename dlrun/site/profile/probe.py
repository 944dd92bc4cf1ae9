"""Probe jobs of `dlrun site detect`: one short job per kind of node, which prints the node's facts.

Nodes need no dlrun: the program is part of the job and runs with Python 3.6 or later.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from dlrun import backends, node, resources
from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.model.units import Bytes, many
from dlrun.render.shell import quote
from dlrun.schedulers.facts import Cluster, Nodes
from dlrun.schedulers.protocol import Probe, Scheduler
from dlrun.site.profile.node import NodeFacts, read_facts
from dlrun.system.inputs.profiles import Machine
from dlrun.system.process import Runner, run
from dlrun.system.writing import write_below

MINUTES = 5
"""Walltime of a probe in minutes; it needs seconds."""

POLL = 1.0
"""Seconds between queries of a job."""

PROGRAM = Path(node.__file__).parent / "checks" / "describe.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Parameters of probe jobs: options of the scheduler's client, maximum seconds in the queue, progress messages."""

    options: tuple[str, ...] = ()
    wait: int = 600
    notice: Callable[[str], None] = field(default=lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Facts by kind of node, and reasons for kinds without facts."""

    facts: Mapping[str, NodeFacts]
    failed: Mapping[str, str]


def probe(cluster: Cluster, here: Machine, ask: ProbeOptions) -> Probed:
    """Run one job per kind of node concurrently, and parse their output."""
    kinds = [kind for kind in cluster.nodes if kind.hosts]

    def one(kind: Nodes) -> NodeFacts | str:
        ask.notice(f"probing `{kind.name}`: waiting up to {ask.wait} s for one of {kind.count}")
        try:
            text = (
                _by_step(kind, cluster, ask)
                if backends.scheduler(cluster.scheduler).STEPS
                else by_script(kind, cluster, here, ask)
            )
            return read_facts(text)
        except DlrunError as error:
            return f"{error.message}{f' ({error.help})' if error.help else ''}"
        except ValueError as error:
            return f"the probe's answer cannot be read: {error}"

    with ThreadPoolExecutor(max_workers=max(1, min(8, len(kinds)))) as pool:
        answers = dict(zip((kind.name for kind in kinds), pool.map(one, kinds), strict=True))
    return Probed(
        facts={name: answer for name, answer in answers.items() if isinstance(answer, NodeFacts)},
        failed={name: answer for name, answer in answers.items() if isinstance(answer, str)},
    )


def this_node() -> NodeFacts:
    """The facts of this machine."""
    import json

    from dlrun.node.checks import describe

    return read_facts(json.dumps(describe.facts()))


def hardware() -> str:
    """Cores and memory of this machine as text, from psutil, also without /sys."""
    import psutil

    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    memory = Bytes(psutil.virtual_memory().total).mebibytes() // 1024
    counted = f"{many(cores, 'core')}, " if cores else ""
    return f"{counted}{many(threads or 1, 'hardware thread')}, {memory} GiB memory"


def _asked(kind: Nodes, cluster: Cluster, ask: ProbeOptions, log: str = "") -> list[str]:
    """The client's arguments for a probe; with a host if the queue has several kinds of nodes."""
    queue = next((q for q in cluster.queues if kind.name in q.kinds and not q.preemptable), None)
    queue = queue or next((q for q in cluster.queues if kind.name in q.kinds), None)
    # A host is named only where needed: naming one waits for exactly that node.
    several = len(queue.kinds) > 1 if queue is not None else len(cluster.nodes) > 1
    host = kind.hosts[0].split(".")[0] if several else None
    asked = Probe(
        host=host, queue=queue.name if queue else None, gpu=bool(kind.gpus), minutes=MINUTES, wait=ask.wait, log=log
    )  # fmt: skip
    return [*backends.scheduler(cluster.scheduler).probe(asked), *ask.options]


def step(kind: Nodes, cluster: Cluster, ask: ProbeOptions) -> list[str]:
    """The command that runs Python on a node of a kind, with the program on standard input."""
    return [*_asked(kind, cluster, ask), "python3", "-I", "-"]


def _by_step(kind: Nodes, cluster: Cluster, ask: ProbeOptions) -> str:
    done = run(
        step(kind, cluster, ask),
        text=resources.text(PROGRAM),
        timeout=ask.wait + MINUTES * 60,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "queued and waiting" not in line]
        raise OperationFailed(
            f"the probe ended with exit code {done.returncode}: {' '.join(lines)[-300:] or 'no message'}"
        )
    return done.stdout


def batch(kind: Nodes, cluster: Cluster, ask: ProbeOptions, script: Path) -> list[str]:
    """The command that submits a script to a node of a kind."""
    return [*_asked(kind, cluster, ask, str(script.parent / "log")), str(script)]


def by_script(kind: Nodes, cluster: Cluster, here: Machine, ask: ProbeOptions, runner: Runner = run) -> str:
    """Run the probe as a batch script; the answer is a file in the user's home, which compute nodes share."""
    scheduler = backends.scheduler(cluster.scheduler)
    folder = Path(tempfile.mkdtemp(prefix=".dlrun-probe-", dir=here.home))
    try:
        write_below(folder, PROGRAM.name, resources.content(PROGRAM))
        answer = folder / "facts.json"
        script = write_below(
            folder,
            "probe.sh",
            f"#!/bin/bash\ncd {quote(str(folder))} || exit 1\n"
            f"python3 -I {PROGRAM.name} >facts.part && mv facts.part facts.json\n",
        )
        done = runner(batch(kind, cluster, ask, script))
        if done.returncode:
            raise OperationFailed(f"{scheduler.CLIENT} refused: {done.stderr.strip()[-300:]}")
        job = scheduler.submitted(done.stdout)
        if not _appears(answer, job, scheduler, ask.wait, runner):
            log = folder / "log"
            message = log.read_text(errors="replace").strip()[-300:] if log.exists() else "no message"
            raise OperationFailed(f"job {job} printed nothing: {message}")
        return answer.read_text(encoding="utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _appears(answer: Path, job: str, scheduler: Scheduler, wait: int, runner: Runner) -> bool:
    """Wait for the answer file; False if the job ended without it. Raises Invalid after `wait` seconds."""
    deadline = time.monotonic() + wait
    while not answer.exists():
        if _has_left_queue(job, scheduler, runner) and not answer.exists():
            # NFS may show the file later than the job's end.
            time.sleep(POLL)
            return answer.exists()
        if time.monotonic() > deadline:
            runner(scheduler.cancel([job]))
            raise Invalid(f"job {job} did not start within {wait} s, and was deleted")
        time.sleep(POLL)
    return True


def _has_left_queue(job: str, scheduler: Scheduler, runner: Runner) -> bool:
    """Whether the job has left the queue; False if the scheduler does not answer."""
    done = runner(scheduler.queue([job]))
    if done.returncode:
        return scheduler.unknown_jobs(done.stderr, done.returncode)
    return all(entry.job_id != job or entry.state.final for entry in scheduler.parse_queue(done.stdout))
