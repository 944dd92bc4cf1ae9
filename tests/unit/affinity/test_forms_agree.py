"""Every form in which a placement is applied gives a rank the same: on golden machines in a real shell, and on this one in
real processes."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from dlrun.affinity.bind import library
from dlrun.affinity.formats.as_env import emit as emit_env
from dlrun.affinity.formats.as_wrapper import emit as emit_wrapper, for_rank
from dlrun.affinity.settings import BindingContext
from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import PlacementRequest, Reserve
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import presets
from dlrun.plan.affinity.usable import usable_cores
from dlrun.system.inputs.topology import live_topology
from tests.affinity_formats import MAY_DIFFER, SAME
from tests.examples import cases
from tests.unit.affinity.machines import FOLDER, topology

OURS = MAY_DIFFER | SAME
REQUESTS = {
    "plain": PlacementRequest(ranks_per_node=2),
    "communication": PlacementRequest(ranks_per_node=2, comm_cores=1, loader_cores=1),
    "smt": PlacementRequest(ranks_per_node=4, smt="all", membind="preferred"),
}


def shell(script, environment):
    """The variables of ours that a script's command finds."""
    program = [sys.executable, "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    done = subprocess.run(
        ["bash", "-c", script, "test", *program],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name: value for name, value in json.loads(done.stdout).items() if name in OURS}


def by_env(text, rank):
    """What a user who sources the lines common to all and those of one rank has."""
    common, *ranks = re.split(r"(?m)^# local rank \d+\n", text)
    return shell(f'{common}\n{ranks[rank]}\nexec "$@"', {})


@cache
def machines():
    return sorted(path.stem for path in FOLDER.glob("*.json"))


PRESETS = ["torch", "intelcaffe", "horovod-ccl", "tensorflow"]


@pytest.mark.parametrize(("machine", "preset"), cases(itertools.product(machines(), PRESETS), quick=6))
def test_variables_are_the_same_in_every_form(machine, preset):
    node = topology(machine)
    for request in REQUESTS.values():
        try:
            placement = place(node, request)
        except Invalid:
            continue
        job = BindingContext(preset=presets()[preset], library=library())
        text, wrapper = emit_env(placement, node, job), emit_wrapper(placement, node, job)
        everything = format_list(node.pus())
        granted = f"_dlrun_granted={everything}\n_dlrun_taskset() {{ :; }}  # this machine has other CPUs\n"
        wrapper = wrapper.replace("\n# --- Local rank", f"\n{granted}# --- Local rank")
        last = placement.ranks[-1]
        expected = by_env(text, last.rank)
        assert parse_list(expected["DLRUN_CPUS"]) == last.mask
        for launcher in (
            {"LOCAL_RANK": str(last.rank)},
            {"OMPI_COMM_WORLD_LOCAL_RANK": str(last.rank), "SLURM_LOCALID": "0"},
        ):
            assert shell(wrapper, launcher) == expected
        single = for_rank(placement, job, last).replace(
            "\nDLRUN_LOCAL_RANK=", f"\n{granted}DLRUN_LOCAL_RANK=", 1
        )
        assert shell(single, {}) == expected


SHOW = (
    "import json, os; from pathlib import Path; "
    "maps = Path('/proc/self/numa_maps'); "
    "words = maps.read_text().split() if maps.exists() else ['', 'default']; "  # a kernel without NUMA has no other
    "print('seen', json.dumps([os.environ.get('LOCAL_RANK') or os.environ.get('MPI_LOCALRANKID'), "
    "sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], "
    "os.environ.get('CUDA_VISIBLE_DEVICES'), os.environ.get('DLRUN_COMM_CPUS'), words[1]]))"
)


def seen(text):
    return sorted(json.loads(line[5:]) for line in text.splitlines() if line.startswith("seen "))


def dlrun(*words, directory, **environment):
    done = subprocess.run(
        [sys.executable, "-c", "from dlrun.cli.main import main; main()", *map(str, words)],
        env={"PATH": os.environ["PATH"], "HOME": str(directory), **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_real_ranks_are_the_same_in_every_form(tmp_path):
    """--exec by itself and under a launcher, the wrapper, and a submitted job's rank.sh."""
    node = replace(live_topology(), gpus=(), nics=())
    if len(usable_cores(node, Reserve()).cores) < 2:
        pytest.skip("needs two cores that this process may use")
    expected = [
        [str(rank.rank), list(rank.mask), str(rank.threads), None, None, "default"]
        for rank in place(node, PlacementRequest(ranks_per_node=2, membind="none")).ranks
    ]
    ask = ("--ranks-per-node", 2, "--gpus-per-rank", 0, "--memory", "none")
    program = [sys.executable, "-c", SHOW]
    forms = {"exec": seen(dlrun("tune-affinity", *ask, "--exec", *program, directory=tmp_path))}
    forms["exec as a rank"] = sorted(
        line
        for rank in ("0", "1")
        for line in seen(
            dlrun("tune-affinity", *ask, "--exec", *program, directory=tmp_path, MPI_LOCALRANKID=rank)
        )
    )
    (tmp_path / "bind.sh").write_text(dlrun("tune-affinity", *ask, "--format", "wrapper", directory=tmp_path))
    forms["wrapper"] = sorted(
        line
        for rank in ("0", "1")
        for line in seen(
            subprocess.run(
                ["bash", tmp_path / "bind.sh", *program],
                env={"PATH": os.environ["PATH"], "LOCAL_RANK": rank, "SLURM_LOCALID": "0"},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
        )
    )
    spec = {
        "name": "forms",
        "framework": "torch",
        "command": program,
        "resources": {"nodes": 1, "ranks_per_node": 2, "gpus_per_node": 0, "walltime": "5m"},
        "placement": {"memory": "none"},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    dlrun("submit", "spec.yaml", "--site", "workstation", "--wait", directory=tmp_path)
    logs = [path.read_text() for path in tmp_path.rglob("logs/rank-*.log")]
    forms["rank.sh"] = sorted(line for text in logs for line in seen(text))
    assert forms == dict.fromkeys(forms, expected)
