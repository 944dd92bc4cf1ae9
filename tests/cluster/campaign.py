"""The fault campaign: faults forced on a real Slurm, one after the other, and what dlrun made of each.

    python -m tests.cluster.campaign [--only NAME]... [--list] [--at-once 3] [--json FILE]

It prints a table: the fault, the seconds from it to the job's end, the cause that `dlrun why` names and whether it is the
right one, and the processes that are left on any node. The exit code is 1 if a cause is wrong or a process is left. By hand
and nightly; `test_campaign.py` runs ten of the faults.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition
from tests.cluster.faults import ALL, Fault
from tests.cluster.jobs import User

SITE: dict[str, Any] = {
    "name": "campaign",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True}, "low": {"preemptable": True}, "high": {}},
}
SOON = 15.0
"""Seconds within which a job is to end, where nothing has to time out."""
_OPEN = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "SUSPENDED"}
_GONE = 10.0
"""Seconds in which the last processes of a job may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one fault; `cause` and `means` are what `dlrun why` answers, `left` processes on all nodes."""

    fault: str
    seconds: float | None
    cause: str
    right: bool
    left: int
    means: str

    @property
    def well(self) -> bool:
        """True if the cause is right and nothing is left."""
        return self.right and not self.left


class Field(User):
    """A user on the cluster, and the means to break it."""

    def on(self, host: str, script: str) -> str:
        """Run bash code on a host as root; what it prints."""
        return self.cluster.on(host, ["bash", "-c", script], user="root").stdout

    def kill(self, job: str, host: str, signal: str = "KILL", program: str = "sleep") -> None:
        """Send a signal to a job's processes of a name on a host, as soon as there is one."""
        mine = f"grep -qzxF DLRUN_JOB_DIR={self.job_dir(job)} /proc/$p/environ"
        line = f"n=1; for p in $(pgrep -u alice -x {program}); do {mine} && kill -{signal} $p && n=0; done; exit $n"
        end = time.monotonic() + 60
        while self.cluster.on(host, line, user="root").returncode and time.monotonic() < end:
            time.sleep(0.2)

    def states(self, job: str) -> set[str]:
        """What Slurm calls the states of a job and its tasks; empty once it has forgotten them."""
        argv = ["squeue", "--noheader", "--states=all", "--array", "--format=%T", f"--jobs={job}"]
        return set(self.cluster.on("login", argv, user="root").stdout.split())

    def over(self, job: str, within: float) -> float:
        """Wait for the end of a job; when it was first seen to be over."""
        deadline = time.monotonic() + within
        while self.states(job) & _OPEN:
            if time.monotonic() > deadline:
                self.on("login", f"scancel {job}")
                raise TimeoutError(job)
            time.sleep(0.3)
        return time.monotonic()

    def left(self, place: Path) -> int:
        """Processes of a job on all nodes, after some time to go."""
        look = f"grep -lszF -- DLRUN_JOB_DIR={place} /proc/[0-9]*/environ | wc -l"
        deadline = time.monotonic() + _GONE
        while True:
            hosts = [host for host, alive in self.cluster.status().items() if alive]
            found = sum(int(self.on(host, look) or 0) for host in hosts)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)


@contextmanager
def ground(name: str) -> Iterator[Cluster]:
    """The cluster that is broken: six nodes with small disks, accounting, memory limits, preemption."""
    spec = ClusterSpec(
        node_types=(NodeType(count=6, tmp_mib=96),),
        partitions=(
            Partition(name="debug", default=True),
            Partition(name="low", preempt="cancel"),
            Partition(name="high", priority_tier=10),
        ),
        accounting=True,
        sshd=True,
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=2"),
    )
    with Cluster(spec, name=name) as cluster:
        yield cluster


def force(cluster: Cluster, fault: Fault) -> Outcome:
    """Force one fault, wait for the job's end and ask why."""
    field = Field(cluster, {**SITE, **fault.site})
    if fault.before is not None:
        fault.before(field)
    try:
        outcome, place = _forced(field, fault)
    except (AssertionError, TimeoutError) as error:
        return Outcome(
            fault=fault.name, seconds=None, cause="-", right=False, left=0, means=f"{error!r}"[:600]
        )
    finally:
        if fault.after is not None:
            fault.after(field)
    return replace(outcome, left=field.left(place))  # also on nodes that could not be reached before


def _forced(field: Field, fault: Fault) -> tuple[Outcome, Path]:
    spec = {"name": "fault", "framework": "torch", **fault.spec}
    path = field.write("spec.yaml", spec)
    job = field.dlrun("submit", str(path), "--parsable").stdout.strip()
    began = time.monotonic()
    if fault.strike is not None:
        fault.strike(field, job)
        began = time.monotonic()
    ended = field.over(job, fault.within)
    place = field.job_dir(job)
    record = json.loads((place / "state.json").read_text()) if (place / "state.json").exists() else {}
    own = record["ended"] - record["started"] if fault.strike is None and "ended" in record else ended - began
    (answer, *_) = json.loads(field.dlrun("why", f"{job}{fault.point}", "--json").stdout)["why"]
    told = f"{answer['means']} {answer['line'] or ''}"
    right = answer["cause"] in fault.causes and all(word in told for word in fault.told)
    seconds = round(own, 1)
    return Outcome(
        fault=fault.name, seconds=seconds, cause=answer["cause"], right=right, left=0, means=told
    ), place


def run(cluster: Cluster, faults: Sequence[Fault], at_once: int = 3) -> list[Outcome]:
    """Force all: those that hit programs side by side, those that break nodes one after the other."""
    lock = threading.Lock()
    found: dict[str, Outcome] = {}

    def one(fault: Fault) -> None:
        outcome = force(cluster, fault)
        with lock:
            found[fault.name] = outcome
            print(line(outcome), flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, [fault for fault in faults if not fault.alone]))
    for fault in faults:
        if fault.alone:
            one(fault)
    return [found[fault.name] for fault in faults]


def line(one: Outcome) -> str:
    """One row of the table."""
    seconds = "-" if one.seconds is None else f"{one.seconds:.1f}"
    return (
        f"{one.fault:<52} {seconds:>7} {one.cause:<20} {'right' if one.right else 'WRONG':<6} {one.left:>4}"
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many are right, and what is not."""
    right = sum(one.right for one in outcomes)
    left = sum(one.left for one in outcomes)
    late = [one for one in outcomes if one.seconds is not None and one.seconds > SOON]
    rows = [
        f"{right} of {len(outcomes)} causes right, {left} processes left, {len(late)} later than {SOON:.0f} s"
    ]
    rows += [f"  {one.fault}: {one.cause}: {one.means}" for one in outcomes if not one.well]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="faults whose names begin so")
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--at-once", type=int, default=3, help="faults of programs side by side (default 3)")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    options = parser.parse_args(arguments)
    chosen = [f for f in ALL if not options.only or f.name.startswith(tuple(options.only))]
    if options.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    print(f"{'FAULT':<52} {'SECONDS':>7} {'CAUSE':<20} {'RIGHT':<6} {'LEFT':>4}")
    with ground(f"campaign-{os.getpid()}") as cluster:
        outcomes = run(cluster, chosen, options.at_once)
    print(summary(outcomes))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    return 0 if all(one.well for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
