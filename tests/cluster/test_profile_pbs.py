"""`dlrun site detect` on a real OpenPBS, with a probe job, as an ordinary user; and a check against live limits."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, pbs, why_not
from tests.cluster.jobs import PYTHON

reason = why_not() or pbs.why_not()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(reason), reason=reason)]


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=2, threads=2),),
        partitions=(Partition(name="debug", default=True),),
    )
    with Cluster(spec, name=f"detect-{os.getpid()}") as running:
        limit = "set queue debug resources_max.walltime = 02:00:00"
        running.on("login", ["qmgr", "-c", limit], user="root", check=True)
        yield running


def run(cluster, line, code=0):
    done = cluster.on("login", f"cd ~ && PATH={PYTHON}:$PATH && {line}", user="alice", timeout=120)
    assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_queues_and_a_probed_node_become_a_profile_that_passes_its_check(cluster):
    said = run(cluster, "dlrun site detect --name crag --probe --output crag.yaml && cat crag.yaml")
    assert "from the scheduler of login and 1 compute node." in said.stdout
    assert re.search(r"type: openpbs\n  version: \S+\n", said.stdout)
    assert "cpus: threads" in said.stdout, "ncpus is 16, and the node has 8 cores of 2 threads"
    assert re.search(r"debug:\n    default: true\n    node_type: n\n    max_walltime: .02:00:00", said.stdout)
    assert re.search(r"packages: 2\n      cores: 4\n      smt: 2", said.stdout)
    assert re.search(r"cite: .dlrun site detect: compute node n\d", said.stdout)
    assert "qmgr" in said.stdout.split("sources:")[1]
    run(cluster, "dlrun site check crag.yaml --strict")
    assert "dlrun-probe" not in run(cluster, "ls -a").stdout, "the job's directory is removed"


def test_limits_are_held_against_the_live_queues(cluster):
    run(cluster, "sed 's/02:00:00/08:00:00/; s/^  debug:/  long:/' crag.yaml >wrong.yaml")
    said = run(cluster, "dlrun site check wrong.yaml").stderr
    assert "the scheduler has no partition `long`" in said
    run(cluster, "sed 's/02:00:00/08:00:00/' crag.yaml >wrong.yaml")
    said = run(cluster, "dlrun site check wrong.yaml").stderr
    assert "`max_walltime` is 8h, and the scheduler allows 2h" in said
    run(cluster, "dlrun site check wrong.yaml --strict", code=2)


def test_a_queue_may_name_its_server(cluster):
    """As on a site with two PBS servers, where jobs go to the other one's queues as `NAME@SERVER`."""
    run(cluster, "sed 's/^  debug:/  there:\\n    queue: debug@login/' crag.yaml >two.yaml")
    assert "no partition" not in run(cluster, "dlrun site check two.yaml").stderr
    spec = "name: j\nframework: torch\ncommand: ['true']\nresources: {nodes: 1, ranks_per_node: 1, walltime: 1m}\n"
    run(cluster, f"printf %s {shlex.quote(spec)} >spec.yaml")
    checked = run(cluster, "dlrun submit --check spec.yaml --site ./two.yaml")
    assert "nothing speaks against queue `debug`" in checked.stdout + checked.stderr
    assert (
        "#PBS -q debug@login\n" in run(cluster, "dlrun submit spec.yaml --site ./two.yaml --dry-run").stdout
    )
    run(cluster, "dlrun submit spec.yaml --site ./two.yaml --wait")
