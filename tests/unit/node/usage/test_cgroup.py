"""Which cgroup is the job's, by schedulers and versions, and what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from dlrun.node.usage.cgroup import Cgroup

V2 = {
    "cpu.stat": "usage_usec 61500000\nuser_usec 60000000\n",
    "memory.current": "7340032\n",
    "memory.max": "max\n",
}


def cgroup(place: Path, membership: str, files: dict[str, str], words: str = "12") -> Cgroup:
    (place / "membership").write_text(membership)
    for name, text in files.items():
        path = place / "fs" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Cgroup(words, str(place / "membership"), str(place / "fs"))


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("/system.slice/slurmstepd.scope/job_12/step_0/user/task_0", "/system.slice/slurmstepd.scope/job_12"),
        ("/pbs_jobs.service/jobid/12.pbs-server", "/pbs_jobs.service/jobid/12.pbs-server"),
        ("/ge/12.1/x", "/ge/12.1"),
    ],
)
def test_version_2(tmp_path, path, job):
    found = cgroup(tmp_path, f"0::{path}\n", {f"{job}/{name}": text for name, text in V2.items()})
    assert found.known
    assert found.row() == [61.5, 7 << 20, 7 << 20, None]


def test_the_peak_of_version_2_is_the_kernels_where_it_keeps_one(tmp_path):
    files = V2 | {"memory.peak": "9437184\n", "memory.max": "16777216\n"}
    found = cgroup(tmp_path, "0::/job_12\n", {f"job_12/{name}": text for name, text in files.items()})
    assert found.row() == [61.5, 7 << 20, 9 << 20, 16 << 20]


def test_version_1_has_one_tree_for_each_controller(tmp_path):
    job = "slurm/uid_0/job_12"
    found = cgroup(
        tmp_path,
        f"9:cpuset:/{job}/step_0\n4:memory:/{job}/step_0/task_0\n2:cpu,cpuacct:/{job}/step_0\n0::/\n",
        {
            f"memory/{job}/memory.usage_in_bytes": "5242880\n",
            f"memory/{job}/memory.max_usage_in_bytes": "8388608\n",
            f"memory/{job}/memory.limit_in_bytes": "9223372036854771712\n",
            f"cpu,cpuacct/{job}/cpuacct.usage": "61500000000\n",
        },
    )
    assert found.row() == [61.5, 5 << 20, 8 << 20, None]


def test_a_container_sees_a_part_of_the_tree(tmp_path):
    found = cgroup(
        tmp_path, "0::/outer/node/job_12/step_0\n", {f"job_12/{name}": text for name, text in V2.items()}
    )
    assert found.row() == [61.5, 7 << 20, 7 << 20, None]


@pytest.mark.parametrize("path", ["/", "/user.slice/user-0.slice/session-3.scope", "/docker/0a1b"])
def test_a_cgroup_that_is_not_the_jobs_alone_counts_nothing(tmp_path, path):
    found = cgroup(
        tmp_path, f"0::{path}\n", {f"{path.strip('/')}/x/{name}": text for name, text in V2.items()}
    )
    assert not found.known
    assert found.row() == [None, None, None, None]
