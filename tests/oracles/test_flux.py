"""What a real Flux does with the `flux` format: where it would bind each task on the golden machines, and where it binds
those on this one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from dlrun.system.inputs.topology import live_topology
from tests.oracles.hwloc_xml import write
from tests.unit.affinity.machines import cases

PLACED = [case for case in cases() if not case.error]
SECONDS = 240


def words_for(case):
    placement = place(case.topology, case.request)
    return placement, shlex.split(format_named("flux").emit(placement, case.topology, BindingContext()))


def flux_run(flux, script, environment=None):
    """Standard output and error of a shell script in a Flux instance of one node."""
    done = subprocess.run(
        [flux, "start", "--test-size=1", "bash", "-c", script],
        env={
            "PATH": f"{flux.parent}:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/"),
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("case", PLACED, ids=lambda case: case.id)
def test_flux_reads_the_masks_of_every_task(flux, tmp_path, case):
    placement, words = words_for(case)
    (tmp_path / "node.xml").write_text(write(case.topology))
    words = [word.replace("cpu-affinity=", "cpu-affinity=dry-run,") for word in words]
    fake = {"FLUX_HWLOC_XMLFILE": str(tmp_path / "node.xml"), "FLUX_HWLOC_XMLFILE_NOT_THISSYSTEM": "1"}
    output = flux_run(flux, f"flux run -N1 -x {shlex.join(words)} true", fake)
    seen = {int(task): parse_list(cpus) for task, cpus in re.findall(r"task (\d+): cpus: ([0-9,-]+)", output)}
    assert seen == {rank.rank: rank.mask for rank in placement.ranks}, output


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_flux_binds_the_tasks_on_this_machine(flux):
    node = replace(live_topology(), gpus=(), nics=())
    placement = place(node, PlacementRequest(ranks_per_node=2))
    words = shlex.join(shlex.split(format_named("flux").emit(placement, node, BindingContext())))
    command = "echo \"task $FLUX_TASK_LOCAL_ID on $(taskset -cp $$ | sed 's/.*: //')\""
    output = flux_run(flux, f"flux run -N1 -x {words} bash -c {shlex.quote(command)}")
    seen = {int(task): parse_list(cpus) for task, cpus in re.findall(r"task (\d+) on ([0-9,-]+)", output)}
    assert seen == {rank.rank: rank.mask for rank in placement.ranks}, output


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_wrapper_and_exec_bind_what_flux_starts_unbound(flux, tmp_path):
    dlrun = f"{Path(sys.executable).parent}/dlrun tune-affinity --ranks-per-node 2 --gpus-per-rank 0 --memory none"
    wrapper = subprocess.run(
        ["bash", "-c", f"{dlrun} --format wrapper"], capture_output=True, text=True, check=True
    )
    (tmp_path / "bind.sh").write_text(wrapper.stdout)
    node = replace(live_topology(), gpus=(), nics=())
    expected = {
        rank.rank: rank.mask for rank in place(node, PlacementRequest(ranks_per_node=2, membind="none")).ranks
    }
    command = "echo \"task $FLUX_TASK_LOCAL_ID on $(taskset -cp $$ | sed 's/.*: //')\""
    for form in (f"bash {tmp_path / 'bind.sh'}", f"{dlrun} --exec"):
        started = f"flux run -N1 -n2 -x -o cpu-affinity=off {form} bash -c {shlex.quote(command)}"
        output = flux_run(flux, started)
        seen = {int(task): parse_list(cpus) for task, cpus in re.findall(r"task (\d+) on ([0-9,-]+)", output)}
        assert seen == expected, output
