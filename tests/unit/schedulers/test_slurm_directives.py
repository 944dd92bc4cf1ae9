"""Each part of a request as Slurm must read it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dlrun import backends
from dlrun.model.origin import Layer, Origin
from dlrun.model.plan import Dependency
from dlrun.model.units import Bytes, Duration
from dlrun.schedulers.slurm.directives import quote
from tests.unit.schedulers.making import faults, lines, request, site

slurm = backends.scheduler("slurm")

ALWAYS = ["--job-name=train", "--output=logs/job.log", "--no-requeue"]
SHAPE = ["--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]


def test_least():
    assert lines(slurm, request(), site("slurm")) == ALWAYS + SHAPE


@pytest.mark.parametrize(
    ("asked", "at", "expected"),
    [
        ({"cpus_per_rank": 7}, {}, ["--cpus-per-task=7"]),
        ({"cpus_per_rank": 7}, {"cpus": "none"}, []),
        ({"cpus_per_node": 9}, {}, ["--cpus-per-task=4", "--mincpus=9"]),
        ({"cpus_per_node": 9, "exclusive": True}, {}, ["--cpus-per-task=4", "--exclusive"]),
        ({"cpus_per_node": 9, "exclusive": True}, {"exclusive": True}, ["--cpus-per-task=4"]),
        ({"cpus_per_node": 1}, {}, ["--mincpus=1"]),
        ({"gpus_per_node": 4}, {}, ["--gpus-per-node=4"]),
        ({"gpus_per_node": 4, "gpu_type": "a100"}, {}, ["--gpus-per-node=a100:4"]),
        ({"gpus_per_node": 4, "gpu_type": "a100"}, {"gpus": "gres"}, ["--gres=gpu:a100:4"]),
        ({"gpus_per_node": 4}, {"gpus": "gpus_per_task"}, ["--gpus-per-task=2"]),
        ({"gpus_per_node": 4}, {"gpus": "none"}, []),
        ({"gpus_per_node": 4}, {"forbidden": ("gpus",)}, []),
        ({"memory_per_node": "all"}, {}, ["--mem=0"]),
        ({"memory_per_node": Bytes(2 * 10**9)}, {}, ["--mem=1907M"]),
        ({"memory_per_node": Bytes(10)}, {}, ["--mem=1M"]),
        ({"memory_per_node": "all"}, {"forbidden": ("memory",)}, []),
        ({"node_local": Bytes.parse("10GiB")}, {}, ["--tmp=10240M"]),
        ({"node_local": Bytes(1), "directives": ("-C nvme",)}, {}, ["-C nvme"]),
        ({"account": "abc"}, {}, ["--account=abc"]),
        ({"account": "abc"}, {"account": "-A"}, ["-A abc"]),
        ({"partition": "gpu", "qos": "a b", "reservation": "r"}, {}, ["--partition=gpu", '--qos="a b"', "--reservation=r"]),
        ({"constraint": "gpu&hbm80g"}, {}, ["--constraint=gpu&hbm80g"]),
        ({"constraint": "a100"}, {"directives": ("-C nvme",)}, ["--constraint=a100&nvme"]),
        ({"gpus_per_node": 4, "options": {"gres": "lscratch:100"}}, {"gpus": "gres"}, ["--gres=gpu:4,lscratch:100"]),
        ({"hosts": ("n01", "n02")}, {}, ["--nodelist=n[01-02]"]),
        ({"hosts": ("n1-ib", "n2-ib")}, {}, ["--nodelist=n1-ib,n2-ib"]),
        ({"exclude": ("n1", "n3")}, {}, ["--exclude=n[1,3]"]),
        ({"walltime": Duration(100 * 3600)}, {}, ["--time=100:00:00"]),
        ({"walltime": Duration(90)}, {}, ["--time=00:01:30"]),
        ({"hold": True}, {}, ["--hold"]),
        ({"signal": "USR1", "signal_before": Duration(120)}, {}, ["--signal=B:USR1@120"]),
        ({"array": 1}, {}, ["--array=0-0"]),
        ({"options": {"network": "disable_rdzv_get", "requeue-x": "", "L": "lic"}}, {},
         ["--network=disable_rdzv_get", "--requeue-x", "-L lic"]),
        ({"directives": (" --comment=x ",)}, {"directives": ("--switches=1",)}, ["--switches=1", "--comment=x"]),
    ],
)  # fmt: skip
def test_parts(asked, at, expected):
    assert [
        x for x in lines(slurm, request(**asked), site("slurm", **at)) if x not in ALWAYS + SHAPE
    ] == expected


def test_requeued_jobs_keep_their_log():
    found = lines(slurm, request(requeue=True), site("slurm"))
    assert "--requeue" in found
    assert "--open-mode=append" in found
    assert "--no-requeue" not in found


def test_uneven_ranks():
    assert lines(slurm, request(ranks=7, nodes=2, ranks_per_node=4), site("slurm"))[3:6] == [
        "--nodes=2",
        "--ntasks=7",
        "--ntasks-per-node=4",
    ]


def test_dependencies_in_order_and_never_for_ever():
    after = tuple(
        Dependency(job_id=job, when=when)
        for job, when in (("1", "ok"), ("2", "ok"), ("3", "any"), ("4", "not_ok"))
    )
    found = lines(slurm, request(after=after), site("slurm"))
    assert "--dependency=afterok:1:2,afterany:3,afternotok:4" in found
    assert "--kill-on-invalid-dep=yes" in found


def test_output_of_tasks_and_percent_signs():
    found = lines(slurm, request(array=3), site("slurm"), "points/{index}/100%/job.log")
    assert "--output=points/%a/100%%/job.log" in found


def test_reasons_and_origins():
    spec = Origin(layer=Layer.SPEC, name="spec.yaml", line=4, column=3)
    directives = slurm.directives(request(qos="x"), site("slurm"), "o", {"qos": spec})
    assert all(directive.because for directive in directives)
    assert {d.text: d.origin for d in directives}["--qos=x"] == spec


@pytest.mark.parametrize(
    ("asked", "at", "words"),
    [
        ({"name": "a\nrm -rf /"}, {}, "control characters"),
        ({"options": {"comment": "a\r"}}, {}, "control characters"),
        ({"directives": ("#SBATCH --x",)}, {}, "repeats"),
        ({"options": {"nodes": "3"}}, {}, "set by dlrun"),
        ({"options": {"-N": "3"}}, {}, "set by dlrun"),
        ({"gpus_per_node": 4}, {"gpus": "ngpus"}, "the option of PBS"),
        ({"gpus_per_node": 3}, {"gpus": "gpus_per_task"}, "shared evenly"),
        ({"signal": "USR1", "signal_before": Duration(70000)}, {}, "65535"),
        ({"constraint": "a|b"}, {"directives": ("--constraint=c",)}, "joined"),
        ({"gpus_per_node": 1, "options": {"gres": "gpu:1"}}, {}, "cannot be combined"),
        (
            {"cpus_per_rank": 1, "options": {"cpus-per-gpu": "1"}},
            {"version": "23.11.4"},
            "cannot be combined",
        ),
        ({"memory_per_node": "all", "options": {"mem-per-gpu": "1G"}}, {}, "cannot be combined"),
        ({"options": {"network": "disable_rdzv_get"}}, {"version": "23.02"}, "needs Slurm 23.11"),
        ({"exclude": tuple(f"n{i}x" for i in range(9000))}, {}, "the maximum is 8000"),
    ],
)
def test_refusals(asked, at, words):
    found = faults(slurm, request(**asked), site("slurm", **at))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ({"cpus_per_rank": 1, "options": {"cpus-per-gpu": "1"}}, {"version": "23.02"}),
        ({"options": {"network": "disable_rdzv_get"}}, {"version": "25.05"}),
        ({"options": {"network": "disable_rdzv_get"}}, {}),
        ({"memory_per_node": "all", "options": {"mem-bind": "local"}}, {}),
    ],
)
def test_version_rules_hold_only_where_they_hold(asked, at):
    assert faults(slurm, request(**asked), site("slurm", **at)) == []


def test_all_faults_at_once():
    assert (
        len(faults(slurm, request(name="\x00", gpus_per_node=1, qos="\x7f"), site("slurm", gpus="ngpus")))
        == 3
    )


def as_sbatch_reads(text: str) -> list[str]:
    """The words of a directive by the rules of `_get_argument` in src/sbatch/opt.c."""
    words, i = [], 0
    while i < len(text):
        if text[i].isspace():
            i += 1
            continue
        word, quoted, escaped = "", "", False
        while i < len(text) and (quoted or not text[i].isspace()):
            char = text[i]
            if escaped:
                word, escaped = word + char, False
            elif char == "\\":
                escaped = True
            elif quoted and char == quoted:
                quoted = ""
            elif not quoted and char in "\"'":
                quoted = char
            elif not quoted and char == "#":
                return [*words, word] if word else words
            else:
                word += char
            i += 1
        assert not quoted
        words.append(word)
    return words


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_quoted_values_arrive_as_they_were(value):
    assert as_sbatch_reads(f"--comment={quote(value)} --next") == [f"--comment={value}", "--next"]
