"""Time that `dlrun verify` takes after its job: the logs of many ranks are read, evaluated and written as a table.

    python benchmarks/verify.py [RANKS] [PER_NODE]

The ranks of one node are real processes of this machine, which send their mebibyte to rank 0; their reports are used for
all other nodes, too. Every eighth rank differs from the plan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dlrun.jobs.submission.prepare import prepare
from dlrun.model.plan import Plan
from dlrun.site.verify.command import table_of
from dlrun.site.verify.compare import compare_check
from dlrun.site.verify.job import reports
from dlrun.site.verify.report import grouped

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
node_types: {n: {topology: {packages: 2, cores: 32}}}
partitions: {p: {node_type: n, default: true}}
"""


def plan_of(place: Path, nodes: int, per_node: int) -> Plan:
    """A plan that binds each rank."""
    (place / "site.yaml").write_text(SITE)
    spec = place / "spec.yaml"
    spec.write_text(
        f"name: x\ncommand: ['true']\nsite: {place}/site.yaml\n"
        f"resources: {{nodes: {nodes}, ranks_per_node: {per_node}, exclusive: true, walltime: 1h}}\nplacement: {{memory: none}}\n"
    )
    return prepare(spec).plan


def one_node(place: Path, ranks: int) -> list[dict[str, object]]:
    """The output of the real ranks of one node."""
    told = {"DLRUN_RUN_DIR": str(place), "DLRUN_RUN_ID": "1.0", "DLRUN_MASTER_ADDR": "127.0.0.1"}
    told |= {"DLRUN_MASTER_PORT": "0", "DLRUN_HOST": "n0", "DLRUN_WORLD_SIZE": str(ranks)}
    started = []
    for rank in range(ranks):
        own = {"DLRUN_RANK": str(rank), "DLRUN_LOCAL_RANK": str(rank)}
        line = [sys.executable, "-m", "dlrun.node", "check-rank"]
        started.append(subprocess.Popen(line, env=os.environ | told | own, stdout=subprocess.PIPE, text=True))
    return [json.loads(process.communicate()[0].partition(" ")[2]) for process in started]


def written(place: Path, plan: Plan, real: list[dict[str, object]]) -> list[str]:
    """Write the logs of all ranks, as a job does; returns the hosts."""
    placement, request = plan.binding.placement, plan.request
    assert placement is not None
    (place / "logs").mkdir()
    right = request.ranks * (request.ranks + 1) // 2
    for rank in range(request.ranks):
        node, local = divmod(rank, request.ranks_per_node)
        mask = [0] if rank % 8 == 7 else list(placement.ranks[local].mask)
        its = {
            **real[local],
            "rank": rank,
            "host": f"n{node}",
            "mask": mask,
            "sum": right,
            "threads": None,
            "online": [],
        }
        (place / "logs" / f"rank-{rank}.log").write_text(f"dlrun-check {json.dumps(its)}\n")
    return [f"n{node}" for node in range(request.nodes)]


def main() -> None:
    """Print the seconds of each part: the best of three."""
    ranks, per_node = (int(word) for word in [*sys.argv[1:], "1000", "8"][:2])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        plan = plan_of(place, ranks // per_node, per_node)
        begun = time.perf_counter()
        real = one_node(place, per_node)
        print(f"{per_node} real ranks, start and exchange: {time.perf_counter() - begun:.2f} s")
        hosts = written(place, plan, real)
        best = (1e9, 0.0, 0.0, 0)
        for _ in range(3):
            begun = time.perf_counter()
            found = reports(place)
            read = time.perf_counter()
            checked = compare_check(plan, found, hosts)
            judged = time.perf_counter()
            _, *rows = table_of(checked)
            lines = len(rows) + len(grouped(checked))
            ended = time.perf_counter()
            best = min(best, (ended - begun, read - begun, judged - read, lines))
    whole, read_, judged_, lines = best
    wrong = sum(bool(one.differences) for one in checked)
    print(
        f"{ranks} ranks, {wrong} of them elsewhere: {whole:.3f} s, of it reading {read_:.3f} s, judging {judged_:.3f} s"
    )
    print(f"{lines} lines")


if __name__ == "__main__":
    main()
