"""End jobs in every way, each node the first to be hit: `python -m tests.cluster.campaign.ends [--scheduler flux]`.

Each job has data and a result of five bytes a rank on three nodes, and a child of each rank ignores SIGTERM. Afterwards
no process and no data of the job may be on a node that runs, and each result has been brought, or its node is named. It
prints a table: the end and its node, the seconds until the job was over, what `dlrun why` names, and what is wrong.
By hand, for an hour a scheduler; `test_standby.py` has some of the ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from tests.cluster import cgroups
from tests.cluster.campaign.field import Field
from tests.cluster.campaign.grounds import GROUNDS, Ground, cluster
from tests.cluster.errors import ClusterError
from tests.cluster.staged import await_standbys, leaving_much, names

HOSTS = 3
LAUNCHERS = {"slurm": "srun", "flux": "flux-job|flux-run|python3.*flux", "pbs": "ssh", "gridengine": "qrsh"}
"""What runs on the first node for all ranks, as a regular expression of its name."""
STARTERS = {
    "slurm": "-f '^slurmstepd: .{job}[.][0-9]'",
    "flux": "-x flux-shell",
    "pbs": "-u alice -x sshd",
    "gridengine": "-f sge_shepherd",
}
"""What has started the ranks on a node, for pgrep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One way to end; `strike` gets the job's number and the node that is hit, `causes` are right. `once`: no node is hit."""

    name: str
    strike: Callable[[Field, str, str], object]
    causes: tuple[str, ...]
    once: bool = False
    walltime: str = "10m"
    lost: bool = False


def _mine(program: str, signal: str = "KILL") -> Callable[[Field, str, str], object]:
    """A signal to the job's processes with that in their command line, and a shell's or the launcher's of the user's."""

    def strike(it: Field, job: str, node: str) -> None:
        mark = f"DLRUN_JOB_DIR={it.job_dir(job)}"
        look = f"for p in $(pgrep -u alice -f '{program}'); do grep -qzxF {mark} /proc/$p/environ && echo $p; done"
        it.on(node, f"kill -{signal} $({look})")

    return strike


def _cancel(it: Field, job: str) -> None:
    """By dlrun, and where the scheduler refuses, in the way that the error names."""
    done = it.dlrun("cancel", job, code=None)
    if done.returncode:
        assert "`qdel -W force`" in done.stderr, done.stderr
        it.cluster.on("login", ["qdel", "-W", "force", job], user=it.name, check=True)


def _then_cancel(
    first: Callable[[Field, str, str], object], pause: float = 0
) -> Callable[[Field, str, str], None]:
    def strike(it: Field, job: str, node: str) -> None:
        first(it, job, node)
        sleep(pause)
        _cancel(it, job)

    return strike


def _starter(it: Field, job: str, node: str) -> None:
    it.on(node, f"kill -9 $(pgrep {STARTERS[it.ground.name].format(job=job)})")


def _daemon(it: Field, _job: str, node: str) -> None:
    it.on(node, f"kill -9 $(pgrep -x {it.ground.node_daemon})")


def _script(signal: str) -> Callable[[Field, str, str], object]:
    def strike(it: Field, job: str, _node: str) -> None:
        it.on(it.hosts(job)[0], f"kill -{signal} $(pgrep -u alice -f '{it.ground.script(job)}')")

    return strike


def _fail(it: Field, job: str, node: str) -> None:
    """The program of that node's rank ends by a signal that a program sends itself."""
    it.kill(job, node, "ABRT")


ENDS = (
    End(name="cancelled", causes=("cancelled",), once=True, strike=lambda it, job, _: _cancel(it, job)),
    End(
        name="cancelled by root",
        causes=("cancelled", "cancelled-by-admin"),
        once=True,
        strike=lambda it, job, _: it.ground.cancel(it, job, "root"),
    ),
    End(name="walltime", causes=("walltime",), once=True, strike=lambda *_: None, walltime="1m"),
    End(name="a rank fails", causes=("abort",), strike=_fail),
    End(name="a rank is killed", causes=("killed",), strike=lambda it, job, node: it.kill(job, node)),
    End(name="the shell of a rank is killed", causes=("killed",), strike=_mine("/rank[.]sh")),
    End(
        name="what started the ranks is killed",
        causes=("killed", "node", "launcher", "ssh-connection"),
        strike=_starter,
    ),
    End(
        name="a node loses its power",
        causes=("node",),
        strike=lambda it, _, node: it.cluster.kill_node(node),
        lost=True,
    ),
    End(
        name="a node loses its network",
        causes=("node", "ssh-connection"),
        strike=lambda it, _, node: it.cluster.cut(node),
        lost=True,
    ),
    End(
        name="the standby of the ranks is killed, cancelled",
        causes=("cancelled",),
        strike=_then_cancel(_mine("/standby[.]sh")),
    ),
    End(
        name="the standby of the data is killed, cancelled",
        causes=("cancelled",),
        strike=_then_cancel(_mine("/stage[.]sh keep")),
    ),
    End(
        name="a node is without its daemon, cancelled",
        causes=("cancelled",),
        strike=_then_cancel(_daemon, 1),
        lost=True,
    ),
    End(
        name="a node's ranks are stopped, cancelled",
        causes=("cancelled",),
        strike=_then_cancel(_mine("rank[.]sh|sleep", "STOP")),
    ),
    End(
        name="all of the user's on a node is killed",
        causes=("killed", "node", "ssh-connection"),
        strike=lambda it, _, node: it.on(node, "pkill -KILL -u alice"),
    ),
    End(
        name="the job's script is killed",
        causes=("killed", "node", "deleted"),
        once=True,
        strike=_script("KILL"),
    ),
    End(name="the job's script is ended", causes=("terminated",), once=True, strike=_script("TERM")),
    End(
        name="the launcher is killed",
        causes=("killed",),
        once=True,
        strike=lambda it, job, _: it.on(
            it.hosts(job)[0], f"kill -9 $(pgrep -u alice '{LAUNCHERS[it.ground.name]}')"
        ),
    ),
)


def _start(it: Field, walltime: str, to: Path) -> str:
    """A job whose ranks have written their results and run on, on nodes that each wait for the end; its id."""
    spec = leaving_much(it, to, HOSTS, walltime)
    job = it.hand_over({"name": "ends", "framework": "torch", **spec})
    await_standbys(it, job, HOSTS)
    return job


def _wrong(it: Field, job: str, hosts: Sequence[str], gone: str, to: Path, means: str) -> Iterator[str]:
    """What stays, and what is missing without a word; `gone` is the node that does not run any more, or nothing."""
    if left := it.left(it.job_dir(job), 30):
        yield f"{left} processes"
    named = " ".join(
        line
        for line in [*it.log(job).splitlines(), means]
        if "results on" in line or "the rest is on" in line
    )
    for rank, node in enumerate(hosts):
        brought = to / f"rank-{rank}"
        if brought.exists() and brought.read_text() != "12345":
            yield f"a wrong result of {node}"
        elif not brought.exists() and node not in named:
            yield f"no result and no word of {node}"
        if node != gone:
            stay = [one for one in names(it, node) if one.startswith("set")]
            stay += [one for one in names(it, node) if one.startswith(".results") and brought.exists()]
            if stay:
                yield f"on {node} {' '.join(stay)}"


def force(ground: Ground, it: Field, end: End, number: int, *, verbose: bool) -> tuple[str, str]:
    """Force one end; its row and what is wrong."""
    to = it.directory / f"results-{monotonic()}"
    name = f"{end.name}" + ("" if end.once else f" [{number}]")
    job, seconds, cause, node, why = "", "-", "-", "", {}
    try:
        job = _start(it, end.walltime, to)
        hosts = it.hosts(job)
        node = hosts[number]
        end.strike(it, job, node)
        began = monotonic()
        seconds = f"{it.over(job, 180) - began:.1f}"
        why = it.why(job)
        cause = why["cause"]
        if end.lost:
            it.ground.repair(it)  # a node that is cut off cannot know of the end
        gone = node if end.name.startswith("a node loses") else ""
        wrong = "; ".join(_wrong(it, job, hosts, gone, to, why["means"]))
        if cause not in end.causes:
            wrong = f"{wrong} WRONG CAUSE: {why['means']}"
    except (AssertionError, TimeoutError, ClusterError, OSError) as error:
        wrong = f"{error!r}"[:600]
    finally:
        if end.lost:
            it.ground.repair(it)
    shown = f"\n{why}\n{it.log(job)}" if verbose and job else ""
    return f"{name:<50} {seconds:>7} {cause:<14} {wrong or 'well'}{shown}", wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign.ends", description=__doc__)
    parser.add_argument("--scheduler", choices=[*GROUNDS], default="slurm", help="default: slurm")
    parser.add_argument("--only", action="append", default=[], help="ends whose names begin so")
    parser.add_argument("--verbose", action="store_true", help="print each answer and each job's log")
    options = parser.parse_args(arguments)
    ground = GROUNDS[options.scheduler]
    site = {**ground.site, "storage": {"node_local": {"path": "/tmp", "size": "90MB"}}}
    wrong = count = 0
    with cluster(ground, f"ends-{ground.name}") as up:
        for end in ENDS:
            if options.only and not end.name.startswith(tuple(options.only)):
                continue
            for number in range(1 if end.once else HOSTS):
                row, what = force(ground, Field(up, site, ground), end, number, verbose=options.verbose)
                print(row, flush=True)
                count += 1
                wrong += bool(what)
    print(f"{count - wrong} of {count} ended well; memory limits: {cgroups.why_not() or 'yes'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
