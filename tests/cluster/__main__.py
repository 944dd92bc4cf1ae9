"""`python -m tests.cluster up|down|clear|on|status|kill|start|cut|join|install`: the test cluster by hand."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.cluster import Cluster, clear
from tests.cluster.errors import ClusterError
from tests.cluster.install import install
from tests.cluster.spec import ClusterSpec, NodeType, Partition, lumi_g_like

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    top.add_argument("--name", default="default", help="which cluster; several can be up at once")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring the cluster up; nothing to do when it is up already")
    up.add_argument("--like", choices=["lumi-g"], help="a ready-made cluster, instead of the options below")
    for option, default, text in (
        ("nodes", 4, "compute nodes"),
        ("sockets", 2, "sockets of a node"),
        ("cores", 4, "cores of a socket"),
        ("threads", 1, "hardware threads of a core"),
        ("numa", 1, "NUMA nodes of a socket"),
        ("gpus", 0, "GPUs of a node"),
        ("memory-mib", 4000, "memory of a node"),
        ("reserved-cores", 0, "cores of a node kept from jobs"),
        ("link-mbit", 0, "link speed of a node; 0 is unlimited"),
    ):
        up.add_argument(f"--{option}", type=int, default=default, help=f"{text} (default {default})")
    up.add_argument("--scheduler", choices=["slurm", "pbs"], default="slurm")
    for flag, text in (
        ("accounting", "slurmdbd with MariaDB, and sacct"),
        ("sshd", "ssh servers on all hosts"),
        ("cgroup", "memory limits through cgroups"),
        ("torque", "Slurm's own qsub and PBS_* variables"),
        ("preempt", "a partition `scavenge` whose jobs the others requeue"),
    ):
        up.add_argument(f"--{flag}", action="store_true", help=text)
    commands.add_parser("down", help="end all its processes and delete its files")
    commands.add_parser("clear", help="take down the clusters that test runs left when they were killed")
    commands.add_parser("status", help="which hosts run; ends with 1 when not all do")
    commands.add_parser("install", help="install all Debian packages that any cluster needs")
    on = commands.add_parser("on", help="run a command on a host; a single word goes to bash")
    on.add_argument("-u", "--user", help="default: the first ordinary user")
    on.add_argument("host")
    on.add_argument("argv", nargs=argparse.REMAINDER)
    for verb, text in (
        ("kill", "cut a node's power"),
        ("start", "switch a killed node on"),
        ("cut", "unplug a host's cable"),
        ("join", "plug a host's cable in"),
    ):
        commands.add_parser(verb, help=text).add_argument("host")
    return top


def wanted(options: argparse.Namespace) -> ClusterSpec:
    """The cluster that the options of `up` describe."""
    if options.like:
        return lumi_g_like()
    node = NodeType(
        count=options.nodes,
        sockets=options.sockets,
        cores=options.cores,
        threads=options.threads,
        numa=options.numa,
        gpus=options.gpus,
        memory_mib=options.memory_mib,
        reserved_cores=options.reserved_cores,
        link_mbit=options.link_mbit,
    )
    partitions = [Partition(name="debug", default=True, priority_tier=2 if options.preempt else 1)]
    if options.preempt:
        partitions.append(Partition(name="scavenge", preempt="requeue"))
    return ClusterSpec(
        scheduler=options.scheduler,
        node_types=(node,),
        partitions=tuple(partitions),
        accounting=options.accounting,
        sshd=options.sshd,
        cgroup=options.cgroup,
        torque=options.torque,
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked; the exit status."""
    start = time.monotonic()
    match options.command:
        case "up":
            cluster = Cluster(wanted(options), options.name)
            cluster.up(stay=True)
            print(f"up in {time.monotonic() - start:.1f} s; all hosts see {cluster.shared}")
        case "down":
            Cluster(name=options.name).down()
            print(f"down in {time.monotonic() - start:.1f} s")
        case "clear":
            clear()
        case "install":
            print("installed", *install() or ["already"])
        case "status":
            state = Cluster.attach(options.name).status()
            for host, alive in state.items():
                print(host, "up" if alive else "down")
            return 0 if all(state.values()) else 1
        case "on":
            return _on(Cluster.attach(options.name), options)
        case verb:
            cluster = Cluster.attach(options.name)
            {
                "kill": cluster.kill_node,
                "start": cluster.start_node,
                "cut": cluster.cut,
                "join": cluster.join,
            }[verb](options.host)
    return 0


def _on(cluster: Cluster, options: argparse.Namespace) -> int:
    argv: Sequence[str] | str = options.argv or ["bash"]
    process = cluster.popen(
        options.host,
        argv[0] if len(argv) == 1 else argv,
        user=options.user,
        stdin=0,
        stdout=1,
        stderr=2,
        own_group=False,
    )
    try:
        return process.wait()
    except KeyboardInterrupt:  # the command got it too
        return process.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors go to stderr without a traceback."""
    try:
        return run(parser().parse_args(argv))
    except (ClusterError, OSError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
