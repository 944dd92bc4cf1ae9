"""What a rank reads of its node for `dlrun verify`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from dlrun.node.checks import check_rank, placement_probe

from tests.programs import works


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("\n", []), ("0-1,4-5", [0, 1, 4, 5])]
)
def test_a_kernels_list_of_cpus(text, numbers):
    assert placement_probe.numbers(text) == numbers


@pytest.mark.needs
def test_both_sources_of_the_memory_policy_agree():
    """The call, and the file that is read where a container refuses the call."""
    script = """
from dlrun.node.checks import placement_probe as probe
by_call = probe.memory_policy()
probe.GET_MEMPOLICY = {}
print(by_call.name != "unknown" and by_call == probe.memory_policy())
"""
    for before in ((), ("numactl", "--membind=0"), ("numactl", "--preferred=0")):
        if before and not works("numactl"):
            continue
        done = subprocess.run(
            [*before, sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert done.stdout == "True\n", (before, done.stdout, done.stderr)


def test_adapters_with_their_state(tmp_path):
    for name, text in {"infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "net/ib0/operstate": "down"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text + "\n")
    (tmp_path / "infiniband" / "mlx5_1").mkdir()
    assert check_rank.adapters(str(tmp_path)) == {"mlx5_0": "active", "ib0": "down"}


def test_what_a_rank_was_started_with_is_what_its_script_says(monkeypatch):
    monkeypatch.delenv("DLRUN_ALLOWED", raising=False)
    assert check_rank.inherited_cpus() is None
    monkeypatch.setenv("DLRUN_ALLOWED", "4 0 1")
    assert check_rank.inherited_cpus() == [0, 1, 4]


def test_devices_that_may_be_opened_are_told_from_those_that_are_there(tmp_path):
    assert check_rank.gpu_devices(str(tmp_path)) is None
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).write_text("")
    assert check_rank.gpu_devices(str(tmp_path)) == [2, 2]
    (tmp_path / "nvidia1").unlink()
    (tmp_path / "nvidia1").mkdir()  # cannot be opened, not even by root
    assert check_rank.gpu_devices(str(tmp_path)) == [1, 2]


def ranks(tmp_path, *words: str, world: int = 3) -> list[dict]:
    """What the ranks of a job on this machine print."""
    told = {"DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": "1.0", "DLRUN_MASTER_ADDR": "127.0.0.1"}
    told |= {"DLRUN_MASTER_PORT": "0", "DLRUN_HOST": "n1", "DLRUN_WORLD_SIZE": str(world)}
    started = []
    for rank in range(world):
        environment = {**os.environ, **told, "DLRUN_RANK": str(rank), "DLRUN_LOCAL_RANK": str(rank)}
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        line = [sys.executable, "-m", "dlrun.node", "check-rank", *words]
        started.append(subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True))
    said = [one.communicate(timeout=120)[0] for one in started]
    assert [one.returncode for one in started] == [0] * world
    return [json.loads(text.splitlines()[0].partition("dlrun-check ")[2]) for text in said]


@pytest.mark.parametrize("words", [(), ("--over", "no-such0,lo"), ("--over", "no-such0", "no_such_module")])
def test_ranks_add_up_and_send_a_mebibyte(tmp_path, words):
    found = ranks(tmp_path, *words)
    assert [one["sum"] for one in found] == [6, 6, 6]
    assert [one.get("interface") for one in found] == [None, "lo", "lo"]
    assert all(one["round_trip"] > 0 for one in found[1:])


def test_a_library_that_is_ended_by_a_signal_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DLRUN_RANK", "3")
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(check_rank.library_check, "main", lambda libraries: os.kill(os.getpid(), 9))
    check_rank.test_library(["torch"])
    assert capsys.readouterr().out == 'dlrun-library {"rank": 3, "failed": "it was ended by signal 9"}\n'


def test_a_report_says_which_variables_steer_communication(monkeypatch):
    told = {
        "DLRUN_RANK": "3",
        "DLRUN_LOCAL_RANK": "1",
        "DLRUN_HOST": "n1",
        "NCCL_DEBUG": "INFO",
        "MY_TOKEN": "x",
    }
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    report = check_rank.describe_rank()
    assert (report["rank"], report["local_rank"]) == (3, 1)
    assert report["mask"] == sorted(os.sched_getaffinity(0))
    assert report["variables"]["NCCL_DEBUG"] == "INFO"
    assert "MY_TOKEN" not in report["variables"]
