"""What frameworks lean on in the scripts: addresses in numbers, variables that are left to the user, sweeps."""

from __future__ import annotations

import subprocess

import pytest

from tests.making import plan_of, scripts_of
from tests.unit.frameworks.making import SSH, run_process


def numeric(place, address: str, *, known: str = "", nodes: int = 2) -> str:
    """What `numeric` of job.sh makes of an address, where names resolve to `known`."""
    plan = plan_of(place, "framework: mxnet\nresources: {nodes: 2}", SSH)
    script = scripts_of(plan)["job.sh"]
    function = script[script.index("numeric() {") :].partition("\n}\n")[0] + "\n}\n"
    for name, says in (
        ("getent", f"{known} STREAM n1"),
        ("ip", "2: eth0 inet 10.0.0.7/16 brd 10.0.255.255 scope global"),
    ):
        program = place / name
        program.write_text(f"#!/bin/sh\n[ -n '{says.split()[0]}' ] && echo '{says}'\n")
        program.chmod(0o755)
    line = f"DLRUN_NODES={nodes}; PATH={place}:$PATH; {function} numeric {address}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("address", "known", "nodes", "number"),
    [
        ("n1", "10.0.0.1", 2, "10.0.0.1"),
        ("10.9.9.9", "", 2, "10.9.9.9"),
        ("n1", "127.0.1.1", 2, "10.0.0.7"),  # Debian's /etc/hosts
        ("n1", "127.0.1.1", 1, "127.0.1.1"),
        ("127.0.0.1", "", 2, "10.0.0.7"),
    ],
)
def test_loopback_is_never_handed_to_several_hosts(address, known, nodes, number, tmp_path):
    assert numeric(tmp_path, address, known=known, nodes=nodes) == number


@pytest.mark.parametrize("where", ["spec", "site"])
def test_variables_of_the_user_or_the_site_are_left_to_them(where, tmp_path):
    spec = "framework: horovod\nresources: {nodes: 2}\n"
    site = SSH
    if where == "spec":
        spec += "environment: {variables: {HOROVOD_CPU_OPERATIONS: ccl}}\n"
    else:
        site += "environment: {variables: {HOROVOD_CPU_OPERATIONS: ccl}}\n"
    plan = plan_of(tmp_path, spec, site)
    told = [v.name for role in plan.roles for v in role.variables]
    assert "HOROVOD_CPU_OPERATIONS" not in told
    assert "HOROVOD_CONTROLLER" in told
    assert "export HOROVOD_CPU_OPERATIONS=ccl" in scripts_of(plan)["job.sh"]


def test_a_sweep_changes_the_command_of_every_role_that_runs_it(tmp_path):
    spec = "framework: mxnet\ncommand: [python, t.py, --lr, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\nresources: {nodes: 2}\n"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["rank.sh"]
    assert script.count("1) command=(python t.py --lr 0.2)") == 3


def test_a_sweep_leaves_services_with_commands_of_their_own(tmp_path):
    spec = "framework: ray\ncommand: [python, t.py, --lr, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\nresources: {nodes: 2}\n"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["rank.sh"]
    assert script.count("1) command=(python t.py --lr 0.2)") == 1
    assert script.count("ray start --address=") == 1


def test_nothing_that_a_program_detaches_outlives_it(tmp_path):
    spec = (
        "framework: mpi\nlauncher: intelmpi\nresources: {nodes: 2}\n"
        'command: [bash, -c, "setsid sleep 977 >/dev/null 2>&1 & echo started"]'
    )
    assert "started" in run_process(tmp_path, spec, "rank", 0)
    left = subprocess.run(["pgrep", "-f", "^sleep 977$"], capture_output=True, text=True, check=False)
    assert left.stdout == ""
