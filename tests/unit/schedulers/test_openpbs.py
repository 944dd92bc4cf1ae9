"""OpenPBS: chunks and totals, the states of every kind of end, and clients."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, strategies as st

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.job import UNMET, State
from dlrun.model.plan import Dependency
from dlrun.model.units import Bytes, Duration
from dlrun.schedulers.pbs.directives import quote
from tests.fakebin import CAPTURED
from tests.library import call
from tests.unit.schedulers.making import faults, lines, request, site

openpbs = backends.scheduler("openpbs")

COMMON = ["-N train", "-S /bin/bash", "-o logs/job.log", "-j oe", "-k doe", "-r n"]
GIB = Bytes.parse("1GiB")


def test_least():
    assert lines(openpbs, request(), site("openpbs")) == [
        *COMMON,
        "-l select=2:mpiprocs=2",
        "-l place=scatter",
    ]


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({"cpus_per_rank": 4, "threads": 4}, {}, ["-l select=2:ncpus=8:mpiprocs=2:ompthreads=4", "-l place=scatter"]),
        ({"cpus_per_node": 9, "cpus_per_rank": 4}, {}, ["-l select=2:ncpus=9:mpiprocs=2", "-l place=scatter"]),
        ({"cpus_per_rank": 4}, {"cpus": "none"}, ["-l select=2:mpiprocs=2", "-l place=scatter"]),
        ({"gpus_per_node": 2}, {"gpus": "ngpus"}, ["-l select=2:mpiprocs=2:ngpus=2", "-l place=scatter"]),
        ({"gpus_per_node": 2}, {"gpus": "none"}, ["-l select=2:mpiprocs=2", "-l place=scatter"]),
        ({"memory_per_node": Bytes(3 * GIB)}, {}, ["-l select=2:mpiprocs=2:mem=3gb", "-l place=scatter"]),
        ({"memory_per_node": Bytes(GIB // 2)}, {}, ["-l select=2:mpiprocs=2:mem=512mb", "-l place=scatter"]),
        ({"constraint": "system=polaris"}, {}, ["-l select=2:mpiprocs=2:system=polaris", "-l place=scatter"]),
        ({"exclusive": True}, {}, ["-l select=2:mpiprocs=2", "-l place=scatter:exclhost"]),
        ({"exclusive": True}, {"place": "scatter:excl"}, ["-l select=2:mpiprocs=2", "-l place=scatter:excl"]),
        ({"exclusive": True}, {"exclusive": True}, ["-l select=2:mpiprocs=2", "-l place=scatter"]),
        ({"nodes": 3, "ranks": 5, "cpus_per_rank": 4}, {},
         ["-l select=2:ncpus=8:mpiprocs=2+1:ncpus=4:mpiprocs=1", "-l place=scatter"]),
        ({"hosts": ("c1", "c3")}, {}, ["-l select=1:host=c1:mpiprocs=2+1:host=c3:mpiprocs=2", "-l place=scatter"]),
        ({"cpus_per_node": 48, "gpus_per_node": 4, "memory_per_node": GIB},
         {"arithmetic": "whole_job", "gpus": "ngpus", "account": "-P"}, ["-l ncpus=96", "-l ngpus=8", "-l mem=2gb"]),
        ({"cpus_per_rank": 12, "ranks": 3}, {"arithmetic": "whole_job"}, ["-l ncpus=36"]),
    ],
)  # fmt: skip
def test_resources(asked, at, expected):
    assert [x for x in lines(openpbs, request(**asked), site("openpbs", **at)) if x not in COMMON] == expected


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({"partition": "gpu"}, {}, "-q gpu"),
        ({"reservation": "R12"}, {}, "-q R12"),
        ({"account": "abc"}, {}, "-A abc"),
        ({"account": "abc"}, {"account": "-P"}, "-P abc"),
        ({"account": "abc"}, {"account": "-W group_list"}, "-W group_list=abc"),
        ({"account": "abc"}, {"account": "-W group_list="}, "-W group_list=abc"),
        ({"walltime": Duration(3661)}, {}, "-l walltime=01:01:01"),
        ({"hold": True}, {}, "-h"),
        ({"requeue": True}, {}, "-r y"),
        ({"options": {"filesystems": "home:eagle"}}, {}, "-l filesystems=home:eagle"),
        ({"options": {"storage": "gdata/x+scratch/y"}}, {}, "-l storage=gdata/x+scratch/y"),
        ({"options": {"W": "umask=022"}}, {}, "-W umask=022"),
        ({"after": (Dependency(job_id="1.s", when="ok"), Dependency(job_id="2[].s", when="any"))}, {},
         "-W depend=afterok:1.s,afterany:2[].s"),
        ({}, {"directives": ("-l wd",)}, "-l wd"),
    ],
)  # fmt: skip
def test_the_rest(asked, at, expected):
    assert expected in lines(openpbs, request(**asked), site("openpbs", **at))


def test_arrays_are_rerunnable_and_one_task_is_an_array_too():
    found = lines(openpbs, request(array=4), site("openpbs"), "points/{index}/logs/job.log")
    assert "-J 0-3" in found
    assert "-r y" in found
    assert "-r n" not in found
    assert "-o points/^array_index^/logs/job.log" in found
    assert "-J 0-1:2" in lines(openpbs, request(array=1), site("openpbs"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train", "train"),
        ("my job", "my_job"),
        ("4x", "j4x"),
        ("é", "j_"),
        ("a" * 300, "a" * 230),
        ("a+b.c-d", "a+b.c-d"),
    ],
)
def test_names(name, expected):
    assert f"-N {expected}" in lines(openpbs, request(name=name), site("openpbs"))


@pytest.mark.parametrize(
    ("asked", "at", "words"),
    [
        ({"exclude": ("c1",)}, {}, "cannot express `exclude`"),
        ({"qos": "high"}, {}, "does not support QOS"),
        ({"gpu_type": "a100"}, {}, "cannot express `gpu_type`"),
        ({"node_local": GIB}, {}, "cannot express `node_local`"),
        ({"memory_per_node": "all"}, {}, "all memory"),
        ({"hosts": ("c1",)}, {}, "1 hosts are listed for 2 nodes"),
        ({"partition": "q", "reservation": "r"}, {}, "either to a queue"),
        ({"gpus_per_node": 1}, {"gpus": "gres"}, "Slurm's option"),
        ({"constraint": "x=y"}, {"arithmetic": "whole_job"}, "cannot express `constraint`"),
        ({"hosts": ("c1", "c2")}, {"arithmetic": "whole_job"}, "cannot express `hosts`"),
        ({"options": {"walltime": "1:00:00"}}, {}, "set by dlrun"),
        ({"directives": ("-l select=4",)}, {}, "uses only one of the two"),
        ({}, {"directives": ("-V",)}, "uses only one of the two"),
        ({}, {"directives": ("#PBS -l wd",)}, "repeats"),
        ({"account": "a\nb"}, {}, "control characters"),
    ],
)
def test_refusals(asked, at, words):
    found = faults(openpbs, request(**asked), site("openpbs", **at))
    assert len(found) == 1
    assert words in found[0]


def test_with_spare_nodes_the_job_leaves_nodes_out_and_a_dead_one_does_not_end_it():
    said = lines(openpbs, request(exclude=("c1",), spare_nodes=1), site("openpbs"))
    assert "-W tolerate_node_failures=all" in said
    assert not any("c1" in line for line in said)
    assert "-W tolerate_node_failures=all" not in lines(openpbs, request(), site("openpbs"))


def test_node_local_storage_by_the_sites_own_request():
    asked = request(node_local=GIB, directives=("-l jobfs=100GB",))
    assert "-l jobfs=100GB" in lines(openpbs, asked, site("openpbs"))


def test_output_that_pbs_cannot_write():
    assert faults(openpbs, request(), site("openpbs"), "host:log")
    assert faults(openpbs, request(), site("openpbs"), "é.log")
    assert not faults(openpbs, request(), site("openpbs"), "/a:b/log")


def as_qsub_reads(text: str) -> list[str]:
    """The words of a directive by the rules of make_argv in qsub.c of OpenPBS and Torque."""
    words, word, i, begun = [], "", 0, False
    while i < len(text):
        char = text[i]
        if char in "\"'":
            end = text.index(char, i + 1)
            word, i, begun = word + text[i + 1 : end], end, True
        elif char == "\\":
            i += 1
            word, begun = word + text[i], True
        elif char.isspace():
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word, begun = word + char, True
        i += 1
    return [*words, word] if begun else words


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_quoted_values_arrive_as_they_were(value):
    assert as_qsub_reads(f"-A {quote(value)} -h") == ["-A", value, "-h"]


@pytest.fixture(scope="module")
def jobs():
    statuses = openpbs.parse_queue((CAPTURED / "openpbs" / "qstat.json").read_text())
    return {(s.job_id, s.task): s for s in statuses}


@pytest.mark.parametrize(
    ("job", "task", "state", "code", "signal"),
    [
        ("1.pbsctl", None, State.PENDING, None, None),
        ("2.pbsctl", None, State.RUNNING, None, None),
        ("3.pbsctl", None, State.PENDING, None, None),
        ("4[].pbsctl", None, State.RUNNING, None, None),
        ("4[].pbsctl", 0, State.COMPLETED, None, None),
        ("4[].pbsctl", 1, State.FAILED, None, None),
        ("4[].pbsctl", 2, State.RUNNING, None, None),
        ("4[].pbsctl", 3, State.PENDING, None, None),
        ("5.pbsctl", None, State.HELD, None, None),
        ("6.pbsctl", None, State.COMPLETED, 0, None),
        ("7.pbsctl", None, State.FAILED, 3, None),
        ("8.pbsctl", None, State.TIMED_OUT, None, None),
        ("9.pbsctl", None, State.CANCELLED, None, 15),
        ("10.pbsctl", None, State.CANCELLED_BY_ADMIN, None, 15),
        ("11.pbsctl", None, State.OUT_OF_MEMORY, None, None),
        ("12.pbsctl", None, State.FAILED, None, 9),
        ("13.pbsctl", None, State.NODE_FAILED, None, None),
        ("14.pbsctl", None, State.CANCELLED, None, None),
        ("15.pbsctl", None, State.PREEMPTED, None, 15),
        ("16.pbsctl", None, State.PENDING, None, None),
    ],
)
def test_states(jobs, job, task, state, code, signal):
    found = jobs[job, task]
    assert (found.state, found.exit_code, found.signal) == (state, code, signal)


def test_details(jobs):
    assert jobs["1.pbsctl", None].reason == "waits for other jobs"
    assert jobs["3.pbsctl", None].reason.startswith("Can Never Run")
    assert jobs["10.pbsctl", None].reason == "deleted by root"
    put_back = "requeued: Not Running: Not enough free nodes available"
    assert jobs["16.pbsctl", None].reason == put_back
    assert jobs["2.pbsctl", None].nodes == "c[1-2]"
    assert jobs["2.pbsctl", None].started == "2026-11-07T03:04:20"
    assert jobs["2.pbsctl", None].restarts == 1
    assert jobs["2.pbsctl", None].ended is None
    assert jobs["6.pbsctl", None].ended == "2026-11-21T03:04:15"


def test_output_that_is_not_quite_json():
    (found,) = openpbs.parse_queue((CAPTURED / "openpbs" / "bare.json").read_text())
    assert (found.job_id, found.state, found.exit_code) == ("21.pbsctl", State.FAILED, 7)


def test_several_jobs_are_read_from_text():
    """Of OpenPBS 23.06.06: a failed job, one that waited for it, a deleted one, and a held array."""
    statuses = openpbs.parse_queue((CAPTURED / "openpbs" / "several.txt").read_text())
    found = {(s.job_id, s.task): (s.state, s.exit_code) for s in statuses}
    assert found == {
        ("0.login", None): (State.FAILED, 3),
        ("1.login", None): (State.CANCELLED, None),
        ("2.login", None): (State.CANCELLED, None),
        ("3[].login", None): (State.HELD, None),
        ("3[].login", 0): (State.HELD, None),
        ("3[].login", 1): (State.COMPLETED, None),
        ("3[].login", 2): (State.HELD, None),
    }
    assert statuses[1].reason == UNMET


def test_nothing_is_no_job():
    assert openpbs.parse_queue("") == []
    assert openpbs.parse_queue('{"timestamp": 1, "pbs_server": "x"}') == []


def test_clients():
    assert openpbs.submitted("Thank you\n12[].pbs-01.example.org\n") == "12[].pbs-01.example.org"
    with pytest.raises(OperationFailed, match="no job id"):
        openpbs.submitted("qsub: ok\n")
    assert openpbs.queue(["1"]) == ("qstat", "-t", "-f", "-F", "json", "1")
    assert openpbs.queue(["1", "2"]) == ("qstat", "-t", "-f", "1", "2")
    assert openpbs.history(["1", "2"]) == ("qstat", "-x", "-t", "-f", "1", "2")
    assert openpbs.cancel(["1"]) == ("qdel", "1")
    assert openpbs.submit("job.sh") == ("qsub", "job.sh")
    with pytest.raises(Invalid, match="without submitting it"):
        openpbs.submit("job.sh", check=True)


def test_forgotten_jobs_are_no_failure():
    assert openpbs.unknown_jobs(
        "qstat: Unknown Job Id 9.pbsctl\nqstat: 8.pbsctl Job has finished, use -x or -H to obtain\n", 1
    )
    assert openpbs.unknown_jobs("qstat: PBS is not configured to maintain job history\n", 1)
    assert not openpbs.unknown_jobs(
        "qstat: Unknown Job Id 9.pbsctl\ncannot connect to server pbsctl (errno=111)\n", 1
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("qsub: Unknown queue\n", "resources.partition"),
        ("qsub: Unknown resource: ngpu\n", "resources.options"),
        ("qsub: Job violates queue and/or server resource limits\n", "walltime"),
        ("qsub: Invalid Account\n", "resources.account"),
        ("qsub: cannot connect to server pbsctl (errno=111)\n", "does not answer"),
        (
            'qsub: "-lresource=" cannot be used with "select" or "place", resource is: ncpus\n',
            "by `-l select`",
        ),
        ("qsub: illegal -N value\n", "name"),
        ("qsub: Array job exceeds server or queue size limit\n", "max_array_size"),
    ],
)
def test_advice(said, words):
    assert words in (openpbs.advice(said) or "")


def shell(code: str, **environment: str) -> str:
    script = f'set -euo pipefail; echo "{code}"'
    found = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def test_identity_inside_a_job(tmp_path):
    assert shell(openpbs.JOB_ID.code, PBS_JOBID="12.pbsctl") == "12.pbsctl"
    assert shell(openpbs.JOB_ID.code, PBS_JOBID="12[3].pbsctl") == "12[].pbsctl"
    assert shell(openpbs.ARRAY_INDEX.code, PBS_ARRAY_INDEX="3") == "3"
    nodefile = tmp_path / "nodes"
    nodefile.write_text("c2\nc2\nc1\nc1\n")
    found = subprocess.run(
        ["bash", "-c", openpbs.HOSTS], env={"PATH": os.environ["PATH"], "PBS_NODEFILE": str(nodefile)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout == "c2\nc1\n"


BY_QSTAT = f'dlrun_source pbs; PBS_JOBID=12.pbsctl PBS_EXEC={{}}; printf %s "{openpbs.RESTARTS.code}"'


@pytest.mark.parametrize(
    ("printed", "restarts"), [("run_count = 3", "2"), ("run_count = 1", "0"), ("x = 9", "0")]
)
def test_restarts_are_asked_of_qstat(tmp_path, printed, restarts):
    qstat = tmp_path / "bin" / "qstat"
    qstat.parent.mkdir()
    qstat.write_text(f'#!/bin/sh\n[ "$2" = 12.pbsctl ] || exit 1\necho "Job Id: $2"\necho "    {printed}"\n')
    qstat.chmod(0o755)
    assert call(tmp_path, BY_QSTAT.format(tmp_path)).stdout == restarts


def test_restarts_without_a_qstat(tmp_path):
    assert call(tmp_path, BY_QSTAT.format(tmp_path)).stdout == "0"


def test_a_first_node_that_is_gone_is_not_a_server_that_is_away():
    said = "qdel: Server could not connect to MOM 12.pbs"
    assert "`qdel -W force`" in (openpbs.advice(said) or "")
    assert "`qstat -B`" in (openpbs.advice("Connection refused\nqdel: cannot connect to server pbs") or "")
