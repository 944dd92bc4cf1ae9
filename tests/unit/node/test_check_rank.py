"""What a rank reads of its node for `dlrun verify`."""

from __future__ import annotations

import os

import pytest
from dlrun.node import check_rank


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("\n", []), ("0-1,4-5", [0, 1, 4, 5])]
)
def test_a_kernels_list_of_cpus(text, numbers):
    assert check_rank.numbers(text) == numbers


def test_adapters_with_their_state(tmp_path):
    for name, text in {"infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "net/ib0/operstate": "down"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text + "\n")
    (tmp_path / "infiniband" / "mlx5_1").mkdir()
    assert check_rank.adapters(str(tmp_path)) == {"mlx5_0": "active", "ib0": "down"}


def test_what_a_rank_was_started_with_is_what_its_script_says(monkeypatch):
    monkeypatch.delenv("DLRUN_ALLOWED", raising=False)
    assert check_rank.inherited() is None
    monkeypatch.setenv("DLRUN_ALLOWED", "4 0 1")
    assert check_rank.inherited() == [0, 1, 4]


def test_the_interface_of_an_address():
    assert check_rank.interface("127.0.0.1") == "lo"
    assert check_rank.interface("192.0.2.1") is None


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
    report = check_rank.itself()
    assert (report["rank"], report["local_rank"]) == (3, 1)
    assert report["mask"] == sorted(os.sched_getaffinity(0))
    assert report["variables"]["NCCL_DEBUG"] == "INFO"
    assert "MY_TOKEN" not in report["variables"]
