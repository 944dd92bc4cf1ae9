"""Time that dlrun's job adds between the scheduler's start of `job.sh` and the first instruction of the training program.

    python benchmarks/jobstart.py [--rounds N] [--slurm] [--other DLRUN]

Each job is compared with the shortest script that starts the same program: with a launcher that does nothing else, on this
machine, and with `--slurm` through the real `srun` of a two-node cluster of the tests (needs root). The goal: less than
100 ms more, also if ranks are bound and check their binding (`verify`). Time is measured from the start of the script until
the program runs, as the program itself records; CPU time is that of all processes, until the last has ended. Processes are
those that strace sees started before the program. The ways take turns, so that a busy machine disturbs all alike; the table
has minimum and median. `--other` is the `dlrun` command of another version, such as the one before a change: its jobs take
turns with these, and the difference is printed.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 100
"""Milliseconds that dlrun may add."""

SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
SLURM_PROCID=0 SLURM_LOCALID=0 exec "$@"
"""
SCONTROL = "#!/bin/bash\necho here\n"
"""Stand-ins that start the program and do nothing else."""

BARE = {
    "local": """#!/bin/bash
export RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
date +%s%N >"$OUT-0" &
wait
""",
    "srun": """#!/bin/bash
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29500 WORLD_SIZE={ranks}
srun --nodes={ranks} --ntasks={ranks} bash -c 'RANK=$SLURM_PROCID exec date +%s%N >"$OUT-$SLURM_PROCID"'
""",
}
"""The shortest scripts; each rank writes its time to a file."""

SITES = {
    "local": "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n",
    "srun": "name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\n",
}
NODES = """\
node_types: {all: {topology: {packages: 1, cores: CORES}}}
partitions: {work: {node_type: all, exclusive: true, default: true}}
"""
"""Lines of a site with which the plan binds ranks: whole nodes with the cores of this machine."""
SPEC = """\
name: jobstart
framework: torch
command: [bash, -c, 'exec date +%s%N >"$OUT-$RANK"']
site: ./site.yaml
resources: {nodes: NODES, ranks_per_node: 1}
"""
WAYS = {
    "dlrun, plain": ("placement: {bind: none}\nverify: off\n", ""),
    "dlrun, bound, verified": ("placement: {bind: plan}\nverify: warn\n", NODES),
}
"""Additions to spec and site for each of dlrun's jobs."""
OTHER = "other"
"""Beginning of the label of another version's job, instead of `dlrun`."""


@dataclass
class Way:
    """A script in a directory of its own, and its measurements: milliseconds of time and of CPU time."""

    label: str
    directory: Path
    script: str
    ranks: int = 1
    wall: list = field(default_factory=list)
    cpu: list = field(default_factory=list)
    processes: int | None = None


def make_ways(place, launcher, ranks, other=None):
    """The shortest script, dlrun's two, and those of another version of dlrun."""
    bare = place / f"bare-{launcher}"
    bare.mkdir()
    (bare / "job.sh").write_text(BARE[launcher].replace("{ranks}", str(ranks)))
    ways = [Way("the shortest script", bare, "job.sh", ranks)]
    ours = [(label, Path(sys.executable).with_name("dlrun"), *added) for label, added in WAYS.items()]
    if other:
        ours += [(f"{OTHER}{label[5:]}", other, *added) for label, added in WAYS.items()]
    for number, (label, dlrun, of_spec, of_site) in enumerate(ours):
        spec = place / f"spec-{launcher}-{number}"
        spec.mkdir()
        (spec / "spec.yaml").write_text(SPEC.replace("NODES", str(ranks)) + of_spec)
        (spec / "site.yaml").write_text(SITES[launcher] + of_site.replace("CORES", str(os.cpu_count())))
        job = place / f"dlrun-{launcher}-{number}"
        command = [dlrun, "render", "spec.yaml", "--set", f"directory={place}", "-o", job]
        done = subprocess.run(command, cwd=spec, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stderr}")
        (job / "logs").mkdir(exist_ok=True)
        ways.append(Way(label, job, "job.sh", ranks))
    return ways


def environment(place, out):
    """The variables and files of a scheduler that the scripts use."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    path = f"{place}/bin:{os.environ['PATH']}"
    return {
        **kept,
        "PATH": path,
        "OUT": str(out),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "here",
    }


def run_here(place, way):
    """One run on this machine."""
    out = way.directory / "started"
    began = time.time_ns()
    with subprocess.Popen(
        ["bash", way.script],
        cwd=way.directory,
        env=environment(place, out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{way.label} failed: {said.decode()}")
    way.wall.append((int(Path(f"{out}-0").read_text()) - began) / 1e6)
    way.cpu.append(1000 * (usage.ru_utime + usage.ru_stime))


def count_processes(place, way):
    """Number of programs started before the training program, including the script's bash."""
    out = way.directory / "started"
    with tempfile.NamedTemporaryFile() as log:
        tracer = ["strace", "-f", "-e", "trace=execve", "-o", log.name]
        command = [*tracer, "bash", way.script]
        subprocess.run(
            command, cwd=way.directory, env=environment(place, out), capture_output=True, check=True
        )
        lines = [
            line
            for line in Path(log.name).read_text().splitlines()
            if re.search(r'execve\("[^"]*".*= 0$', line)
        ]
    way.processes = next(number for number, line in enumerate(lines) if '"date", "+%s%N"' in line)


def run_on_cluster(cluster, way):
    """One run as a job of the cluster; its time is that of the last rank."""
    out = way.directory / "started"
    wrapped = '#!/bin/bash\ndate +%s%N >"$OUT"\nexec bash job.sh\n'
    (way.directory / "wrapped.sh").write_text(wrapped)
    command = [
        "sbatch",
        "--wait",
        f"--nodes={way.ranks}",
        "--output=/dev/null",
        f"--export=ALL,OUT={out}",
        "wrapped.sh",
    ]
    done = cluster.on("login", command, cwd=way.directory, timeout=300)
    if done.returncode:
        raise SystemExit(f"{way.label} failed: {done.stdout}{done.stderr}")
    ranks = [int(Path(f"{out}-{rank}").read_text()) for rank in range(way.ranks)]
    way.wall.append((max(ranks) - int(out.read_text())) / 1e6)


def report(title, ways):
    """Print the table, and how much longer each of dlrun's jobs takes."""
    bare, *ours = ways
    print(f"\n{title}\n{'':22} {'ms least':>9} {'median':>8} {'CPU ms':>8} {'processes':>10}")
    for way in ways:
        cpu = f"{min(way.cpu):8.1f}" if way.cpu else f"{'-':>8}"
        print(
            f"{way.label:22} {min(way.wall):9.1f} {statistics.median(way.wall):8.1f} {cpu} {way.processes or '-':>10}"
        )
    for way in ours:
        more = min(way.wall) - min(bare.wall)
        verdict = "within" if more < BUDGET else "over"
        ratio = f", {min(way.cpu) / min(bare.cpu):.1f} × the CPU time" if way.cpu else ""
        times = min(way.wall) / min(bare.wall)
        print(f"{way.label} adds {more:.0f} ms (goal {BUDGET}: {verdict}), {times:.1f} × the time{ratio}")
    of_label = {way.label: way for way in ours}
    for label in WAYS:
        if before := of_label.get(f"{OTHER}{label[5:]}"):
            later = of_label[label]
            least = min(later.wall) - min(before.wall)
            middle = statistics.median(later.wall) - statistics.median(before.wall)
            print(f"{label}: {least:+.1f} ms (median {middle:+.1f}) beside the other version")


def on_this_machine(rounds, other):
    """Launchers that only start the program."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "bin").mkdir()
        for program, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (place / "bin" / program).write_text(text)
            (place / "bin" / program).chmod(0o755)
        for launcher, title in (
            ("local", "one rank, no launcher"),
            ("srun", "one rank, an srun that only starts it"),
        ):
            ways = make_ways(place, launcher, 1, other)
            for way in ways:
                run_here(place, way)
                if shutil.which("strace"):
                    count_processes(place, way)
                way.wall, way.cpu = [], []
            for _ in range(rounds):
                for way in ways:
                    run_here(place, way)
            report(title, ways)


def on_slurm(rounds, other):
    """The real srun, on the tests' cluster."""
    sys.path.insert(0, str(ROOT))
    from tests.cluster import Cluster, ClusterSpec, NodeType  # noqa: PLC0415 - for this option alone

    spec = ClusterSpec(node_types=(NodeType(count=2, sockets=1, cores=2),), users=("alice",))
    with Cluster(spec, f"jobstart-{os.getpid()}") as cluster:
        place = cluster.home("alice") / "jobstart"
        place.mkdir()
        ways = make_ways(place, "srun", 2, other)
        subprocess.run(["chown", "-R", f"--reference={place.parent}", str(place)], check=True)
        for turn in range(rounds + 1):
            for way in ways:
                run_on_cluster(cluster, way)
                if turn == 0:
                    way.wall = []
        report("two ranks on two nodes, Slurm's srun", ways)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each script")
    parser.add_argument("--slurm", action="store_true", help="also on a Slurm cluster of the tests (root)")
    parser.add_argument(
        "--other", type=Path, metavar="DLRUN", help="another version's dlrun command, to compare with"
    )
    options = parser.parse_args()
    on_this_machine(options.rounds, options.other)
    if options.slurm:
        on_slurm(options.rounds, options.other)


if __name__ == "__main__":
    main()
