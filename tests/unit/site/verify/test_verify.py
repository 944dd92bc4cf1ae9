"""What ranks report beside what was planned: each way to differ is seen, and its likely cause named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlrun import backends
from dlrun.model.plan import FabricCheck
from dlrun.plan.build import PlanInputs
from dlrun.plan.role_jobs.build import build_all
from dlrun.site.verify.command import table_of
from dlrun.site.verify.compare import compare_check
from dlrun.site.verify.job import check_of, reports
from dlrun.site.verify.report import grouped
from dlrun.system.inputs.spec import load_spec
from tests.making import LOCAL, NOWHERE, inside, plan_of, scripts_of

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
gpu_binding: {policy: visible}
node_types:
  gpu:
    topology: {packages: 2, cores: 4, gpus: {count: 2, numa: [0, 1]}, nics: [{name: mlx5_0, numa: 0}, {name: mlx5_1, numa: 1}]}
partitions: {gpu: {node_type: gpu, default: true}}
"""
HOSTS = ["n1", "n2"]


@pytest.fixture
def plan(tmp_path):
    spec = (
        "resources: {nodes: 2, ranks_per_node: 2, exclusive: true, walltime: 1h}\n"
        "environment: {variables: {OMP_PROC_BIND: spread}}"
    )
    return plan_of(tmp_path, spec, SITE)


def right(plan) -> dict[int, dict]:
    """Reports of ranks that are all as planned."""
    found = {}
    for rank in range(4):
        planned = plan.binding.placement.ranks[rank % 2]
        found[rank] = {
            "rank": rank,
            "local_rank": rank % 2,
            "host": HOSTS[rank // 2],
            "mask": list(planned.mask),
            "threads": str(plan.request.threads),
            "memory": f"preferred:{rank % 2}",
            "gpus": {"CUDA_VISIBLE_DEVICES": ",".join(map(str, planned.gpus))},
            "sum": 10,
            "adapters": {"mlx5_0": "active", "mlx5_1": "unknown", "lo": "down"},
            "clock": 0.01,
            "open_files": 4096,
            "locked_memory": -1,
        }
    return found


def test_ranks_as_planned_do_not_differ(plan):
    assert [one.differences for one in compare_check(plan, right(plan), HOSTS)] == [()] * 4


@pytest.mark.parametrize(
    ("change", "what", "cause"),
    [
        ({"mask": list(range(8))}, "may use CPUs 0-7, not", "it is not bound"),
        ({"mask": [0]}, "may use CPUs 0, not", "fewer cores"),
        ({"mask": [4, 5, 6, 7]}, "may use CPUs 4-7, not", "numbers its cores differently"),
        (
            {"host": "n2"},
            "runs on n2 as local rank 0, not on n1 as local rank 0",
            "does not fill nodes in order",
        ),
        ({"threads": "64"}, "OMP_NUM_THREADS is 64", "sets it"),
        ({"memory": "none"}, "memory policy is none, not preferred:0", "numactl is missing"),
        ({"memory": "preferred:1"}, "memory policy is preferred:1, not preferred:0", "control group"),
        (
            {"memory": "none", "numa": [1]},
            "memory policy is none",
            "its node has the NUMA nodes 1 alone",
        ),
        (
            {"memory": "none", "numa": [0, 1], "numactl": False},
            "memory policy is none",
            "not installed on the node",
        ),
        ({"gpus": {"CUDA_VISIBLE_DEVICES": "1"}}, "CUDA_VISIBLE_DEVICES is 1, not 0", "sets it"),
        ({"gpus": {}}, "CUDA_VISIBLE_DEVICES is not set, not 0", "sets it"),
        ({"clock": -7.0}, "its clock is -7.0 s from rank 0's", "time service"),
        ({"sum": 9}, "the sum over all ranks is 9, not 10", "another run"),
        ({"unreached": "timed out"}, "was not reached by all others: timed out", "rendezvous rule"),
        ({"mask": [0], "granted": [0]}, "may use CPUs 0, not", "control group has CPUs 0 alone"),
        (
            {"mask": [0], "online": [0, 1]},
            "may use CPUs 0, not",
            "its node has CPUs 0-1 alone: the profile is of other nodes",
        ),
        (
            {"mask": [0], "inherited": [0, 1], "scheduler_cpus": 2},
            "may use CPUs 0, not",
            "the scheduler granted CPUs 0-1 alone",
        ),
        ({"mask": [0], "inherited": list(range(8))}, "may use CPUs 0, not", "a wrapper binds it by itself"),
        (
            {"gpu_devices": [0, 2]},
            "may open 0 of the 2 GPUs of its node, and the plan gives it 1",
            "control group",
        ),
        (
            {"unsent": "timed out", "unsent_to": "10.0.0.1"},
            "a message of 1 MiB does not reach rank 0 at 10.0.0.1",
            "a cable",
        ),
        ({"open_files": 1024}, "may open 1024 files, and most ranks 4096", "daemon on its node"),
        (
            {"locked_memory": 65536},
            "may lock 65536 bytes of memory, and most ranks any number",
            "daemon on its node",
        ),
        (
            {"mask": [0], "inherited": [0]},
            "may use CPUs 0, not",
            "an inherited mask: it was started with CPUs 0, like every rank of its node",
        ),
        ({"mask": [0, 1], "cores": [[0, 4], [1, 5]]}, "may use CPUs 0-1, not", "SMT numbering"),
        ({"adapters": {"eth0": "up"}}, "network adapter mlx5_0 is absent", "driver is not loaded"),
        ({"adapters": {"mlx5_0": "down"}}, "network adapter mlx5_0 is down", "a cable"),
        ({"cores": [[0, 4], [1, 5]]}, "CPUs 0,4 are one core of its node", "SMT numbering"),
        (
            {"variables": {"OMP_PROC_BIND": "close"}},
            "OMP_PROC_BIND is close, not spread",
            "a module, the launcher",
        ),
    ],
)
def test_each_difference_is_seen_with_a_likely_cause(plan, change, what, cause):
    found = right(plan)
    found[0] |= change
    zero, *others = compare_check(plan, found, HOSTS)
    assert [one.differences for one in others] == [()] * 3
    (difference,) = zero.differences
    assert what in difference.what
    assert cause in difference.cause


def test_a_planned_interface_that_is_not_used_is_a_difference_and_who_lacks_it_is_named(plan):
    found = right(plan)
    for report in found.values():
        report |= {"interface": "ib0", "addresses": {"ib0": "10.0.0.1", "eth0": "10.1.0.1"}}
    found[1]["interface"] = "lo"  # inside the node
    assert not any(one.differences for one in compare_check(plan, found, HOSTS, interfaces=("ib0", "ib1")))
    found[2] |= {"interface": "eth0", "addresses": {"eth0": "10.1.0.2"}}
    *_, two, _ = compare_check(plan, found, HOSTS, interfaces=("ib0", "ib1"))
    assert two.differences[0].what == "reaches rank 0 over eth0, not ib0, ib1"
    assert two.differences[0].cause.startswith("n2 has no address on ib0, ib1")


def test_who_was_not_reached_is_named(plan):
    found = right(plan)
    found[1] |= {"unreached": "Name or service not known", "rendezvous": "n1-ib"}
    (difference,) = compare_check(plan, found, HOSTS)[1].differences
    assert difference.what == "does not reach rank 0 at n1-ib: Name or service not known"


def test_what_several_ranks_have_in_common_is_said_once(plan):
    found = right(plan)
    for rank in (0, 1, 3):
        found[rank]["threads"] = "64"
    ((who, difference),) = grouped(compare_check(plan, found, HOSTS))
    assert (who, difference.what.split(",")[0]) == ("ranks 0-1,3", "OMP_NUM_THREADS is 64")


def test_threads_that_the_spec_itself_sets_are_told_from_a_modules(tmp_path):
    spec = "resources: {ranks_per_node: 2, exclusive: true}\nenvironment: {variables: {OMP_NUM_THREADS: '3'}}"
    plan = plan_of(tmp_path, spec, SITE)
    found = right(plan)
    for rank in (0, 1):
        found[rank] |= {"sum": 3, "threads": "3"}
    assert {one.differences[0].cause for one in compare_check(plan, found, HOSTS)} == {
        "the spec or the site sets it under `environment`; `cpus_per_rank` determines the number of threads"
    }


def test_without_a_variable_of_the_plan_too_few_visible_gpus_are_seen(tmp_path):
    site = SITE.replace("gpu_binding: {policy: visible}", "gpu_binding: {policy: scheduler}")
    plan = plan_of(tmp_path, "resources: {ranks_per_node: 1, exclusive: true}", site)
    assert plan.binding.gpu_variable is None
    found = {
        0: right(plan_of(tmp_path, "resources: {nodes: 2, ranks_per_node: 2, exclusive: true}", SITE))[0]
    }
    found[0] |= {
        "mask": list(plan.binding.placement.ranks[0].mask),
        "sum": 1,
        "memory": None,
        "threads": None,
    }
    (one,) = compare_check(plan, found, HOSTS)
    assert [its.what for its in one.differences] == ["CUDA_VISIBLE_DEVICES is `0`, fewer than 2 GPUs"]


def test_a_library_that_sees_no_gpu_is_a_difference(plan):
    found = right(plan)
    for rank, report in found.items():
        report["library"] = LIBRARY | {"before": (rank - 1) % 4, "gpus": 0, "backend": "gloo"}
    zero, *_ = compare_check(plan, found, HOSTS, libraries=True)
    assert [its.what for its in zero.differences] == ["torch 2 detects no GPU, but the plan has some"]


def test_a_launcher_that_binds_each_rank_is_told_from_an_inherited_mask(plan):
    found = right(plan)
    for rank in (0, 1):
        found[rank] |= {"mask": [rank], "inherited": [rank]}
    zero, one, *_ = compare_check(plan, found, HOSTS)
    assert zero.differences[0].cause.startswith(
        "the launcher's own binding: it started this rank with CPUs 0,"
    )
    assert "with CPUs 1," in one.differences[0].cause


LIBRARY = {"by": "torch 2", "backend": "nccl", "sums": [10, 10], "before": 3}
IB = FabricCheck(action="warn", fabric="infiniband", expect=("ib",))


@pytest.mark.parametrize(
    ("library", "transport", "advice", "what", "cause"),
    [
        ({}, "tcp", None, "NCCL uses TCP sockets, but this is infiniband", "plugin or driver"),
        ({}, "tcp", "load the module ofed", "NCCL uses TCP sockets", "load the module ofed"),
        ({}, "efa", None, "NCCL uses EFA, but this is infiniband", "plugin or driver"),
        ({"sums": [9, 10]}, "ib", None, "receives wrong numbers: sums [9, 10]", "faulty node"),
        ({"before": 2}, "ib", None, "from rank 2", "faulty node"),
        (
            {"failed": "timed out"},
            None,
            None,
            "torch 2 fails: timed out",
            "the library's own choice of interface",
        ),
        (None, None, None, "did not finish its test", "see its log"),
    ],
)
def test_the_librarys_own_test_is_held_against_the_fabric(plan, library, transport, advice, what, cause):
    found = right(plan)
    for rank, report in found.items():
        report |= {"locked_memory": -1, "transport": {"library": "NCCL", "transport": "ib"}}
        report["library"] = LIBRARY | {"before": (rank - 1) % 4}
    found[0]["library"] = None if library is None else LIBRARY | library
    found[0]["transport"] = transport and {"library": "NCCL", "transport": transport}
    fabric = FabricCheck(action="warn", fabric="infiniband", expect=("ib",), advice=advice)
    zero, *others = compare_check(plan, found, HOSTS, fabric, libraries=True)
    assert [one.differences for one in others] == [()] * 3
    (difference,) = zero.differences
    assert what in difference.what
    assert cause in difference.cause


def test_memory_that_may_not_be_locked_is_named_as_the_cause_of_a_fall_back(plan):
    found = right(plan)
    sockets = {"library": "NCCL", "transport": "tcp"}
    found[0] |= {"library": LIBRARY, "transport": sockets, "locked_memory": 64 << 10}
    (difference,) = compare_check(plan, {0: found[0]}, HOSTS, IB, libraries=True)[0].differences
    assert "only 64 KiB" in difference.cause


def test_what_a_library_says_belongs_to_all_ranks_of_its_log(tmp_path):
    """An agent has several ranks in one log, each with a mark before its lines."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/agent-0.log").write_text(
        '[default0]:dlrun-check {"rank": 0}\n[default1]:dlrun-check {"rank": 1}\n'
        "[default0]:n1:7:7 [0] NCCL INFO Using network Socket\n"
        '[default1]:dlrun-library {"rank": 1, "by": "torch 2"}\n'
    )
    found = reports(tmp_path)
    assert [found[rank]["transport"]["transport"] for rank in (0, 1)] == ["tcp", "tcp"]
    assert [found[rank]["library"] for rank in (0, 1)] == [None, {"rank": 1, "by": "torch 2"}]


def test_what_the_first_rank_says_for_all_is_what_all_talk_over(tmp_path):
    """Intel MPI and oneCCL name the provider on rank 0 alone."""
    (tmp_path / "logs").mkdir()
    for rank, more in enumerate(("[0] MPI startup(): libfabric provider: tcp\n", "")):
        (tmp_path / f"logs/rank-{rank}.log").write_text(f'dlrun-check {{"rank": {rank}}}\n{more}')
    assert {one["transport"]["transport"] for one in reports(tmp_path).values()} == {"tcp"}


def test_a_silent_rank_is_a_difference(plan):
    found = right(plan)
    del found[3]
    assert [len(one.differences) for one in compare_check(plan, found, HOSTS)] == [0, 0, 0, 1]


def test_where_cores_are_shared_out_ranks_must_not_have_the_same(tmp_path):
    plan = plan_of(tmp_path, "resources: {ranks_per_node: 2}\nplacement: {bind: job}", SITE)
    found = right(plan_of(tmp_path, "resources: {nodes: 2, ranks_per_node: 2, exclusive: true}", SITE))
    reports = {rank: found[rank] | {"sum": 3, "threads": None} for rank in (0, 1)}
    assert [one.differences for one in compare_check(plan, reports, HOSTS)] == [(), ()]
    reports[1]["mask"] = reports[0]["mask"]
    assert ["shares CPUs" in one.differences[0].what for one in compare_check(plan, reports, HOSTS)] == [
        True,
        True,
    ]


def test_gpus_within_what_the_scheduler_granted_do_not_differ(plan):
    found = right(plan)
    found[0] |= {"given_gpus": "CUDA_VISIBLE_DEVICES=5", "gpus": {"CUDA_VISIBLE_DEVICES": "5"}}
    assert [one.differences for one in compare_check(plan, found, HOSTS)] == [()] * 4
    found[0]["gpus"] = {"CUDA_VISIBLE_DEVICES": "0"}
    (difference,) = compare_check(plan, found, HOSTS)[0].differences
    assert difference.what == "CUDA_VISIBLE_DEVICES is 0, not 5"


def test_fewer_cpus_than_threads_are_a_difference_where_the_scheduler_binds(tmp_path):
    spec = "resources: {nodes: 2, ranks_per_node: 2, exclusive: true, walltime: 1h}\nplacement: {bind: scheduler}"
    plan = plan_of(tmp_path, spec, SITE)
    assert (plan.binding.placement, plan.request.threads) == (None, 4)
    report = {"host": "n1", "threads": "4", "memory": "none", "gpus": {}, "sum": 10, "clock": 0.01}
    found = {
        rank: {**report, "rank": rank, "local_rank": rank % 2, "host": HOSTS[rank // 2], "mask": [0, 1, 2, 3]}
        for rank in range(4)
    }
    found[3]["mask"] = [0, 1]
    assert [[its.what for its in one.differences] for one in compare_check(plan, found, HOSTS)] == [
        [], [], [], ["may use CPUs 0-1, fewer than its 4 threads"],
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["-1", "NoDevFiles"])
def test_a_job_without_gpus_has_no_column_for_them_whatever_the_scheduler_writes(tmp_path, value):
    site = SITE.replace("gpus: {count: 2, numa: [0, 1]}, ", "")
    plan = plan_of(tmp_path, "resources: {ranks_per_node: 1, exclusive: true, walltime: 1h}", site)
    report = {
        "host": "n1",
        "rank": 0,
        "local_rank": 0,
        "threads": "4",
        "memory": "none",
        "mask": [0],
        "sum": 1,
    }
    for shown, columns in ((value, 0), ("1", 1)):
        seen = {**report, "clock": 0.01, "gpus": {"CUDA_VISIBLE_DEVICES": shown}}
        found = compare_check(plan, {0: seen}, ["n1"])
        assert table_of(found)[0].count("GPUS") == columns, shown


@pytest.mark.parametrize("key", ["run: ./train $DATA", "command: [./train]"])
def test_the_check_is_the_same_command_for_shell_text(tmp_path, key):
    (tmp_path / "spec.yaml").write_text(
        f"name: x\nsite: ./site.yaml\n{key}\nresources: {{ranks_per_node: 1}}\n"
    )
    (tmp_path / "site.yaml").write_text(LOCAL)
    with inside(tmp_path):
        loaded = load_spec(Path("spec.yaml"), sets=(), options=backends.framework_options, here=NOWHERE)
        spec = check_of(loaded.spec, (), ())
        inputs = PlanInputs(
            spec=spec, site=loaded.site, topology=None, directory="/home/ada", sources=loaded.sources
        )
        page = scripts_of(build_all(inputs, {}))["rank.sh"]
    assert '"$DLRUN_JOB_DIR"/lib/python.sh "$DLRUN_JOB_DIR"/node.pyz check-rank' in page
