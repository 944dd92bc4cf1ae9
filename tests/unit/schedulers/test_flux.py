"""Flux: its directives, its ids, sweeps as jobs, and what `flux jobs --json` printed."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess

import pytest

from dlrun import backends
from dlrun.errors import OperationFailed
from dlrun.jobs.clusters.outlook import outlook
from dlrun.model.job import UNMET, State
from dlrun.model.plan import Dependency
from dlrun.model.units import Bytes
from dlrun.schedulers.flux.flux import TEXT
from tests.fakebin import CAPTURED
from tests.unit.schedulers.making import faults, lines, request, site

flux = backends.scheduler("flux")

COMMON = ["--job-name=train", "--output=logs/job.log"]
NODES = ("--nodes=2", "--broker-opts=-Sbroker.quorum=1")
HERE = CAPTURED / "flux"


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({}, {}, [*NODES, "--nslots=4"]),
        ({"nodes": 1}, {}, ["--nodes=1", "--nslots=4"]),
        ({}, {"exclusive": True}, [*NODES, "--exclusive"]),
        ({"exclusive": True, "gpus_per_node": 4, "cpus_per_rank": 8}, {}, [*NODES, "--exclusive"]),
        ({"cpus_per_rank": 4, "gpus_per_node": 4}, {},
         [*NODES, "--nslots=4", "--cores-per-slot=4", "--gpus-per-slot=2"]),
        ({"cpus_per_node": 9}, {}, [*NODES, "--nslots=4", "--cores-per-slot=4"]),
        ({"cpus_per_rank": 4}, {"cpus": "none"}, [*NODES, "--nslots=4"]),
        ({"partition": "pbatch", "account": "guests"}, {"exclusive": True},
         [*NODES, "--exclusive", "--queue=pbatch", "--bank=guests"]),
        ({"constraint": "amd|intel", "hosts": ("tuo1", "tuo2"), "exclude": ("tuo4",)}, {"exclusive": True},
         [*NODES, "--exclusive", "--requires='amd|intel'", "--requires=host:tuo[1-2]", "--requires=-host:tuo4"]),
        ({"hold": True, "requeue": True}, {"exclusive": True},
         ["-o output.mode=append", *NODES, "--exclusive", "--urgency=0"]),
        ({"after": (Dependency(job_id="fA,ƒB", when="ok"), Dependency(job_id="12", when="not_ok"))}, {"exclusive": True},
         [*NODES, "--exclusive", "--dependency=afterok:fA", "--dependency=afterok:fB", "--dependency=afternotok:fD"]),
        ({"options": {"setattr": "a b", "-o": "fastload"}}, {"exclusive": True},
         [*NODES, "--exclusive", "--setattr='a b'", "-o fastload"]),
    ],
)  # fmt: skip
def test_directives(asked, at, expected):
    assert [x for x in lines(flux, request(**asked), site("flux", **at)) if x not in COMMON] == expected


def as_flux_reads(text):
    """The words of a directive by the rules of RFC 36: shell words, with a backslash as an escape in either kind of quotes,
    and no three quotes in a row, which delimit something else.
    """
    assert not re.search(r"[\"']{3}", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.escapedquotes = "\"'"
    return list(lexer)


ODD = ["".join(four) for four in itertools.product("'\"\\ #a", repeat=4)]


@pytest.mark.parametrize("value", ["it's", "", "a b", "'", 'it\'s "5" \\ (é)', "$HOME;`x`|&<>", "ƒ–"])
def test_each_value_arrives_at_flux_as_it_was_given(value):
    asked = {
        "name": value,
        "partition": value,
        "account": value,
        "constraint": value,
        "options": {"x": value},
    }
    found = lines(flux, request(**asked), site("flux", exclusive=True), f"{value}/job.log")
    words = [word for line in found for word in as_flux_reads(line)]
    assert f"--job-name={value}" in words
    assert f"--output={value}/job.log" in words
    if value:
        assert {f"--queue={value}", f"--bank={value}", f"--requires={value}"} <= set(words)
        assert words[-2:] == ["-x", value]


def test_quotes_and_backslashes_in_any_order():
    for value in ODD:
        (name, *_) = lines(flux, request(name=value), site("flux", exclusive=True))
        assert as_flux_reads(name) == [f"--job-name={value}"]


def test_points_of_a_sweep_get_their_logs_when_they_are_submitted():
    found = lines(flux, request(array=3), site("flux", exclusive=True), "points/{index}/logs/job.log")
    assert found == ["--job-name=train", *NODES, "--exclusive"]


@pytest.mark.parametrize(
    "given",
    [{"qos": "q"}, {"reservation": "r"}, {"gpu_type": "mi300a"}, {"node_local": Bytes(1)}, {"memory_per_node": Bytes(1)},
     {"gpus_per_node": 3}, {"options": {"queue": "x"}}],
)  # fmt: skip
def test_refusals(given):
    assert len(faults(flux, request(**given), site("flux"))) == 1


def test_a_log_whose_name_flux_would_rewrite():
    assert len(faults(flux, request(), site("flux"), "a{{id}}.log")) == 1


@pytest.fixture(scope="module")
def jobs():
    """By what became of them, in the order of the file."""
    names = ["waits", "held", "depends", "runs", "ok", "crashed", "cancelled", "failed", "limit"]
    return dict(zip(names, flux.parse_queue((HERE / "jobs.txt").read_text("utf-8")), strict=True))


@pytest.mark.parametrize(
    ("job", "state", "code"),
    [
        ("ok", State.COMPLETED, 0),
        ("failed", State.FAILED, 3),
        ("crashed", State.FAILED, 139),
        ("limit", State.TIMED_OUT, 129),
        ("cancelled", State.CANCELLED, 143),
        ("runs", State.RUNNING, None),
        ("held", State.HELD, None),
        ("waits", State.PENDING, None),
        ("depends", State.PENDING, None),
    ],
)
def test_states(jobs, job, state, code):
    assert (jobs[job].state, jobs[job].exit_code) == (state, code)


def test_what_a_job_waits_for(jobs):
    assert jobs["waits"].reason == "expected to start at 2026-11-22T20:12:30"
    assert jobs["depends"].reason == "waits for after-success=ƒAFgX1q1"
    assert jobs["cancelled"].nodes == "tuo[1-2]"
    assert jobs["runs"].started == "2026-11-22T20:02:30"
    assert jobs["runs"].ended is None


WAITS = "fA|SCHED|||16|||||||\n"
UP = "dlrun:nodes avail|tuo[1,3]|\n"
DRAINED = "dlrun:nodes drained|tuo2|bad | memory\n"


def waits(said, named=(), nodes=2):
    constraints = (
        {"and": [{"hostlist": list(named)}, {"properties": ["work"]}]} if named else {"properties": ["work"]}
    )
    asked = {
        "resources": [{"type": "node", "count": nodes}],
        "attributes": {"system": {"queue": "work", "constraints": constraints}},
    }
    (one,) = flux.parse_queue(f"{WAITS}{said}dlrun:asks fA {json.dumps(asked)}\n")
    return one.reason, outlook(one.reason)


@pytest.mark.parametrize(
    ("said", "named", "nodes", "reason", "never"),
    [
        ("dlrun:queue work: Scheduling is stopped: dinner\n" + UP, (), 1, "queue work is stopped: dinner", False),
        ("dlrun:queue Scheduling is stopped\n" + UP, (), 1, "the scheduler is stopped", False),
        ("dlrun:queue short: Scheduling is stopped\n" + UP, (), 2,
         "waits for nodes that are in use, or for jobs before it", False),
        (UP + DRAINED, (), 3, "it needs 3 nodes, and 2 are up: tuo2 is drained: bad | memory", False),
        (UP + DRAINED, ("tuo[2-3]",), 2, "it needs 2 nodes, and of those that it names 1 are up: tuo2 is drained: bad | memory",
         False),
        (UP + "dlrun:nodes avail*|tuo[4-5]|\n", (), 3, "it needs 3 nodes, and 2 are up: tuo[4-5] are not up", False),
        (UP, (), 3, "it can never run: it needs 3 nodes, and there are 2", True),
        ("", (), 3, None, False),
    ],
)  # fmt: skip
def test_why_a_job_waits_and_whether_it_can_start(said, named, nodes, reason, never):
    found, its = waits(said, named, nodes)
    assert (found, its.never) == (reason, never)
    if reason and "in use" not in reason:
        assert its.next != outlook("waits for nodes that are in use, or for jobs before it").next


@pytest.mark.parametrize(
    "text",
    ["dlrun:asks", "dlrun:asks fA {", "dlrun:nodes", "dlrun:nodes x|[|", 'dlrun:asks fA {"resources": 5}'],
)
def test_damaged_lines_about_waiting_jobs_are_ignored(text):
    (one,) = flux.parse_queue(f"{WAITS}{text}\n")
    assert one.state is State.PENDING


def test_a_dependency_that_can_never_be_met():
    (status,) = flux.parse_queue((HERE / "dependency.txt").read_text("utf-8"))
    assert (status.state, status.reason) == (State.CANCELLED, UNMET)


def test_a_node_that_died():
    row = "fA|INACTIVE|FAILED|35072|16|||tuo1|||exec|node failure on tuo1"
    assert flux.parse_queue(row)[0].state is State.NODE_FAILED


@pytest.mark.parametrize("text", ["", "null", "||||||", "0O|RUN" + "|" * 10, "-x|RUN" + "|" * 10])
def test_other_answers_are_not_jobs(text):
    assert list(flux.parse_queue(text)) == []


@pytest.mark.parametrize(
    "row", ["fA|GONE" + "|" * 10, "fA|INACTIVE|ODD|²|16|||||||", "fA|INACTIVE||99999999|||||||a|b|c"]
)
def test_damaged_rows_are_unknown(row):
    (status,) = flux.parse_queue(row)
    assert (status.state, status.exit_code) == (State.UNKNOWN, None)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("ƒyimXLB\n", "fyimXLB"),
        ("Welcome!\nfyimXLB\n", "fyimXLB"),
        ("37228642304", "37228642304"),
        ("fA\nƒB\n", "fA,fB"),
    ],
)
def test_ids(printed, expected):
    assert flux.submitted(printed) == expected


def test_no_id_is_a_failure():
    with pytest.raises(OperationFailed):
        flux.submitted("all is well\n")


def test_points_are_asked_for_and_acted_on_one_by_one():
    assert flux.queue(["fA,fB", "fC"])[-3:] == ("fA", "fB", "fC")
    assert flux.cancel([flux.task_id("fA,fB", 1)]) == ("flux", "cancel", "fB")
    assert flux.tasks("fA,fB") == ["fA", "fB"]
    assert flux.hold(["fA,fB"])[-2:] == ("fA", "fB")


def test_forgotten_and_ended_jobs_are_no_failure():
    assert flux.unknown_jobs("JobID f1 unknown\nJobID fABC unknown\n", 1)
    assert flux.unknown_jobs("flux-cancel: fA: job is inactive\n", 1)
    assert not flux.unknown_jobs("flux-jobs: ERROR: Unable to connect to Flux\n", 1)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("flux-batch: ERROR: 'nope' is not a valid queue", "flux queue list"),
        ("flux-batch: ERROR: dependency: afterok: job fh5dash failed or was canceled", "after"),
        ("flux-batch: ERROR: job submission to short is disabled: maintenance", "resources.partition"),
        ("invalid jobspec: host constraint contains invalid hosts: host 'n9' not found", "resources.hosts"),
        ("flux batch: error: unrecognized arguments: --badopt", "directive"),
        (
            "flux-batch: ERROR: requested duration (2h) exceeds policy limit of 1h for queue pdebug",
            "walltime",
        ),
        ("flux-batch: ERROR: Unable to connect to Flux: No such file or directory", "login node"),
    ],
)
def test_advice(said, word):
    assert word in (flux.advice(said) or "")


def test_the_cluster_is_known_by_its_hosts():
    assert flux.identified("tuo[1-1152]\n") == "tuo"
    assert flux.identified("") is None


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("instance system", "tuo"),
        ("instance f2x/f3Y", "tuo/f2x/f3Y"),
        ("instance 1719.25", "tuo/1719.25"),
        ("instance ", None),
    ],
)
def test_an_instance_in_a_job_is_not_the_cluster(said, known):
    assert flux.identified(f"tuo[1-4]\n{said}\n") == known


FLUX = """\
#!/bin/bash
case "$*" in
"resource list"*) echo 'tuo[1-4]' ;;
"getattr jobid-path") [[ -n $JOBID_PATH ]] && echo "$JOBID_PATH" ;;
"getattr jobid") [[ -n $JOBID ]] && echo "$JOBID" ;;
"getattr broker.boot-method") echo "$METHOD" ;;
"exec -n -r 0 flux getattr broker.starttime") echo 1719.25 ;;
*) exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("attributes", "known"),
    [
        ({"JOBID_PATH": "/", "METHOD": "config"}, "tuo"),
        ({"JOBID_PATH": "/ƒ2x/ƒ3Y", "METHOD": "simple"}, "tuo/f2x/f3Y"),
        ({"JOBID": "ƒ2x", "METHOD": "simple"}, "tuo/f2x"),
        ({"JOBID_PATH": "/", "METHOD": "libpmi2"}, "tuo/1719.25"),
    ],
)
def test_the_instance_is_read_from_the_broker(tmp_path, attributes, known):
    (tmp_path / "flux").write_text(FLUX)
    (tmp_path / "flux").chmod(0o755)
    environment = {
        "JOBID_PATH": "",
        "JOBID": "",
        **attributes,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(flux.identify(), env=environment, capture_output=True, text=True, check=True)
    assert flux.identified(done.stdout) == known


def test_a_check_names_what_it_cannot_check():
    assert flux.estimate("") is None
    nodes = "not checked before: whether such nodes exist\n"
    assert (flux.estimate(nodes) or "").endswith("Flux checks whether such nodes exist")
    both = flux.estimate(f"{nodes}not checked before: bank `ai`\n") or ""
    assert both.endswith("Flux checks whether such nodes exist and bank `ai`")


GUEST = """\
#!/bin/sh
case "$*" in
"batch --dry-run"*) echo '{"resources": []}' ;;
job-validator*feasibility*) echo '{"errnum": 1, "errstr": "Request requires owner credentials"}' ;;
job-validator*) echo '{"errnum": 0}' ;;
"queue status"*) echo "work: Job submission is enabled" ;;
esac
"""
"""What a guest of a system instance gets: Flux 0.88 lets only the owner ask whether a request is feasible."""


def test_a_guests_request_is_checked_without_what_only_the_owner_may_ask(tmp_path):
    for name, text in {"flux": GUEST, "job.sh": "# flux: --bank=ai --nodes=2\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    line = ["bash", "-c", TEXT, "flux", str(tmp_path / "job.sh")]
    done = subprocess.run(line, check=False, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "not checked before: whether such nodes exist" in done.stdout


def test_the_way_into_an_instance_inside_a_job():
    assert list(flux.way_in("tuo/fA/fB", "tuo")) == ["env", "SHELL=/bin/sh", "flux", "proxy", "fA/fB"]
    assert list(flux.way_in("tuo/fA/fB", "tuo/fA"))[-1] == "fB"
    for answering in ("tuo/fB", "tuo/fA/fB", "t"):
        assert list(flux.way_in("tuo/fA/fB", answering)) == []
