"""The effect of binding on this machine: training and GEMM started by dlrun and by its peers with their defaults.

    python benchmarks/affinity.py [--ranks N] [--seconds S] [--rounds R] [--loads ddp,gemm] [--only NAME,...]
                                  [--keep FILE]
    python benchmarks/affinity.py --placement

Every way of starting runs the same program in turn, in R rounds that each begin with another way. The table has the best
and the median run of each way, and its ratio to dlrun within a round: the median over the rounds with its 95 % interval,
which needs 6 rounds. `--keep` adds the rounds to those of earlier calls with the same file, so that a long measurement can
be divided. `ddp` is data-parallel training of a small network with PyTorch (gloo), in samples per second of all ranks;
`gemm` multiplies two 1,000 x 1,000 matrices with NumPy, in GFLOP/s of all ranks. Ways that are not installed are listed
and skipped. The goal: dlrun is never more than 3 % slower than the best of the others. At the end the CPU time of a
placement is measured, which is reliable also on a busy machine; `--placement` measures only that.
"""

# ruff: noqa: PLC0415 - a rank imports what its load needs, and its time starts with the first step

import argparse
import importlib.util
import json
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPI = ROOT / ".cache" / "oracles" / "venv"
LIMIT = 120
"""Maximum seconds of one run."""

GOAL = 0.97
"""Fraction of the best other way that dlrun must reach."""


def work(load, seconds):
    """Act as one rank: run the load for some seconds and print its rate."""
    rank = next(os.environ[n] for n in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK") if n in os.environ)
    os.environ["RANK"] = rank
    rate = (ddp if load == "ddp" else gemm)(seconds)
    print(json.dumps({"rank": int(rank), "rate": rate}), flush=True)
    os._exit(0)


def ddp(seconds):
    """Samples per second of this rank."""
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    size = 128
    layers = []
    for width in (1024, 1024, 512):
        layers += [torch.nn.LazyLinear(width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.LazyLinear(10))
    data = torch.randn(size, 512)
    model(data)
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(go_on):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        left = torch.tensor([float(go_on)])
        dist.all_reduce(left, op=dist.ReduceOp.MIN)
        return bool(left.item())

    for _ in range(5):
        step(True)
    start, steps = time.perf_counter(), 1
    while step(time.perf_counter() - start < seconds):
        steps += 1
    return size * steps / (time.perf_counter() - start)


def gemm(seconds):
    """GFLOP/s of this rank."""
    import numpy as np

    n = 1000
    a = np.random.default_rng(0).random((n, n), dtype=np.float32)
    for _ in range(3):
        a @ a
    meet()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        a @ a
        count += 1
    return 2 * n**3 * count / (time.perf_counter() - start) / 1e9


def meet():
    """Wait until every rank is here: one that computed alone would seem faster than it is."""
    place = Path(os.environ["MEETING_PLACE"])
    (place / os.environ["RANK"]).touch()
    while len(list(place.iterdir())) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.002)


def ways(ranks, job):
    """Name -> (command line, or None and the reason); `job` is the command of one rank."""
    python = sys.executable
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    found = {}
    found["nothing set"] = ([*each_rank(ranks), *job], None)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    found["torchrun"] = ([python, *torchrun, *job[1:]], needs_module("torch"))
    run_cpu = ["-m", "torch.backends.xeon.run_cpu", f"--ninstances={ranks}", "--rank={rank}"]
    missing = needs_module("torch") or needs_program("numactl")
    found["torch run_cpu"] = ([*each_rank(ranks), python, *run_cpu, *job[1:]], missing)
    openmpi = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    found["Open MPI"] = ([openmpi, *root, "-np", str(ranks), *job], needs_program("mpirun.openmpi"))
    impi = IMPI / "bin" / "mpiexec.hydra"
    hint = None if impi.exists() else "`python -m tests.oracles.install` brings it"
    found["Intel MPI"] = ([str(impi), "-n", str(ranks), *job], hint)
    place = [python, "-m", "dlrun", "tune-affinity", "--ranks-per-node", str(ranks), "--exec"]
    if importlib.util.find_spec("dlrun.__main__") is None:
        place[1:3] = ["-c", "from dlrun.cli.main import main; main()"]
    found["dlrun"] = ([*place, *job], None)
    return found


def each_rank(ranks):
    """This program as the simplest launcher: RANK in the environment, `{rank}` in the arguments."""
    return [sys.executable, str(Path(__file__).resolve()), "--start", str(ranks)]


def start(ranks, argv):
    """Start a command once for every rank, with only its number."""
    processes = [
        subprocess.Popen(
            [word.replace("{rank}", str(i)) for word in argv], env={**os.environ, "RANK": str(i)}
        )
        for i in range(ranks)
    ]
    return max(process.wait() for process in processes)


def needs_module(name):
    """The reason, if a module is not installed."""
    return None if importlib.util.find_spec(name) else f"{name} is not installed"


def needs_program(name):
    """The reason, if a program is not installed."""
    return None if shutil.which(name) else f"`{name}` is not installed"


def measure(argv, ranks):
    """Rates of all ranks together; None and the reason if the run failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    drop = ("OMP_", "KMP_", "MKL_", "SLURM_", "PMI", "OMPI_", "I_MPI_", "RANK", "LOCAL_", "WORLD_", "DLRUN_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    env |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "PYTHONPATH": str(ROOT),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "I_MPI_ROOT": str(IMPI),
    }
    with tempfile.TemporaryDirectory() as place:
        env["MEETING_PLACE"] = place
        try:
            done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None, f"no end after {LIMIT} s"
    reports = [json.loads(text) for text in re.findall(r'\{"rank": [^}]*\}', done.stdout)]
    if len(reports) != ranks:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return None, f"{len(reports)} of {ranks} ranks reported: {last[:90]}"
    return sum(report["rate"] for report in reports), None


def compare(load, options):
    """Run all ways in turn and print the table."""
    job = [sys.executable, str(Path(__file__).resolve()), "--worker", load, str(options.seconds)]
    found = {k: v for k, v in ways(options.ranks, job).items() if not options.only or k in options.only}
    failed = {name: why for name, (_, why) in found.items() if why}
    key = f"{load}, {options.ranks} ranks on {len(os.sched_getaffinity(0))} CPUs"
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    rounds = kept.setdefault(key, [])
    for _ in range(options.rounds):
        names = [name for name in found if name not in failed]
        turn = len(rounds) % max(1, len(names))
        rates = {}
        for name in names[turn:] + names[:turn]:
            rates[name], why = measure(found[name][0], options.ranks)
            if why:
                failed[name] = why
        rounds.append({name: rate for name, rate in rates.items() if rate is not None})
        if options.keep:
            options.keep.write_text(json.dumps(kept))
    tell(key, "samples/s" if load == "ddp" else "GFLOP/s", rounds)
    for name, why in failed.items():
        print(f"  {name:<14} left out: {why}")
    judge(rounds)


def tell(key, unit, rounds):
    """The table of one load."""
    print(f"\n{key}, {len(rounds)} rounds ({unit})")
    print(f"  {'':<14} {'best':>10} {'median':>10}   of dlrun in the same round")
    for name in dict.fromkeys(name for each in rounds for name in each):
        rates = [each[name] for each in rounds if name in each]
        low, middle, high = interval(ratios(rounds, name, "dlrun"))
        ratio = f"{middle:5.2f} ({low:.2f} to {high:.2f})" if middle else ""
        print(f"  {name:<14} {max(rates):10.1f} {statistics.median(rates):10.1f}   {ratio}")


def ratios(rounds, one, other):
    """The ratio of one way to another in every round that has both."""
    return [each[one] / each[other] for each in rounds if one in each and other in each]


def interval(values):
    """Lower end, median and upper end of the 95 % interval of the median, by order statistics; with fewer than 6
    values the ends are the least and the greatest."""
    values, count = sorted(values), len(values)
    if not count:
        return 0, 0, 0
    tail, cut = 0, 0
    while tail + math.comb(count, cut) <= 0.025 * 2**count:
        tail += math.comb(count, cut)
        cut += 1
    cut = max(cut - 1, 0)
    return values[cut], statistics.median(values), values[-1 - cut]


def judge(rounds):
    """Print whether the goal is met, if the interval of dlrun against the best of the others decides it."""
    others = {name for each in rounds for name in each} - {"dlrun"}
    found = {name: interval(ratios(rounds, "dlrun", name)) for name in others}
    found = {name: ends for name, ends in found.items() if ends[1]}
    if not found:
        return
    name = min(found, key=lambda name: found[name][1])
    low, middle, high = found[name]
    line = (
        f"  dlrun is at {middle:.2f} ({low:.2f} to {high:.2f}) of the best other ({name}); the goal is 0.97: "
    )
    if len(ratios(rounds, "dlrun", name)) < 6 or low < GOAL <= high:
        print(
            line
            + ("met by the median, " if middle >= GOAL else "missed by the median, ")
            + "more rounds would tell"
        )
    else:
        print(line + ("met" if low >= GOAL else "missed"))


def placement_time():
    """Milliseconds of CPU time to place ranks on a node of 512 hardware threads."""
    from dlrun.config.topology.short import build
    from dlrun.model.placement import PlacementRequest
    from dlrun.model.topology_short import ShortGpus, ShortNic, ShortTopology
    from dlrun.plan.affinity import place

    node = build(
        ShortTopology(
            packages=2,
            cores=128,
            smt=2,
            numa_per_package=4,
            l3_per_package=16,
            gpus=ShortGpus(numa=tuple(range(8))),
            nics=tuple(ShortNic(name=f"mlx5_{i}", numa=i) for i in range(8)),
        )
    )
    print(f"\nplacement on {len(node.pus())} hardware threads (the goal: under 20 ms)")
    for label, request in {
        "8 GPU ranks": PlacementRequest(ranks_per_node=8),
        "8 ranks, 2 comm cores each": PlacementRequest(ranks_per_node=8, comm_cores=2, gpus_per_rank=0),
        "7 ranks, comm cores spread": PlacementRequest(
            ranks_per_node=7, comm_cores=1, comm_policy="spread", gpus_per_rank=0
        ),
        "64 ranks": PlacementRequest(ranks_per_node=64, gpus_per_rank=0),
    }.items():
        times = []
        for _ in range(9):
            begin = time.process_time()
            place(node, request)
            times.append(1000 * (time.process_time() - begin))
        print(f"  {label:<28} {min(times):5.1f} ms (median {sorted(times)[4]:.1f})")


def main():
    """Compare, then time the placement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loads", default="ddp,gemm")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add the rounds to those in FILE")
    parser.add_argument("--placement", action="store_true", help="time the placement alone")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.placement:
        placement_time()
        return
    print(f"load before: {os.getloadavg()[0]:.2f} (a busy machine measures little)")
    for load in options.loads.split(","):
        compare(load, options)
    placement_time()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:2] == ["--start"]:
        sys.exit(start(int(sys.argv[2]), sys.argv[3:]))
    else:
        main()
