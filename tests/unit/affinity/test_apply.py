"""What binds a rank where it runs: the text that scripts and jobs share, in a real bash, with real taskset and numactl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from dlrun.affinity.bind import library
from dlrun.model.cpuset import parse_list
from tests.oracles.granted_cpus import Node

MINE = ",".join(map(str, sorted(os.sched_getaffinity(0))))


def bash(script, *, path=None, **environment):
    """What a script prints after the library, on two streams."""
    start = {
        "PATH": path or os.environ["PATH"],
        "DLRUN_LOCAL_RANK": "1",
        "DLRUN_LOCAL_SIZE": "2",
        **environment,
    }
    text = f"set -uo pipefail\n{library()}\n{script}\n"
    return subprocess.run(
        ["bash", "-c", text], env=start, capture_output=True, text=True, check=True, timeout=60
    )


@pytest.mark.parametrize(
    ("shown", "planned", "left"),
    [
        (None, "2,3", "3"),  # nothing is hidden: the plan's
        ("0,1,2,3", "2,3", "3"),  # the whole node was granted
        ("2,3", "2,3", "3"),  # half of it, by the node's numbers
        ("0", "2,3", "0"),  # the scheduler shows each rank its own, numbered anew
        ("0,1", "2,3", "1"),  # the job has two, numbered anew: one for each of the two ranks
        ("0,1,2,3", "4,5,6,7", "2,3"),
        ("GPU-aa,GPU-bb", "0,1", "GPU-bb"),
        ("GPU-aa", "0,1", "GPU-aa"),
        ("", "0,1", ""),  # the job has none
        ("-1", "0,1", "-1"),
        ("NoDevFiles", "0,1", "NoDevFiles"),
        ("none", "0,1", "none"),
    ],
)
def test_a_rank_sees_its_gpus_within_what_the_scheduler_shows_it(shown, planned, left):
    given = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    rows = planned.split(",")
    own = ",".join(rows[len(rows) // 2 :])
    script = f"dlrun_grant 2 {MINE} 1 0 0 1 CUDA_VISIBLE_DEVICES {planned}; dlrun_show_gpus CUDA_VISIBLE_DEVICES {own}"
    done = bash(f"{script}; printenv CUDA_VISIBLE_DEVICES", **given)
    assert done.stdout == f"{left}\n"


ONE_GPU = f"""
rank() {{
  dlrun_find_local_rank
  dlrun_find_local_size 2
  dlrun_grant 2 {MINE} 1 0 0 1 CUDA_VISIBLE_DEVICES "$1"
  dlrun_show_gpus CUDA_VISIBLE_DEVICES "${{1:DLRUN_LOCAL_RANK * 2:(${{#1}} - 1) / 2}}"
  echo "sees $CUDA_VISIBLE_DEVICES"
}}
"""


@pytest.mark.parametrize(
    ("given", "own", "planned", "says"),
    [
        ("1", None, "0,1", "GPUs 1,1,"),  # of the job, which has one for both
        ("1", None, "0,1,2,3", "GPUs 1,1,"),
        ("none", None, "0,1", ""),
        ("0,1", "1", "0,1", ""),  # the launcher shows each its own
        ("0,1", "GPU-aa", "0,1", ""),
    ],
)
def test_ranks_that_share_the_jobs_gpus_say_so(tmp_path, given, own, planned, says):
    """The same value may be a rank's own GPU, which the launcher has set, or the job's, which the launcher has, too."""
    script = tmp_path / "rank.sh"
    script.write_text(f"set -uo pipefail\n{library()}\n{ONE_GPU}\nrank {planned}\n")
    mine = "" if own is None else f"CUDA_VISIBLE_DEVICES={own}"
    each = f"OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$rank {mine} bash {script}"
    done = subprocess.run(
        ["bash", "-c", f"for rank in 0 1; do {each}; done"],
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": given},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [f"sees {own or given}"] * 2, done.stderr
    assert (says in done.stderr) if says else (done.stderr == "")


@pytest.mark.parametrize(
    ("shown", "hierarchy", "left", "noted"),
    [
        (None, None, "3", False),
        (None, "FLAT", "3", False),
        (None, "COMPOSITE", "all", True),
        ("0,1", "COMPOSITE", "0,1", True),
        ("0.0,0.1,1.0,1.1", "COMPOSITE", "1.1", False),
    ],
)
def test_tiles_are_shown_unless_level_zero_counts_cards(shown, hierarchy, left, noted):
    given = {"ZE_AFFINITY_MASK": shown, "ZE_FLAT_DEVICE_HIERARCHY": hierarchy}
    done = bash(
        f"dlrun_grant 2 {MINE} 1 0 0 1 ZE_AFFINITY_MASK 2,3; dlrun_show_gpus ZE_AFFINITY_MASK 3; "
        'echo "${ZE_AFFINITY_MASK-all} $_dlrun_gpus"',
        **{name: value for name, value in given.items() if value is not None},
    )
    assert done.stdout == f"{left} {'' if noted else f'ZE_AFFINITY_MASK={left}'}\n"
    assert ("counts cards, and the plan counts tiles" in done.stderr) == noted


@pytest.mark.needs("numactl")
@pytest.mark.parametrize(
    "option", ["--preferred-many=0,63", "--membind=63", "--preferred=63", "--no-such-policy=0"]
)
def test_a_memory_policy_that_is_rejected_does_not_end_the_rank(option):
    done = bash(f'dlrun_bind 1 {MINE} {option}; exec ${{_dlrun_memory[@]+"${{_dlrun_memory[@]}}"}} echo runs')
    assert done.stdout == "runs\n"
    assert f"rejected {option}; using the default (first-touch) memory policy" in done.stderr


def test_a_missing_numactl_does_not_end_the_rank(tmp_path):
    (tmp_path / "taskset").symlink_to(shutil.which("taskset"))
    (tmp_path / "true").symlink_to(shutil.which("true"))
    done = bash(
        f'dlrun_bind 1 {MINE} --membind=0; exec ${{_dlrun_memory[@]+"${{_dlrun_memory[@]}}"}} bash -c "echo runs"',
        path=f"{tmp_path}:{bash_only(tmp_path)}",
    )
    assert done.stdout == "runs\n"
    assert "numactl is missing" in done.stderr


def bash_only(place):
    """A directory with bash alone."""
    (place / "only").mkdir()
    (place / "only" / "bash").symlink_to(shutil.which("bash"))
    return place / "only"


@pytest.mark.needs("numactl")
def test_a_memory_policy_that_is_taken_is_set():
    done = bash(f'dlrun_bind 1 {MINE} --membind=0; "${{_dlrun_memory[@]}}" head -n 1 /proc/self/numa_maps')
    assert done.stdout.split()[1] == "bind:0"
    assert done.stderr == ""


def test_where_the_planned_cores_were_not_granted_ranks_share_what_was():
    done = bash(
        'dlrun_grant 2 4000-4007 4 0 0 4; dlrun_bind 4 4004-4007; echo "$DLRUN_THREADS $_dlrun_shared"; taskset -c -p $$',
        DLRUN_LOCAL_RANK="0",
    )
    assert "core 4000 of the plan was not granted" in done.stderr
    threads, shared = done.stdout.splitlines()[0].split()
    assert shared == "1"
    assert int(threads) < 4 or len(MINE.split(",")) >= 8


@pytest.mark.skipif(os.geteuid() != 0 or "," not in MINE, reason="needs root and two CPUs")
@pytest.mark.parametrize("daemon_too", [False, True], ids=["the rank", "and the daemon"])
@pytest.mark.parametrize("below", [False, True], ids=["started by it", "below a shell"])
@pytest.mark.parametrize("form", ["wrapper", "exec"])
def test_a_rank_that_a_daemon_of_another_user_has_bound_stays_where_it_is(daemon_too, below, form):
    """What the daemon may use is not the job's grant; only a mask that both have was not made for this rank. A shell between
    them has the rank's mask, which says nothing about those of the other ranks."""
    first = MINE.partition(",")[0]
    how = "dlrun_find_local_rank"
    if form == "exec":  # as `for_rank` writes it
        how = "DLRUN_LOCAL_RANK=0; _dlrun_rank_name=PALS_LOCAL_RANKID"
    script = (
        f"{library()}\n{how}\ndlrun_find_local_size 2\n"
        f'dlrun_grant 2 {MINE} 1 0 0 1; echo "$_dlrun_cpus;$DLRUN_THREADS;$_dlrun_shared"; exit'
    )
    rank = ["bash", "-c", script]
    if below:
        rank = ["bash", "-c", '"$@"; exit $?', "shell", *rank]
    rank = ["setpriv", "--reuid=65534", "--clear-groups", *rank]
    shell = ["bash", "-c", 'PALS_LOCAL_RANKID=0 "$@"; exit $?', "daemon"]
    bound = ["taskset", "-c", first]
    done = subprocess.run(
        [*bound, *shell, *rank] if daemon_too else [*shell, *bound, *rank],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == (";1;1\n" if daemon_too else f"{first};1;1\n")
    assert ("what was granted to this job cannot be seen: they stay so" in done.stderr) != daemon_too


@pytest.mark.skipif(os.geteuid() != 0 or "," not in MINE, reason="needs root and two CPUs")
@pytest.mark.parametrize("below", [False, True], ids=["started by it", "below a shell"])
def test_what_slurm_says_of_all_tasks_counts_below_a_shell_too(tmp_path, below):
    """slurmstepd runs as root, and its own mask is not the job's: it names the masks of all tasks of the node."""
    (tmp_path / "slurmstepd").symlink_to(shutil.which("bash"))
    tmp_path.chmod(0o755)
    masks = ",".join(hex(1 << int(cpu)) for cpu in MINE.split(","))
    script = (
        f"{library()}\ndlrun_find_local_rank\ndlrun_find_local_size 2\n"
        f'dlrun_grant 2 {MINE} 1 0 0 1; echo "$_dlrun_allowed_list;$_dlrun_shared"; exit'
    )
    rank = ["bash", "-c", script]
    if below:
        rank = ["bash", "-c", '"$@"; exit $?', "shell", *rank]
    rank = ["taskset", "-c", MINE.partition(",")[0], "setpriv", "--reuid=65534", "--clear-groups", *rank]
    daemon = "SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2"
    done = subprocess.run(
        [tmp_path / "slurmstepd", "-c", f'{daemon} "$@"; exit $?', "slurmstepd", *rank],
        env={
            "PATH": os.environ["PATH"],
            "SLURM_CPU_BIND_TYPE": "mask_cpu:",
            "SLURM_CPU_BIND_LIST": masks,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    allowed, shared = done.stdout.strip().split(";")
    assert parse_list(allowed) == tuple(map(int, MINE.split(",")))
    assert not shared
    assert "take all of the job's CPUs" in done.stderr


BOUND = """
_dlrun_allowed_cpus() { # this rank's CPUs, and those of a daemon above it
  local numbers
  _dlrun_owner=$((UID + 1)) _dlrun_parent=1 _dlrun_allowed_list=8-15
  if (($#)); then _dlrun_allowed_list=0-31; fi
  _dlrun_expand "$_dlrun_allowed_list"
  allowed=("${numbers[@]}")
}
_dlrun_read_cpuset() { numbers_list=0-31; _dlrun_expand 0-31; }
_dlrun_taskset() { :; }
_dlrun_system=$SYSTEM
"""


@pytest.mark.parametrize(
    ("call", "cpus", "threads"),
    [
        ("dlrun_share_cores", "8-15", "8"),
        ("dlrun_share_cores 4", "8-15", "8"),
        ("dlrun_count_threads 4", "", "2"),  # of a process that starts ranks, which share what it has
        ("dlrun_grant 4 0-31 8 0 0 8", "8-15", "8"),
        ("dlrun_grant 4 0-31 4 2 2 4", "8-15", "8"),
        (
            "dlrun_grant 2 8-15 4 0 0 4; dlrun_bind 4 12-15",
            "12-15",
            "4",
        ),  # the cores of all ranks: not made for one
    ],
)
def test_threads_of_a_rank_that_stays_in_the_mask_of_its_launcher(tmp_path, call, cpus, threads):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/online").write_text("0-31\n")
    done = bash(f'{BOUND}{call} 2>/dev/null\necho "$_dlrun_cpus;$DLRUN_THREADS"', SYSTEM=str(tmp_path))
    assert done.stdout == f"{cpus};{threads}\n"


UNDER = """
_dlrun_allowed_cpus() { # the rank has the first CPU, its launcher all that were granted
  local numbers
  _dlrun_owner=$UID _dlrun_parent=1 _dlrun_allowed_list=${GRANTED%%[,-]*}
  if (($#)); then _dlrun_allowed_list=$GRANTED; fi
  _dlrun_expand "$_dlrun_allowed_list"
  allowed=("${numbers[@]}")
}
_dlrun_taskset() { :; }
_dlrun_system=$PLACE _dlrun_groups=$PLACE/groups
"""


@pytest.mark.parametrize(
    ("granted", "rows"),
    [
        ("0,4", [(0, 4)]),
        ("3,7", [(3, 7)]),
        ("0-1,4-5", [(0, 4), (1, 5)]),
        ("1,3,5,7", [(1, 5), (3, 7)]),
        ("1-3,5-7", [(1, 5), (3, 7)]),
        ("0-2,5-6", [(0,), (2, 6)]),
    ],
)
def test_hyperthreads_that_are_not_adjacent_are_named_as_they_are(tmp_path, granted, rows):
    """Four cores, with the hardware threads k and k + 4: in the log, in the record, and in the mask."""
    Node(packages=1, numa=1, cores=4, threads=2).write(tmp_path)
    for name in ("cpuset.cpus.effective", "cpuset/cpuset.cpus"):
        (tmp_path / "groups" / name).write_text(f"{granted}\n")
    (tmp_path / "placement").mkdir()
    done = bash(
        f'{UNDER}dlrun_grant 4 0-7 1 0 0 1; echo "$_dlrun_cpus"',
        DLRUN_LOCAL_RANK="0",
        DLRUN_LOCAL_SIZE=str(len(rows)),
        DLRUN_HOST="here",
        DLRUN_RUN_DIR=str(tmp_path),
        PLACE=str(tmp_path),
        GRANTED=granted,
    )
    assert parse_list(done.stdout.strip()) == rows[0]
    assert f"they take all of the job's CPUs {granted} instead" in done.stderr
    assert f"its ranks divide CPUs {granted}, 1 threads each" in done.stderr
    recorded = json.loads((tmp_path / "placement/here").read_text())
    assert recorded["granted"] == granted
    assert [parse_list(one["cpus"]) for one in recorded["ranks"]] == rows
