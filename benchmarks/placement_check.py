"""Time that `verify: warn` adds to the start of 1,000 ranks: rank.sh with and without it, on the cores of this machine.

    python benchmarks/placement_check.py [RANKS] [PER_NODE]

The ranks of all nodes share this machine, so a node of a cluster needs far less time than the total.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dlrun.jobs.submission.files import library_files
from dlrun.jobs.submission.prepare import prepare
from dlrun.render.script import scripts
from dlrun.resources import directory as resource

SITE = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
"""


def script(place: Path, verify: str, per_node: int) -> Path:
    """rank.sh of a job whose ranks only start and end; all have the cores of the first."""
    run = place / verify
    (run / "logs").mkdir(parents=True)
    (run / "failures").mkdir()
    (place / "site.yaml").write_text(SITE)
    spec = place / f"{verify}.yaml"
    spec.write_text(
        f"name: x\ncommand: ['true']\nsite: {place}/site.yaml\nverify: {verify}\n"
        f"resources: {{ranks_per_node: {per_node}}}\nplacement: {{bind: scheduler, threads: 1}}\n"
    )
    plan, templates = prepare(spec).plan, resource("templates")
    (run / "lib").mkdir()
    for name, text in {**scripts(plan, str(run), templates), **library_files(plan, templates)}.items():
        # Only the part before the program: the rest is the same with and without the check.
        (run / name).write_text(text.partition("dlrun_run ")[0] if name == "rank.sh" else text)
    return run / "rank.sh"


def started(path: Path, ranks: int, per_node: int) -> tuple[float, float, int]:
    """Seconds and CPU seconds of all ranks, started a node at a time; and the number of printed lines."""
    before, begun, lines = os.times(), time.perf_counter(), 0
    for node in range(ranks // per_node):
        shared = {
            "DLRUN_JOB_DIR": str(path.parent),
            "DLRUN_RUN_DIR": str(path.parent),
            "DLRUN_RUN_ID": f"bench-{os.getpid()}.{node}",
        }
        processes = []
        for rank in range(per_node):
            own = {"DLRUN_RANK": str(rank), "DLRUN_LOCAL_RANK": str(rank)}
            processes.append(
                subprocess.Popen(
                    ["bash", path, "rank"], env=os.environ | shared | own, stdout=subprocess.PIPE
                )
            )
        for process in processes:
            lines += process.communicate()[0].count(b"\n")
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return time.perf_counter() - begun, used, lines


def main() -> None:
    """Print both, and the difference."""
    ranks, per_node = (int(word) for word in [*sys.argv[1:], "1000", "8"][:2])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        best: dict[str, tuple[float, float, int]] = {}
        paths = {verify: script(place, verify, per_node) for verify in ("off", "warn")}
        for _ in range(3):
            for verify, path in paths.items():
                best[verify] = min(started(path, ranks, per_node), best.get(verify, (1e9, 0.0, 0)))
    for verify, (seconds, used, lines) in best.items():
        print(f"verify: {verify:5} {ranks} ranks: {seconds:6.2f} s, {used:6.2f} s of CPU, {lines} lines")
    more = best["warn"][1] - best["off"][1]
    print(f"the check: {more:.2f} s of CPU for all, {more / ranks * 1e3:.2f} ms a rank")


if __name__ == "__main__":
    main()
