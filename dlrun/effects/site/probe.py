"""Probe jobs of `dlrun site detect`: one short job on each kind of node, which prints what only that node knows.

Nothing of dlrun need be installed there: the program travels with the job and needs a Python from 3.6 on.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from dlrun import backends, node
from dlrun.effects.inputs.profiles import Here
from dlrun.effects.process import Runner, run
from dlrun.effects.site.facts import Cluster, Nodes
from dlrun.effects.site.node import NodeFacts, read_facts
from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.render.shell import quote

MINUTES = 5
"""Walltime of a probe; it needs seconds."""

POLL = 1.0
"""Seconds between looks at a PBS job."""

PROGRAM = Path(node.__file__).parent / "checks" / "describe.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How probe jobs are submitted: options of sbatch or qsub that the site wants, seconds to wait in the queue."""

    options: tuple[str, ...] = ()
    wait: int = 600
    tell: Callable[[str], None] = field(default=lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What came back: facts by kind of node, and why the others said nothing."""

    facts: Mapping[str, NodeFacts]
    failed: Mapping[str, str]


def probe(cluster: Cluster, here: Here, ask: Ask) -> Probed:
    """Run one job on each kind of node, all at once, and read what they print."""
    kinds = [kind for kind in cluster.nodes if kind.hosts]

    def one(kind: Nodes) -> NodeFacts | str:
        ask.tell(f"probing `{kind.name}`: waiting up to {ask.wait} s for one of {kind.count}")
        try:
            text = (
                _slurm(kind, cluster, ask)
                if backends.scheduler(cluster.scheduler).STEPS
                else pbs(kind, cluster, here, ask)
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
    """The facts of the machine that this runs on."""
    import json  # noqa: PLC0415 - together with the program that only this needs

    from dlrun.node.checks import describe  # noqa: PLC0415

    return read_facts(json.dumps(describe.facts()))


def srun(kind: Nodes, cluster: Cluster, ask: Ask) -> list[str]:
    """The command that runs Python on one node of a kind; the program comes on its standard input."""
    queue = next((q for q in cluster.queues if kind.name in q.kinds and not q.preemptable), None)
    queue = queue or next((q for q in cluster.queues if kind.name in q.kinds), None)
    argv = [
        "srun",
        "--job-name=dlrun-probe",
        "--nodes=1",
        "--ntasks=1",
        f"--time={MINUTES}",
        f"--immediate={ask.wait}",
    ]
    if queue is not None:
        argv.append(f"--partition={queue.name}")
        if len(queue.kinds) > 1:
            argv.append(f"--nodelist={kind.hosts[0]}")
    if kind.gpus:
        argv.append("--gres=gpu:1")
    return [*argv, "--cpu-bind=none", *ask.options, "python3", "-"]


def _slurm(kind: Nodes, cluster: Cluster, ask: Ask) -> str:
    done = run(
        srun(kind, cluster, ask),
        text=PROGRAM.read_text(encoding="utf-8"),
        timeout=ask.wait + MINUTES * 60,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "queued and waiting" not in line]
        raise OperationFailed(
            f"srun ended with exit code {done.returncode}: {' '.join(lines)[-300:] or 'no message'}"
        )
    return done.stdout


def _torque_node(host: str | None, _: Nodes) -> str:
    return f"nodes={host or 1}:ppn=1"


def _openpbs_node(host: str | None, kind: Nodes) -> str:
    return "select=1:ncpus=1" + (":ngpus=1" if kind.gpus else "") + (f":host={host}" if host else "")


_ONE_NODE = {"torque": _torque_node}


def qsub(kind: Nodes, cluster: Cluster, ask: Ask, script: Path) -> list[str]:
    """The command that submits a script to one node of a kind."""
    host = kind.hosts[0].split(".")[0] if len(cluster.nodes) > 1 else None
    what = _ONE_NODE.get(cluster.scheduler, _openpbs_node)(host, kind)
    return ["qsub", "-N", "dlrun-probe", "-j", "oe", "-o", str(script.parent / "log"), "-l", what,
            "-l", f"walltime=00:{MINUTES:02}:00", *ask.options, str(script)]  # fmt: skip


def pbs(kind: Nodes, cluster: Cluster, here: Here, ask: Ask, runner: Runner = run) -> str:
    """The answer comes through a directory in the user's home, which compute nodes share."""
    folder = Path(tempfile.mkdtemp(prefix=".dlrun-probe-", dir=here.home))
    try:
        shutil.copyfile(PROGRAM, folder / PROGRAM.name)
        script, answer = folder / "probe.sh", folder / "facts.json"
        script.write_text(
            f"#!/bin/bash\ncd {quote(str(folder))} || exit 1\n"
            f"python3 {PROGRAM.name} >facts.part && mv facts.part facts.json\n",
            encoding="utf-8",
        )
        done = runner(qsub(kind, cluster, ask, script))
        if done.returncode:
            raise OperationFailed(f"qsub refused: {done.stderr.strip()[-300:]}")
        job = done.stdout.strip().splitlines()[-1]
        if not _appears(answer, job, ask.wait, runner):
            log = folder / "log"
            said = log.read_text(errors="replace").strip()[-300:] if log.exists() else "no message"
            raise OperationFailed(f"job {job} printed nothing: {said}")
        return answer.read_text(encoding="utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _appears(answer: Path, job: str, wait: int, runner: Runner) -> bool:
    """Wait for the answer, at most `wait` seconds in the queue; False if the job ended without one."""
    deadline = time.monotonic() + wait
    while not answer.exists():
        if runner(["qstat", job]).returncode and not answer.exists():
            # Gone from the queue: what it wrote may still be on its way over NFS.
            time.sleep(POLL)
            return answer.exists()
        if time.monotonic() > deadline:
            runner(["qdel", job])
            raise Invalid(f"job {job} did not start within {wait} s, and was deleted")
        time.sleep(POLL)
    return True
