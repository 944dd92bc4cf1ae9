"""Whatever applies a placement gives a rank the same: the lines of `--format env`, the wrapper, `--exec`, and a job's rank.sh,
run by a real bash on nodes of every shape, with a taskset and a numactl that write down what they are asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from dlrun.affinity.bind import library
from dlrun.affinity.formats.as_env import emit as emit_env
from dlrun.affinity.formats.as_wrapper import emit as emit_wrapper, for_rank
from dlrun.affinity.settings import BindingContext
from dlrun.config.topology import read_topology
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import PlacementOptions
from dlrun.model.problem import InvalidFile
from dlrun.plan.affinity import place
from dlrun.plan.binding import request_of
from tests.examples import examples
from tests.making import plan_of, write_job
from tests.properties.topologies import topologies

RECORDER = """\
#!/bin/bash
echo "${0##*/} $*" >>"$RECORD"
if [[ ${0##*/} == numactl ]]; then
  while [[ $1 == -* ]]; do shift; done
  exec "$@"
fi
"""
SHOWN = ("DLRUN_THREADS", "DLRUN_COMM_CPUS", "DLRUN_LOADER_CPUS", "CUDA_VISIBLE_DEVICES")
SHOW = f"import json, os; print('seen', json.dumps({{name: os.environ.get(name) for name in {SHOWN}}}))"
PROGRAM = [sys.executable, "-S", "-c", SHOW]
SITE = """\
name: drawn
scheduler: {type: slurm, exclusive: true}
launcher: {name: srun}
gpu_binding: {policy: visible}
node_types: {drawn: {capture: node.json}}
"""


@st.composite
def placement_options(draw):
    """`placement:` of a spec, as a user writes it, for the keys that decide where a rank runs."""
    return draw(
        st.fixed_dictionaries(
            {"bind": st.just("plan"), "comm_cores": st.sampled_from([0, 0, 1, 2])},
            optional={
                "loader_cores": st.sampled_from([1, 2]),
                "comm_policy": st.sampled_from(["own", "spread"]),
                "smt": st.sampled_from(["one", "all"]),
                "rank_order": st.sampled_from(["gpu", "numa"]),
                "memory": st.sampled_from(["strict", "preferred", "none"]),
                "reserve": st.sampled_from(["1-per-node", "first-core-per-l3"]),
                "locality": st.just("balance"),
                "l3_borders": st.just("strict"),
            },
        )
    )


def run(argv, directory: Path, **environment: str) -> dict[str, object]:
    """What a process was bound to, by which memory policy, and the variables of ours that its command finds."""
    record = directory / "record"
    record.write_text("")
    done = subprocess.run(
        list(map(str, argv)),
        env={"PATH": f"{directory / 'bin'}:{os.environ['PATH']}", "RECORD": str(record), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    logs = "".join(path.read_text() for path in directory.glob("logs/*"))
    (line,) = re.findall(r"(?m)^seen (.*)$", done.stdout + logs) or [done.stdout + done.stderr + logs]
    asked = [text.split() for text in record.read_text().splitlines()]
    (bound,) = {words[-2] for words in asked if words[0] == "taskset"}
    policy = {words[1] for words in asked if words[0] == "numactl"}
    return {"cpus": parse_list(bound), "memory": policy, **json.loads(line)}


def by_env(text: str, number: int, directory: Path) -> dict[str, str | None]:
    """The variables that a user who sources the lines common to all and those of one rank has."""
    common, *ranks = re.split(r"(?m)^# local rank \d+\n", text)
    script = f'{common}\n{ranks[number]}\nexport DLRUN_THREADS=$OMP_NUM_THREADS\nexec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "test", *PROGRAM],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, str | None] = json.loads(done.stdout.removeprefix("seen "))
    return found


@pytest.mark.slow
@settings(max_examples=examples(24), deadline=None, suppress_health_check=list(HealthCheck))
@given(topology=topologies(), options=placement_options(), ranks=st.integers(1, 6), data=st.data())
def test_every_form_gives_a_rank_the_same(topology, options, ranks, data):
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "bin").mkdir()
        for tool in ("taskset", "numactl"):
            (directory / "bin" / tool).write_text(RECORDER)
            (directory / "bin" / tool).chmod(0o755)
        (directory / "node.json").write_text(json.dumps(replace(topology, allowed=None).to_json()))
        node = read_topology((directory / "node.json").read_text())
        keys = {
            "framework": "mpi",
            "command": PROGRAM,
            "resources": {"nodes": 1, "ranks_per_node": ranks, "walltime": "5m"},
            "placement": options,
        }
        spec = "name: forms\n" + "\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items())
        try:
            plan = plan_of(directory, spec, SITE, directory=name)
        except InvalidFile:
            assume(False)
            raise
        placement = plan.binding.placement
        assert placement is not None
        gpus = len(placement.ranks[0].gpus)
        request = request_of(
            PlacementOptions(**options),
            node,
            ranks_per_node=ranks,
            comm_cores=options["comm_cores"],
            gpus_per_rank=gpus,
        )
        assert place(node, request).ranks == placement.ranks
        rank = data.draw(st.sampled_from(placement.ranks))
        option = rank.memory.numactl()
        expected = {
            "cpus": rank.mask,
            "memory": {option} if option else set(),
            "DLRUN_THREADS": str(rank.threads),
            "DLRUN_COMM_CPUS": ",".join(map(str, rank.comm)) or None,
            "DLRUN_LOADER_CPUS": format_list(rank.loader) or None,
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, rank.gpus)) or None,
        }
        job = BindingContext(library=library())
        everything = format_list(node.pus())
        granted = f"_dlrun_granted={everything} # this machine has other CPUs\n"
        assert by_env(emit_env(placement, node, job), rank.rank, directory) == {n: expected[n] for n in SHOWN}
        wrapper = emit_wrapper(placement, node, job).replace(
            "\n# --- Local rank", f"\n{granted}# --- Local rank"
        )
        for started in (
            {"LOCAL_RANK": str(rank.rank)},
            {"PMI_LOCAL_RANK": str(rank.rank), "SLURM_LOCALID": "0"},
        ):
            assert run(["bash", "-c", wrapper, "bind", *PROGRAM], directory, **started) == expected
        one = for_rank(placement, job, rank).replace(
            "\nDLRUN_LOCAL_RANK=", f"\n{granted}DLRUN_LOCAL_RANK=", 1
        )
        assert run(["bash", "-c", one, "bind", *PROGRAM], directory) == expected
        write_job(plan, directory)
        for folder in ("logs", "failures", "ended"):
            (directory / folder).mkdir()
        page = (directory / "rank.sh").read_text().replace('lib/rank.sh"\n', f'lib/rank.sh"\n{granted}', 1)
        (directory / "rank.sh").write_text(page)
        places = {
            "DLRUN_JOB_DIR": name,
            "DLRUN_RUN_DIR": name,
            "DLRUN_RUN_ID": "1",
            "DLRUN_MASTER_PORT": "20000",
        }
        numbers = {"SLURM_PROCID": str(rank.rank), "SLURM_LOCALID": str(rank.rank)}
        assert run(["bash", directory / "rank.sh", "rank"], directory, **places, **numbers) == expected
