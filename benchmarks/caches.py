"""The first step of a job that begins with what an earlier job has compiled, against one on a node that has it already.

    python benchmarks/caches.py [--pairs N]

Jobs of two ranks run on this machine (PyTorch in this environment; a C++ compiler for `extension`). The first job compiles.
Then, in pairs that take turns in their order, one job's node has nothing but what comes from the user's store, and that of
the other still has it. The time is that of the first step alone, of the slower rank; the goal is a ratio of at most 1.2.
On a busy machine the ratio of CPU time, of both ranks and their compilers, says more.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

GOAL = 1.2
SITE = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
storage: {node_local: {path: LOCAL, size: 10GB}}
"""
HEAD = """\
import os, resource, time, torch
import torch.utils.cpp_extension
def cpu_seconds():
    found = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)
began, used = time.monotonic(), cpu_seconds()
"""
END = """
seconds, cpu = time.monotonic() - began, cpu_seconds() - used
open(f"{os.environ['DLRUN_RUN_DIR']}/step-{os.environ['RANK']}", "w").write(f"{seconds} {cpu}")
"""
STEPS = {
    "compile": """
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
torch.compile(torch.nn.Sequential(*layers))(torch.ones(4, 64)).sum().backward()
""",
    "extension": """
source = "torch::Tensor step(torch::Tensor x) { return x + 1; }"
made = torch.utils.cpp_extension.load_inline("step", source, functions=["step"])
assert made.step(torch.ones(1)).item() == 2
""",
}
"""A first step, whose compiled code is kept."""


def run(place: Path, step: str) -> tuple[float, float]:
    """A job: seconds of its first step, and of CPU time."""
    spec = place / f"{step}.yaml"
    (place / f"{step}.py").write_text(HEAD + STEPS[step] + END)
    spec.write_text(
        f"name: {step}\nsite: ./site.yaml\nframework: torch\ncaches: auto\nusage: false\n"
        f"command: [{sys.executable}, {step}.py]\nresources: {{ranks_per_node: 2, cpus_per_rank: 1}}\n"
    )
    words = ("submit", str(spec), "--wait", "--job-dir", str(place / "jobs/one"))
    shutil.rmtree(place / "jobs/one", ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "dlrun", *words], cwd=place, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    found = [(place / f"jobs/one/step-{rank}").read_text().split() for rank in range(2)]
    return max(float(seconds) for seconds, _ in found), sum(float(cpu) for _, cpu in found)


def measure(place: Path, step: str, pairs: int) -> float:
    """Print the times of a kind of step; returns the median of the ratios."""
    local = place / "local"

    def seeded() -> tuple[float, float]:
        shutil.rmtree(local)
        local.mkdir()
        return run(place, step)

    shutil.rmtree(local, ignore_errors=True)
    local.mkdir()
    cold, _ = run(place, step)
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "from the store": seeded,
        "on the node": lambda: run(place, step),
    }
    for way in ways.values():
        way()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for pair in range(pairs):
        for name in list(ways)[:: 1 if pair % 2 else -1]:
            found[name].append(ways[name]())
    first, second = found.values()
    ratios = [one / other for (one, _), (other, _) in zip(first, second, strict=True)]
    of_cpu = [one / other for (_, one), (_, other) in zip(first, second, strict=True)]
    print(f"{step}: cold {cold:.2f} s; ratios {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    for name, times in found.items():
        print(f"  {name}: median {statistics.median(seconds for seconds, _ in times):.2f} s")
    print(f"  median ratio {statistics.median(ratios):.3f} (goal: at most {GOAL})")
    shown = ", ".join(f"{ratio:.2f}" for ratio in of_cpu)
    print(f"  of CPU time {statistics.median(of_cpu):.3f} ({shown})", flush=True)
    return statistics.median(ratios)


def main() -> int:
    """Measure each kind of step; 1 if one is above the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", nargs="+", choices=list(STEPS), default=list(STEPS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "site.yaml").write_text(SITE.replace("LOCAL", str(place / "local")))
        (place / "home").mkdir()
        os.environ |= {"HOME": str(place / "home"), "DLRUN_JOBS": str(place / "jobs")}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        ratios = [measure(place, step, given.pairs) for step in given.steps]
    return int(max(ratios) > GOAL)


if __name__ == "__main__":
    sys.exit(main())
