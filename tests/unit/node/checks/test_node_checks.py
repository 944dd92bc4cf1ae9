"""What a node finds out about itself, and which nodes are chosen."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from dlrun.node.checks import node_checks

HOSTS = ["n1", "n2", "n3", "n4"]


def report(**more) -> dict:
    return {"problems": [], "ports": 2, "pace": 0.02, "clocks": {}, **more}


def good() -> dict[str, dict]:
    return {host: report(clocks=dict.fromkeys([h for h in HOSTS if h != host], 0.01)) for host in HOSTS}


def choose(hosts, reports, count):
    """The chosen nodes, the bad ones and the remarks, as the program finds them."""
    bad, remarks = node_checks.assess(hosts, reports)
    return node_checks.choose(hosts, bad, remarks, count), bad, remarks


def test_the_first_of_good_nodes_are_taken():
    assert choose(HOSTS, good(), 3) == (["n1", "n2", "n3"], {}, {})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"problems": ["has 3 of 4 GPUs", "cannot write to /tmp: No space left on device"]},
            "has 3 of 4 GPUs; cannot",
        ),
        ({"ports": 1}, "1 of 2 fabric ports are active"),
        ({"clocks": {"n1": 7.0, "n3": 7.0, "n4": 7.1}}, "its clock is -7.0 s from the others'"),
        ({"clocks": {"n1": None, "n3": None, "n4": None}}, "no connection between it and 3 others"),
        (None, "did not answer"),
    ],
)
def test_a_bad_node_is_left_out_with_its_reason(change, why):
    reports = good()
    if change is None:
        del reports["n2"]
    else:
        reports["n2"] |= change
    if change and "clocks" in change:
        for host in ("n1", "n3", "n4"):
            ahead = change["clocks"][host]
            reports[host]["clocks"]["n2"] = None if ahead is None else -ahead
    chosen, bad, _ = choose(HOSTS, reports, 3)
    assert chosen == ["n1", "n3", "n4"]
    assert list(bad) == ["n2"]
    assert bad["n2"].startswith(why)


def test_a_slow_node_comes_last_but_is_not_bad():
    reports = good()
    reports["n1"]["pace"] = 0.05
    assert choose(HOSTS, reports, 3) == (["n2", "n3", "n4"], {}, {"n1": "is 2.5 times slower than most"})
    assert choose(HOSTS, reports, 4)[0] == HOSTS


def test_a_node_that_got_its_data_slowly_in_an_earlier_run_comes_last(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DLRUN_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("DLRUN_JOB_DIR", str(tmp_path))
    (tmp_path / "logs").mkdir()
    slow = {"event": "slow", "host": "n2", "rate": 25_000_000, "others": 100_000_000}
    (tmp_path / "logs" / "stage-0.jsonl").write_text(
        json.dumps(slow) + '\n{"event": "progress"}\n{"event": "sl'
    )
    (tmp_path / "plan.json").write_text('{"node_checks": {"keep_out": 60}}')
    for host, found in good().items():
        (tmp_path / "nodes" / host).mkdir(parents=True)
        (tmp_path / "nodes" / host / "report.json").write_text(json.dumps(found))
    (tmp_path / "nodes" / "hosts").write_text(" ".join(HOSTS))
    node_checks.main(["choose", "3"])
    told = capsys.readouterr()
    assert told.out.split() == ["n1", "n3", "n4"]
    assert "node n2: got staged data at 25% of the others' rate (still good)" in told.err


def test_of_two_clocks_nobody_knows_which_is_right():
    reports = {"n1": report(clocks={"n2": 5.0}), "n2": report(clocks={"n1": -5.0})}
    chosen, bad, remarks = choose(["n1", "n2"], reports, 2)
    assert (chosen, bad, set(remarks)) == (["n1", "n2"], {}, {"n1", "n2"})


def test_too_few_good_nodes_are_all_that_there_are():
    reports = good()
    for host in ("n2", "n3"):
        reports[host]["problems"] = ["is broken"]
    assert choose(HOSTS, reports, 3)[0] == ["n1", "n4"]


def test_memory():
    meminfo = "MemTotal:       100 kB\nMemAvailable:   2097152 kB\n"
    assert node_checks.check_memory(None, meminfo) == []
    assert node_checks.check_memory(2 << 30, meminfo) == []
    assert node_checks.check_memory(3 << 30, meminfo) == [
        "has 2048 MiB of memory free, but the job needs 3072 MiB"
    ]


def test_disk(tmp_path):
    assert node_checks.check_disk(str(tmp_path), 1 << 20) == []
    assert "MiB free in" in node_checks.check_disk(str(tmp_path), 1 << 60)[0]
    assert node_checks.check_disk(str(tmp_path / "none"), 0)[0].endswith("No such file or directory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "problems"),
    [
        ("0, 0\n1, 0\n", []),
        ("0, [N/A]\n1, [N/A]\n", []),
        ("0, 0\n", ["has 1 of 2 GPUs"]),
        ("0, 0\n1, 3\n", ["GPU 1 has 3 uncorrectable memory errors"]),
        (
            "Unable to determine the device handle for GPU 0000:C1:00.0: Unknown Error\n0, 0\n",
            ["has 1 of 2 GPUs"],
        ),
    ],
)
def test_what_nvidia_smi_says(output, problems):
    assert node_checks.check_nvidia(2, output) == problems


def make(root, **files) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_amd_gpus_in_sysfs(tmp_path):
    make(
        tmp_path,
        class__kfd__kfd__topology__nodes__0__gpu_id="0\n",
        class__kfd__kfd__topology__nodes__1__gpu_id="51\n",
    )
    make(tmp_path, class__drm__card0__device__ras__umc_err_count="ue: 2\nce: 0\n")
    assert node_checks.check_amd(2, str(tmp_path)) == [
        "has 1 of 2 GPUs",
        "GPU card0 has 2 uncorrectable memory errors",
    ]


def test_links_in_sysfs(tmp_path):
    make(
        tmp_path, class__infiniband__mlx5_0__ports__1__state="4: ACTIVE\n", class__net__ib0__operstate="up\n"
    )
    make(
        tmp_path, class__infiniband__mlx5_1__ports__1__state="1: DOWN\n", class__net__ib1__operstate="down\n"
    )
    assert node_checks.active_ports(str(tmp_path)) == 1
    make(tmp_path, class__net__ib2__operstate="lowerlayerdown\n")
    states = node_checks.interface_states(["ib0", "ib1", "ib2", "none"], str(tmp_path))
    assert states == {"ib0": "up", "ib1": "down", "ib2": "lowerlayerdown", "none": ""}
    assert node_checks.check_interfaces(states) == [
        "its interface ib1 is down",
        "its interface ib2 is down: its lower interface has no link",
    ]


def test_an_interface_that_one_node_lacks_is_its_fault_and_one_that_all_lack_the_profiles():
    reports = {host: {**its, "absent": ["ib9"]} for host, its in good().items()}
    assert choose(HOSTS, reports, 3)[1] == {}
    assert node_checks.interfaces_of_no_node(reports) == ["ib9"]
    reports["n2"]["absent"] = ["ib0", "ib9"]
    chosen, bad, _ = choose(HOSTS, reports, 3)
    assert (chosen, bad) == (["n1", "n3", "n4"], {"n2": "has no interface ib0, but others have"})


def test_the_sites_own_commands():
    assert node_checks.check_commands(["true", "echo well"]) == []
    assert node_checks.check_commands(["echo first; echo the fan is dead >&2; false"]) == [
        "`echo first; echo the fan is dead >&2; false` fails: the fan is dead"
    ]


def test_a_command_that_hangs_is_a_problem(monkeypatch):
    monkeypatch.setattr(node_checks, "COMMAND_TIMEOUT", 0.2)
    assert node_checks.check_commands(["sleep 60"]) == ["`sleep 60` fails: no answer in 0 s"]


def test_a_peer_tells_the_time(tmp_path, monkeypatch):
    (tmp_path / "nodes" / "localhost").mkdir(parents=True)
    (tmp_path / "nodes" / "hosts").write_text("localhost\n")
    monkeypatch.setitem(os.environ, "DLRUN_RUN_DIR", str(tmp_path))
    assert node_checks.check_peers("localhost", "") == {}
    ahead = node_checks.clock_offset(
        "localhost", int((tmp_path / "nodes" / "localhost" / "port").read_text())
    )
    assert abs(ahead) < node_checks.SKEW
    assert node_checks.clock_offset("localhost", 1) is None


def test_two_nodes_of_which_one_begins_when_the_other_is_over_may_both_be_good(tmp_path, monkeypatch):
    """It waited in vain, and answers no more; it is not without a connection."""
    monkeypatch.setenv("DLRUN_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(node_checks, "TIMEOUT", 0.3)
    for host in ("localhost", "127.0.0.1"):
        (tmp_path / "nodes" / host).mkdir(parents=True)
    (tmp_path / "nodes/hosts").write_text("localhost\n127.0.0.1\n")
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("fork")
    ) as first:  # its server ends with the process
        assert first.submit(node_checks.check_peers, "localhost", "").result() == {}
    (tmp_path / "nodes/localhost/report.json").write_text("{}")
    assert node_checks.check_peers("127.0.0.1", "") == {}


def test_the_reason_of_a_node_without_a_report_is_what_was_printed_instead(tmp_path, monkeypatch, capsys):
    for host in HOSTS:
        (tmp_path / "nodes" / host).mkdir(parents=True)
        (tmp_path / "nodes" / host / "report.json").write_text(json.dumps(good()[host]))
    (tmp_path / "nodes" / "hosts").write_text("\n".join(HOSTS))
    (tmp_path / "nodes" / "n2" / "report.json").unlink()
    (tmp_path / "nodes" / "n2" / "log").write_bytes(
        b"waiting\nsrun: error: launch\x1b failed \xff\nsrun: Job step aborted\n\n"
    )
    (tmp_path / "nodes" / "n3" / "report.json").unlink()
    (tmp_path / "nodes" / "n4" / "report.json").unlink()
    (tmp_path / "nodes" / "n4" / "log").write_text("ssh: connect to host n4 port 22: No route to host\n")
    monkeypatch.setattr(node_checks, "plan_settings", lambda: {"keep_out": 60})
    for name in ("DLRUN_RUN_DIR", "DLRUN_JOB_DIR"):
        monkeypatch.setitem(os.environ, name, str(tmp_path))
    assert node_checks.main(["choose", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == "n1\n"
    assert err.splitlines() == [
        "dlrun: node n2: did not answer: srun: error: launch? failed \ufffd",
        "dlrun: node n3: did not answer",
        "dlrun: node n4: did not answer: ssh: connect to host n4 port 22: No route to host",
    ]
    assert "did not answer: srun: error: launch? failed \ufffd" in (tmp_path / "bad-nodes").read_text()
