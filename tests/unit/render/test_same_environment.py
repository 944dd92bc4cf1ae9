"""What each node must have as the first one does: the job's script notes it, and ranks compare before their program starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.library import BASH, LIBRARY, call

PRINT = 'echo "$DLRUN_DIRECTORIES|$DLRUN_PYTHON3|${DLRUN_IMAGE-}"'


def expected(tmp_path, setup: str) -> list[str]:
    done = call(tmp_path, f"{setup}\n_dlrun_expect_environment\n{PRINT}")
    return done.stdout.strip().split("|")


def test_what_set_up_lines_add_is_expected_of_each_node(tmp_path):
    lib = Path("/usr/share")  # a directory that is there, and of no node alone (as `/tmp`)
    directories, python, _ = expected(
        tmp_path, f"PATH={lib}:/not/there:relative:$PATH; LD_LIBRARY_PATH={lib.parent}:/tmp/own:{lib}"
    )
    assert [one for one in directories.split(":") if one] == [str(lib), str(lib.parent)]
    assert Path(python).is_absolute()


def test_an_image_is_expected_where_it_is_a_file(tmp_path):
    (tmp_path / "x.sif").write_bytes(b"12345")
    assert expected(tmp_path, f"dlrun_expect_image {tmp_path}/x.sif")[2] == f"5 {tmp_path}/x.sif"
    assert expected(tmp_path, f"dlrun_expect_image {tmp_path}")[2] == f"- {tmp_path}"
    assert expected(tmp_path, "dlrun_expect_image /not/there.sif")[2] == ""


def rank(tmp_path, code: str, **given: str) -> str:
    """The reason that a rank notes when it ends itself; empty if it goes on."""
    (tmp_path / "failures").mkdir()
    done = subprocess.run(
        [BASH, "-uc", f"source {LIBRARY}/rank.sh; source {LIBRARY}/container.sh\n{code}\necho goes on"],
        capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DLRUN_RUN_DIR": str(tmp_path), "DLRUN_ROLE": "rank",
             "DLRUN_RANK": "1", "DLRUN_LOCAL_RANK": "0", "DLRUN_HOST": "n2", **given},
    )  # fmt: skip
    if done.stdout == "goes on\n":
        return ""
    return (tmp_path / "failures" / "rank-1").read_text().splitlines()[0].split(" ", 5)[5]


@pytest.mark.parametrize(
    ("given", "program", "reason"),
    [
        ({"DLRUN_ENVIRONMENT": "/not/venv:"}, "python", "environment: /not/venv is not there"),
        ({"DLRUN_PYTHON": "/x/python"}, "python", "on the first node /x/python"),
        ({"DLRUN_PYTHON3": "/x/python3"}, "python3", "on the first node /x/python3"),
        ({"DLRUN_PYTHON3": "/x/python3"}, "bash", ""),
        ({"DLRUN_DIRECTORIES": ":/usr::/not/lib:"}, "bash", "environment: /not/lib is not there"),
        ({"DLRUN_DIRECTORIES": ":/usr:"}, "bash", ""),
        ({"DLRUN_DIRECTORIES": ":/not/lib:", "DLRUN_LOCAL_RANK": "1"}, "bash", ""),
        ({}, "python3", ""),
    ],
)
def test_a_rank_compares_its_node(tmp_path, given, program, reason):
    assert reason in (found := rank(tmp_path, f"_dlrun_check_environment {program}", **given))
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("5 {}/x.sif", ""),
        ("7 {}/x.sif", "has 5 bytes, on the first node 7"),
        ("7 {}/y.sif", "is not there"),
        ("- {}", ""),
        ("", ""),
    ],
)
def test_a_rank_compares_the_image(tmp_path, image, reason):
    (tmp_path / "x.sif").write_bytes(b"12345")
    (tmp_path / "apptainer").write_text("#!/bin/sh\n")
    (tmp_path / "apptainer").chmod(0o755)
    found = rank(tmp_path, "dlrun_in_container x.sif", DLRUN_IMAGE=image.format(tmp_path))
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_launcher_that_starts_nothing_fails_the_job(tmp_path):
    """Slurm's srun has ended with 0 when it gave up starting the ranks."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "failures").mkdir()
    (tmp_path / "hosts").write_text("n1\n")
    (tmp_path / "logs" / "stage-1.log").touch()
    quick = "sleep() { :; }; true & _dlrun_main=$!\n"
    done = call(tmp_path, f"{quick}dlrun_wait", check=False)
    assert done.returncode == 1
    assert "the launcher ended with exit code 0, and no rank has begun" in done.stdout
    old = tmp_path / "logs" / "rank-0.log"
    old.touch()
    os.utime(old, (1000, 1000))  # of an earlier run
    assert call(tmp_path, f"{quick}dlrun_wait", check=False).returncode == 1
    os.utime(old)
    assert call(tmp_path, f"{quick}dlrun_wait", check=False).returncode == 0


def test_the_job_s_clock_is_one_that_nobody_sets(tmp_path):
    """As a clock that jumps changes $SECONDS: neither the end of the walltime nor a hang is then near."""
    lines = """_dlrun_begin_clock
    SECONDS=99999; _dlrun_read_clock; echo "$_dlrun_now" """
    assert 0 <= int(call(tmp_path, lines).stdout) < 60


def test_the_job_s_clock_can_be_read_by_a_trap_while_it_is_read(tmp_path):
    """As two signals that come together, the second in the middle of the first one's trap."""
    lines = """_dlrun_begin_clock
    trap 'reads=; _dlrun_read_clock; echo "$_dlrun_now"' USR1
    reads=1
    read() { builtin read "$@"; if [[ -n $reads ]]; then kill -USR1 "$$"; fi; }
    _dlrun_read_clock
    echo "$_dlrun_now" """
    seen = [int(word) for word in call(tmp_path, lines).stdout.split()]
    assert len(seen) == 2
    assert all(0 <= one < 60 for one in seen)
