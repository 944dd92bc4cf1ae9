"""How long a metadata server delays the start of the ranks of a large job: dlrun's pages, and a plain `srun python`.

    python benchmarks/start_at_scale.py [RANKS] [NODES]

The requests of one rank to the shared file system are counted with strace if that is installed (a rank of a rendered job,
and `python3 -c pass`); the requests of an import are published. Then the requests of all ranks are sent, one after the
other, to one simulated metadata server that answers after its published latency and at most at its published rate. Nothing
is cached on the nodes, which is the worst case; real clients cache attributes, and on some file systems open files.

Rates: file creates 29,000/s and stats 544,000/s with 240 clients, 13,800/s and 34,000/s with 12, which is 0.87 and 0.35 ms
per operation (Dell HPC Lustre Storage solution with Mellanox InfiniBand EDR, 4.3 Metadata Testing, MDtest). Opens count as
creates, which is rather too slow than too fast. `import scipy` opens or tries about 4,000 files (NERSC documentation,
Scaling Up Python).
"""

from __future__ import annotations

import heapq
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RATE = {"open": 29_000, "stat": 544_000}
LATENCY = {"open": 12 / 13_800, "stat": 12 / 34_000}
SPEC = """\
name: x
framework: torch
command: [bash, -c, "until [[ -z ${SAMPLED-} || -s $SAMPLED ]]; do sleep 0.1; done"]
resources: {ranks_per_node: 1001}
placement: {bind: none}
site: workstation
"""
"""Of more than 1,000 ranks: those of small jobs also leave a note when they end well. The program of a rank that starts a
sampler waits for its first line."""


def simulate(ranks: int, operations: list[str]) -> float:
    """Seconds until the last rank has received all answers.

    The server works on as many requests at once as its rate and latency make: each takes the latency, more wait in line.
    """
    free = {kind: [0.0] * max(1, round(RATE[kind] * LATENCY[kind])) for kind in RATE}
    waiting = [(0.0, rank, 0) for rank in range(ranks)]
    last = 0.0
    while waiting:
        now, rank, index = heapq.heappop(waiting)
        kind = operations[index]
        done = max(now, heapq.heappop(free[kind])) + LATENCY[kind]
        heapq.heappush(free[kind], done)
        if index + 1 < len(operations):
            heapq.heappush(waiting, (done, rank, index + 1))
        last = max(last, done)
    return last


def bound(ranks: int, opens: int) -> float:
    """The same for more operations than are worth simulating: the server is always busy."""
    return max(ranks * opens / RATE["open"], opens * LATENCY["open"])


def of_a_rank(local_rank: int) -> list[str]:
    """The operations of a rank of a rendered job in its job directory, in order, as strace sees them.

    The first rank of a node, 0, also starts the sampler, which is counted with it.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        (place / "spec.yaml").write_text(SPEC)
        dlrun, job = Path(sys.executable).with_name("dlrun"), place / "job"
        subprocess.run([dlrun, "render", "spec.yaml", "-o", job], cwd=place, check=True, capture_output=True)
        for needed in ("failures", "ended", "logs/0", "usage"):  # job.sh makes them
            (job / needed).mkdir(parents=True)
        known = {"JOB_DIR": job, "RUN_DIR": job, "RUN_ID": "7.0", "RANK": 1, "LOCAL_RANK": local_rank, "NODES": 1,
                 "MASTER_ADDR": "here", "MASTER_PORT": 20000, "HOSTS": job / "hosts"}  # fmt: skip
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        environment |= {f"DLRUN_{name}": str(value) for name, value in known.items()}
        if local_rank == 0:
            host = Path("/proc/sys/kernel/hostname").read_text().strip().partition(".")[0]
            environment["SAMPLED"] = (
                f"{place}/seen/{host}.jsonl"  # the same file under another name, which is not counted
            )
            (place / "seen").symlink_to(job / "usage")
        strace = ["strace", "-f", "-e", "trace=%file", "-o", place / "calls"]
        subprocess.run(
            [*strace, "bash", job / "rank.sh", "rank"],
            cwd="/",
            env=environment,
            check=True,
            capture_output=True,
        )
        calls = re.findall(rf'(\w+)\([^"]*"{job}/[^"]*"', (place / "calls").read_text())
        return ["open" if "open" in call else "stat" for call in calls if call != "execve"]


def of_python() -> int:
    """Number of files that an interpreter opens or looks for at its start."""
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=%file", "python3", "-c", "pass"],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum("(" in line for line in done.stderr.splitlines())


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    ranks, nodes = (*given, *(80_000, 10_000)[len(given) :])
    if shutil.which("strace") is None:
        raise SystemExit("strace counts what a rank does: install it first")
    pages, first, python = of_a_rank(1), of_a_rank(0), of_python()
    print(f"{ranks} ranks at once, one metadata server, nothing cached on the nodes\n")
    print(f"{'':42}{'operations a rank':>18}{'seconds':>10}")
    print(f"{'dlrun: rank.sh, lib/rank.sh, its own log':42}{len(pages):>18}{simulate(ranks, pages):>10.1f}")
    print(
        f"{f'... {nodes} nodes of one rank, and a sampler':42}{len(first):>18}{simulate(nodes, first):>10.1f}"
    )
    print(f"{'a plain `srun python -c pass`':42}{python:>18}{bound(ranks, python):>10.1f}")
    print(f"{'... which imports scipy':42}{python + 4000:>18}{bound(ranks, python + 4000):>10.0f}")


if __name__ == "__main__":
    main()
