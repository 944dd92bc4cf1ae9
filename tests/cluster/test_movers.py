"""Sites' own movers on a real Slurm: what they bring is checked, and what they do not bring comes all the same."""

from __future__ import annotations

import os
import time

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.jobs import User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-movers",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}
RESOURCES = {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}


@pytest.fixture(scope="module")
def alice():
    with Cluster(ClusterSpec(node_types=(NodeType(count=3),)), name=f"movers-{os.getpid()}") as running:
        yield User(running, SITE)


@pytest.fixture
def source(alice):
    """A data set of some files, a large one, a link and an odd name."""
    made = alice.directory / f"set-{time.monotonic_ns()}"
    (made / "sub").mkdir(parents=True)
    for number in range(30):
        (made / "sub" / f"{number}.txt").write_text(f"{number}\n")
    (made / "large").write_bytes(os.urandom(9 << 20))
    (made / "with a\nline").write_text("odd\n")
    (made / "link").symlink_to("large")
    return made


def site(alice, mover, **storage):
    """Give the user's site this mover."""
    local = {**SITE["storage"]["node_local"], **storage}
    alice.write("site.yaml", {**SITE, "storage": {"node_local": local, "mover": mover}})


def ran(alice, source, nodes=3, environment=None, **data):
    """Run a job that reads the data on every node; its run, and its log."""
    check = 'cd "$DLRUN_DATA_SET" && ls sub | wc -l && sha256sum <large && cat with*line && readlink link'
    job = alice.submit(
        {
            "command": bash(check),
            "resources": {**RESOURCES, "nodes": nodes},
            "environment": environment or {},
            "data": {"set": {"source": str(source), "strategy": "copy", **data}},
        }
    )
    (run,) = alice.ended(job, within=300)
    directory = alice.job_dir(job)
    return run, directory, (directory / "logs" / "job.log").read_text()


def right(alice, directory, source, nodes=3):
    """Every node read what the source has."""
    wanted = alice.cluster.on(
        "login", ["bash", "-c", f"sha256sum <'{source}/large'"], user="root"
    ).stdout.strip()
    for rank in range(nodes):
        told = (directory / "logs" / f"rank-{rank}.log").read_text().splitlines()[-4:]
        assert told == ["30", wanted, "odd", "large"]


def left(alice):
    """What stands between mover and data set on any node."""
    found = []
    for node in alice.cluster.spec.nodes:
        control = alice.cluster.own_path(node, "/tmp") / "dlrun-alice" / ".dlrun"
        between = ("pack", "parcel", "part", "trash")
        found += [p.name for p in control.iterdir() if p.name.startswith(between)]
    return found


def test_sbcast_brings_a_set_and_the_next_job_finds_it(alice, source):
    site(alice, {"name": "sbcast", "on_failure": "fail"})
    run, directory, log = ran(alice, source, keep="cache")
    reports = [(directory / "logs" / f"stage-{n}.log").read_text() for n in range(3)]
    assert run["state"] == "completed", (log, reports)
    right(alice, directory, source)
    for report in reports:
        assert "brought by the site's mover and as in the source: 32 files" in report
    assert left(alice) == []
    run, directory, log = ran(alice, source, keep="cache")
    assert run["state"] == "completed", log
    assert "warm in" in (directory / "logs" / "stage-2.log").read_text()
    assert "brought by the site's mover" not in (directory / "logs" / "stage-2.log").read_text()


def program(alice, name, script):
    """A program of the site's, which every node sees."""
    path = alice.write(name, f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_where_sbcast_fails_dlrun_brings_the_data(alice, source):
    site(alice, {"name": "sbcast", "program": program(alice, "no-sbcast", "echo no credential >&2; exit 1")})
    run, directory, log = ran(alice, source)
    assert run["state"] == "completed", log
    assert "no credential" in log
    assert "sbcast did not bring all of data set set: dlrun copies what is missing" in log
    right(alice, directory, source)
    assert left(alice) == []


def test_a_site_that_wants_its_mover_alone_ends_the_job_by_name(alice, source):
    false = program(alice, "no-sbcast", "echo no credential >&2; exit 1")
    site(alice, {"name": "sbcast", "program": false, "on_failure": "fail"})
    run, _, log = ran(alice, source)
    assert run["state"] == "failed"
    assert "no credential" in log
    assert "sbcast did not bring data set set" in log
    assert left(alice) == []


DAMAGING = """\
source=${@: -2:1} copy=$(mktemp)
cp "$source" "$copy"
if [[ $source == *.tar ]]; then printf damage | dd of="$copy" bs=1 seek=$((6 << 20)) conv=notrunc status=none; fi
sbcast --force "$copy" "${@: -1}"
"""


@pytest.mark.parametrize("on_failure", ["fail", "chain"])
def test_what_sbcast_damages_is_noticed(alice, source, on_failure):
    damaging = program(alice, "damaging", DAMAGING)
    site(alice, {"name": "sbcast", "program": damaging, "on_failure": on_failure})
    run, directory, log = ran(alice, source)
    reports = [path.read_text() for path in (directory / "logs").glob("stage-*.log")]
    noticed = ["the site's mover did not bring `large` as the source has it" in report for report in reports]
    if on_failure == "fail":
        assert run["state"] == "failed", log
        assert any(noticed), reports  # the node that sees it first ends the others, wherever they are
        assert alice.why(run["job_id"])["first"]["role"] == "stage"
        assert set(left(alice)) == {"part.set"}, "what is good stays for the next job"
    else:
        assert run["state"] == "completed", log
        assert noticed == [True] * 3, reports
        right(alice, directory, source)
        assert left(alice) == []


DBCAST = """\
# dbcast(1) of mpiFileUtils: SRC DEST; at least two processes a node; directories above DEST are made
[[ $# == 2 && $1 == /* && $2 == /* && -f $1 ]] || { echo "usage: dbcast SRC DEST" >&2; exit 1; }
[[ ${SLURM_NTASKS_PER_NODE%%(*} -ge 2 ]] || { echo "dbcast needs at least two processes a node" >&2; exit 1; }
[[ $SLURM_LOCALID == 0 ]] || exit 0
mkdir -p "${2%/*}" && cp "$1" "$2"
"""

DCP = """\
# dcp(1) of mpiFileUtils: dcp -p SRC/ DEST copies the directory SRC as DEST, by all processes together
[[ $# == 3 && ($1 == -p || $1 == --preserve) && $2 == /*/ && $3 == /* && -d $2 ]] ||
  { echo "usage: dcp -p SRC/ DEST" >&2; exit 1; }
[[ $SLURM_NTASKS -ge 4 ]] || { echo "few processes" >&2; exit 1; }
[[ $SLURM_PROCID == 0 ]] || exit 0
[[ ! -e $3 ]] || { echo "$3 is there" >&2; exit 1; }
cp -rp "$2" "$3"
"""


def test_dbcast_brings_single_files_to_every_node(alice, source):
    site(alice, {"name": "dbcast", "program": program(alice, "dbcast", DBCAST), "on_failure": "fail"})
    run, directory, log = ran(alice, source)
    reports = [(directory / "logs" / f"stage-{n}.log").read_text() for n in range(3)]
    assert run["state"] == "completed", (log, reports)
    right(alice, directory, source)
    for report in reports:
        assert "brought by the site's mover and as in the source: 32 files" in report
    assert left(alice) == []


def test_dcp_fills_storage_that_the_nodes_of_a_job_share(alice, source):
    shared = alice.cluster.shared / "burst"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    dcp = program(alice, "dcp", DCP)
    site(alice, {"name": "dcp", "program": dcp, "on_failure": "fail"}, path=str(shared), scope="job")
    run, directory, log = ran(alice, source)
    report = (directory / "logs" / "stage-0.log").read_text()
    assert run["state"] == "completed", (log, report)
    right(alice, directory, source)
    assert "brought by the site's mover and as in the source: 32 files" in report
    assert not (directory / "logs" / "stage-1.log").exists(), "one node works for all"
    assert [p.name for p in (shared / "dlrun-alice").iterdir()] == [".dlrun"], "taken away with the job"


@pytest.mark.parametrize("missing", [(), ("sub/7.txt", "link"), None])
def test_what_datawarp_placed_before_the_job_is_checked_and_completed(alice, source, missing):
    """Its part is a directory that somebody filled while the job waited; None: it did not."""
    warp = alice.cluster.shared / f"warp-{time.monotonic_ns()}"
    warp.mkdir()
    warp.chmod(0o1777)
    site(alice, {"name": "datawarp"}, path="$DW_JOB_STRIPED", scope="job", lines=["#DW jobdw capacity=1GB"])
    if missing is not None:
        placed = f"cp -r {source} {warp}/dlrun-in-set && cd {warp}/dlrun-in-set && rm -f nothing {' '.join(missing)}"
        alice.cluster.on("login", placed, user="alice", check=True)
    run, directory, log = ran(alice, f"{source}/", environment={"variables": {"DW_JOB_STRIPED": str(warp)}})
    report = (directory / "logs" / "stage-0.log").read_text()
    assert run["state"] == "completed", (log, report)
    script = (directory / "job.sh").read_text()
    assert f"source={source} destination=$DW_JOB_STRIPED/dlrun-in-set" in script
    right(alice, directory, source)
    if missing is None:
        assert "datawarp did not bring all of data set set: dlrun copies what is missing" in log
    elif missing:
        assert "the site's mover did not bring `sub/" in report
    else:
        assert "brought by the site's mover and as in the source: 32 files" in report
    assert [p.name for p in warp.iterdir()] == ["dlrun-alice"], "what arrived became the data set"
