"""Slurm's `sbcast` of one file from the first of N + 1 nodes, on a cluster of the tests with links of the same rate."""

import os
import shutil

SCRIPT = """#!/bin/bash
began=$EPOCHREALTIME
sbcast --force "$1" /tmp/broadcast || exit
echo "$began $EPOCHREALTIME"
"""


def seconds(file, count, mbit):
    """The seconds of one `sbcast` of `file` to `count` nodes besides its own; None without Slurm."""
    if shutil.which("sbcast") is None:
        return None
    from tests.cluster import Cluster, ClusterSpec, NodeType  # noqa: PLC0415 - for this row alone

    nodes = NodeType(count=count + 1, sockets=1, cores=1, link_mbit=mbit)
    with Cluster(ClusterSpec(node_types=(nodes,), users=("alice",)), f"sbcast-{os.getpid()}") as cluster:
        home = cluster.home("alice")
        shutil.copy(file, home / "source")
        (home / "job.sh").write_text(SCRIPT)
        words = ["sbatch", "--wait", f"--nodes={count + 1}", "--output=out", "job.sh", str(home / "source")]
        cluster.on("login", words, timeout=600, check=True)
        began, ended = map(float, (home / "out").read_text().split())
    return ended - began
