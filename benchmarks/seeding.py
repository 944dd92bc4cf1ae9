"""What it costs a job to begin with the compiled entries of earlier jobs: with nothing to seed, and over a limited link.

    python benchmarks/seeding.py [--pairs N] [--only start,archive] [--size MB] [--link MBIT] [--nodes N]

start    one rank on this machine: the time from the start of `job.sh` to the first instruction of the program, and of all
         until the job has ended, with `caches: auto` less that with `caches: off`. Nothing is seeded: there is no store, it
         has other environments, or this one for another kind of machine. The goal is at most 0.3 s.
archive  N nodes with links of MBIT (network namespaces: needs root, `ip` and `tc`) get an archive of --size MB, as a job's
         own `job.sh` brings it: the time until the last rank starts, less that of a job with `caches: off`. The goal is at
         most 1.1 times what a plain copy of the archive to one node takes over the same link, in the same round.

Pairs are in random order. A row has medians; CPU time is that of all processes of the job, in which a busy machine shows less.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from staging_parts.hosts import Hosts, usable

from dlrun.node.commands.compiled_store import Store
from dlrun.node.common.machine import machine

NOTHING, LINK = 0.3, 1.1
SPEC = """\
name: seeding
framework: torch
command: [bash, -c, 'exec date +%s%N >"$OUT-$RANK"']
site: ./site.yaml
usage: false
caches: CACHES
resources: {nodes: NODES, ranks_per_node: 1}
"""
SITE = """\
name: here
scheduler: {type: TYPE}
launcher: {name: LAUNCHER}
rendezvous: {address: ADDRESS}
storage: {node_local: {path: LOCAL, size: 10GB}}
"""
SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
number=0 steps=()
for name in $NAMESPACES; do
  SLURM_PROCID=$number SLURM_LOCALID=0 SLURM_NODEID=$number ip netns exec "$name" \\
    bash -c 'mount --bind "$0" "$1" && exec "${@:2}"' "$NODES_OF/$number" "$LOCAL" "$@" &
  steps+=("$!") number=$((number + 1))
done
for step in "${steps[@]}"; do wait "$step" || exit; done
"""
"""A step on each namespace, which has a directory of its own as local storage."""
SEND = """
import socket, sys
with socket.create_server(("0.0.0.0", 29412)) as server, open(sys.argv[1], "rb") as file:
    print("ready", flush=True)
    server.accept()[0].sendfile(file)
"""
RECEIVE = """
import socket, sys
with socket.create_connection((sys.argv[1], 29412)) as link, open(sys.argv[2], "wb") as file:
    while part := link.recv(1 << 20):
        file.write(part)
"""


class Times(NamedTuple):
    """Seconds of one job: until its last rank's first instruction, until its end, and of CPU time."""

    started: float
    whole: float
    cpu: float


class Job:
    """A rendered job in a directory that its store shares with no other."""

    def __init__(self, place: Path, caches: str, nodes: int, launcher: str = "local") -> None:
        spec = place / "spec"
        spec.mkdir(parents=True)
        (place / "local").mkdir()
        kinds = {"local": ("local", "loopback"), "srun": ("slurm", "hostname")}[launcher]
        words = {"TYPE": kinds[0], "LAUNCHER": launcher, "ADDRESS": kinds[1], "LOCAL": str(place / "local")}
        (spec / "site.yaml").write_text(re.sub("|".join(words), lambda found: words[found[0]], SITE))
        (spec / "spec.yaml").write_text(SPEC.replace("CACHES", caches).replace("NODES", str(nodes)))
        self.place, self.nodes = place, nodes
        self.directory = place / "job"
        words = ("render", "spec.yaml", "--set", f"directory={place}", "-o", str(self.directory))
        subprocess.run(
            [sys.executable, "-m", "dlrun", *words], cwd=spec, check=True, stdout=subprocess.DEVNULL
        )
        (self.directory / "logs").mkdir(exist_ok=True)

    @property
    def store(self) -> tuple[str, str]:
        """The user's store of this job, and the key of its environment."""
        found = re.search(
            r"^dlrun_keep_compiled \S+ (\w+)", (self.directory / "job.sh").read_text(), re.MULTILINE
        )
        assert found
        return str(self.place / f".dlrun-hub-{os.geteuid()}"), found[1]

    def run(self, **more: str) -> Times:
        """One run of `job.sh`."""
        out = self.place / "started"
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
        began = time.time_ns()
        with (
            (self.directory / "logs/job.log").open("w") as log,
            subprocess.Popen(
                ["bash", "job.sh"],
                cwd=self.directory,
                env=kept | {"OUT": str(out)} | more,
                stdout=log,
                stderr=log,
            ) as process,
        ):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        ended = time.time_ns()
        if process.returncode:
            sys.exit((self.directory / "logs/job.log").read_text())
        last = max(int(Path(f"{out}-{rank}").read_text()) for rank in range(self.nodes))
        return Times((last - began) / 1e9, (ended - began) / 1e9, usage.ru_utime + usage.ru_stime)

    def log(self) -> str:
        """What the job has written, and its nodes."""
        return "".join(path.read_text() for path in sorted((self.directory / "logs").glob("*.log")))


def add(job: Job, key: str, kind: str, entries: dict[str, bytes]) -> int:
    """Put entries for a kind of machine into the store of a job; returns the size of the archive in bytes."""
    source = job.place / "entries"
    facts = {}
    for name, content in entries.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        facts[name] = (len(content), path.stat().st_mtime_ns)
    store = Store(job.store[0], key, make=True)
    store.lock(10)
    store.add((kind, "synthetic"), facts, lambda path: str(source / path), facts, None)
    version = store.newest(kind)
    store.close()
    shutil.rmtree(source)
    assert version
    return Path(version.path).stat().st_size


# --- Nothing to seed ----------------------------------------------------------------------------------------


def of_start(place: Path, pairs: int) -> bool:
    """Print what caches add to the start of jobs that have nothing to seed; whether it is within the goal."""
    off = Job(place / "off", "off", 1)
    ways = {name: Job(place / str(number), "auto", 1) for number, name in enumerate(
        ("no store", "a store of other environments", "a store for another kind of machine")
    )}  # fmt: skip
    _, other, kind = ways.values()
    add(other, "0" * 12, machine()[0], {"inductor/one": b"1"})
    add(kind, kind.store[1], "other-00000000", {"inductor/one": b"1"})
    print(f"\nstart: what `caches: auto` adds to a job with nothing to seed; {pairs} pairs, load {load()}\n")
    print("| | until the program, s | all of the job, s | CPU s | CPU, times `off` |\n|---|---|---|---|---|")
    worst = 0.0
    for job in (off, *ways.values()):
        job.run()
    for name, job in ways.items():
        found = []
        for _ in range(pairs):
            turn = {one: one.run() for one in random.sample([off, job], 2)}
            found.append((turn[job], turn[off]))
        started, whole, cpu = (
            statistics.median(with_it[part] - without[part] for with_it, without in found)
            for part in range(3)
        )
        ratio = statistics.median(with_it.cpu / without.cpu for with_it, without in found)
        print(f"| {name} | {started:+.3f} | {whole:+.3f} | {cpu:+.3f} | {ratio:.2f} |", flush=True)
        worst = max(worst, whole)
    print(f"\nat most {worst:.3f} s (goal: at most {NOTHING} s)", flush=True)
    return worst <= NOTHING


# --- An archive over a link ---------------------------------------------------------------------------------


def of_archive(place: Path, pairs: int, given: argparse.Namespace) -> bool:
    """Print the times of an archive to all nodes as multiples of a plain copy; whether their median is within the goal."""
    if not usable():
        print("\narchive: needs root, ip and tc; left out")
        return True
    jobs = {name: Job(place / name, name, given.nodes, "srun") for name in ("auto", "off")}
    auto, off = jobs.values()
    each = 50_000
    entries = {
        f"triton/{number:06}/kernel.cubin": os.urandom(each)
        for number in range(given.size * 1_000_000 // each)
    }
    size = add(auto, auto.store[1], machine()[0], entries)
    archive = next(Path(auto.store[0]).glob("*/*/cache.tar"))
    stand_ins = place / "bin"
    stand_ins.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", '#!/bin/bash\nprintf "%s\\n" $ADDRESSES\n')):
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    alone = size * 8 / (given.link * 1e6)
    print(
        f"\narchive: {size / 1e6:.0f} MB in {len(entries):,} files to {given.nodes} nodes over links of {given.link} Mbit/s,"
        f" on which its bytes alone take {alone:.2f} s; {pairs} rounds, load {load()}\n"
    )
    print(
        "| plain copy, s | seeding adds, s | times the copy | times the bytes | CPU s it adds |\n|---|---|---|---|---|"
    )
    ratios = []
    with Hosts(given.nodes - 1, given.link) as hosts:
        more = {
            "PATH": f"{stand_ins}:{os.environ['PATH']}",
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_JOB_NODELIST": "all",
            "NAMESPACES": " ".join(hosts.names),
            "ADDRESSES": "\n".join(hosts.addresses),
        }

        def run(job: Job) -> Times:
            # ext4 is slow where files were just removed, so what a round has made is kept until the end.
            of_nodes = job.place / f"nodes-{time.time_ns()}"
            for number in range(given.nodes):
                (of_nodes / str(number)).mkdir(parents=True)
            found = job.run(NODES_OF=str(of_nodes), LOCAL=str(job.place / "local"), **more)
            there = [
                len(list((of_nodes / str(number)).glob("dlrun-caches-*/*/triton/*/*")))
                for number in range(given.nodes)
            ]
            if job is auto and set(there) != {len(entries)}:
                sys.exit(f"{there} of {len(entries)} entries are on the nodes\n{job.log()}")
            return found

        for turn in range(pairs + 1):
            times, copied = {}, 0.0
            for way in random.sample([auto, off, None], 3):
                if way is None:
                    copied = plain_copy(hosts, archive, place / "copied")
                else:
                    times[way] = run(way)
            if not turn:  # the files are in memory from here on
                continue
            added = times[auto].started - times[off].started
            cpu = times[auto].cpu - times[off].cpu
            ratios.append(added / copied)
            print(
                f"| {copied:.2f} | {added:.2f} | {ratios[-1]:.2f} | {added / alone:.2f} | {cpu:.2f} |",
                flush=True,
            )
    print(
        f"\nmedian {statistics.median(ratios):.3f} times the copy (goal: at most {LINK}), load {load()}",
        flush=True,
    )
    return statistics.median(ratios) <= LINK


def plain_copy(hosts: Hosts, archive: Path, target: Path) -> float:
    """Seconds in which a file comes from the first host to the second one through one connection."""
    sender = hosts.start(0, [sys.executable, "-c", SEND, str(archive)])
    assert sender.stdout.readline() == "ready\n"
    receiver = hosts.start(1, [sys.executable, "-c", RECEIVE, hosts.addresses[0], str(target)])
    began = time.perf_counter()
    for process in (receiver, sender):
        if process.wait():
            sys.exit(process.stderr.read())
    taken = time.perf_counter() - began
    assert target.stat().st_size == archive.stat().st_size
    target.unlink()
    return taken


def load() -> str:
    """The number of processes that wanted to run in the last minute."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main() -> int:
    """Measure the parts; 1 if one is above its goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", default="start,archive", help="parts, separated by commas")
    parser.add_argument("--size", type=int, default=200, metavar="MB", help="of the archive")
    parser.add_argument("--link", type=int, default=400, metavar="MBIT", help="rate of each link")
    parser.add_argument("--nodes", type=int, default=2)
    given = parser.parse_args()
    good = []
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        if "start" in given.only:
            good.append(of_start(place / "start", given.pairs))
        if "archive" in given.only:
            good.append(of_archive(place / "archive", max(1, given.pairs // 3), given))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
