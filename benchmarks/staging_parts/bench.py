"""Common parts of benchmarks/staging.py: sources, the node program, peers, turns and tables."""

import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dlrun.node import bundle

from .disk import Disk

USED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
HERE = Path(__file__).resolve().parent
TAR = 'mkdir "$2" && tar -C "$1" -cf - . | tar -C "$2" -xpf -'
READ = 'find "$1" -type f -print0 | xargs -0 cat > /dev/null'
PEERS = {
    "cp": ["cp", "-a", "{source}", "{target}"],
    "tar pipe": ["sh", "-c", TAR, "sh", "{source}", "{target}"],
    "rsync": ["rsync", "-a", "{source}/", "{target}/"],
    "rclone": ["rclone", "copy", "--links", "--metadata", "--transfers", "{width}", "{source}", "{target}"],
    "fpsync": ["fpsync", "-n", "{width}", "{source}/", "{target}/"],
    "msrsync": ["msrsync", "-p", "{width}", "{source}/", "{target}/"],
    "dcp": ["mpirun", "--oversubscribe", "-n", "{width}", "dcp", "-p", "{source}", "{target}"],
}


def installed(name):
    """Whether the program of a peer is installed."""
    return shutil.which({"tar pipe": "tar"}.get(name, name)) is not None


class Bench:
    """A scratch directory that contains the node program."""

    def __init__(self, given):
        self.given = given
        self.measured = []  # (nodes, times S/B, S/B) of each broadcast of one file, for the model
        self.root = Path(tempfile.mkdtemp(prefix="dlrun-bench-", dir=given.dir))
        self.program = str(self.root / "node.pyz")
        bundle.write(self.program)
        self.disk = Disk(self.root, given.image)
        self.target = self.disk.path

    def tree(self, name, count, size, each=1000):
        """A source of this many files, `each` per directory; created once."""
        base = self.root / name
        if base.exists():
            return base
        data = os.urandom(1 << 20)
        for number in range(count):
            directory = base / f"d{number // each}"
            if number % each == 0:
                directory.mkdir(parents=True)
            start = number % (len(data) - size) if size < len(data) else 0
            (directory / f"f{number}").write_bytes(data[start : start + size])
        return base

    def file(self, name, size):
        """A source of one large file; created once."""
        base = self.root / name
        if not base.exists():
            base.mkdir()
            with (base / "large").open("wb") as stream:
                for _ in range(size >> 20):
                    stream.write(os.urandom(1 << 20))
        return base

    def built(self, name, *flags):
        """A C program of this directory, compiled; None without a compiler or its libraries."""
        program = self.root / name
        words = ["cc", "-O2", "-o", program, HERE / f"{name}.c", *flags]
        done = subprocess.run(words, check=False, capture_output=True) if shutil.which("cc") else None
        if done is None or done.returncode:
            print(f"  ({name}.c could not be compiled)")
            return None
        return program

    def node(self, *words):
        """The argument list of the node program."""
        return [sys.executable, self.program, *map(str, words)]

    def stage(self, source, *more):
        """The argument list that stages a source on this machine."""
        return self.node(
            "stage", "--source", source, "--to", self.target / "local", "--name", "set", "--json", *more
        )

    def fresh(self):
        """Remove the copies, and wait until the disk is idle."""
        self.disk.renew()
        time.sleep(0.5)

    def warm(self, source, size):
        """Put a source into memory, and use as much memory as its copy will need, `size` bytes, twice.

        A virtual machine's host may have taken back pages that lay idle for some seconds: the first to use them again
        waits 5 microseconds for each, which says nothing about a way to copy.
        """
        subprocess.run(["sh", "-c", READ, "sh", source], check=True)
        for _ in range(2):
            mmap.mmap(-1, size + (1 << 30), flags=USED).close()

    def close(self):
        """Remove everything."""
        self.disk.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def timed(self, words):
        """Seconds of a command with a sync, and its CPU seconds."""
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        os.sync()
        if status:
            raise SystemExit(f"{words}: {complaint.decode(errors='replace')[-500:]}")
        return time.perf_counter() - began, usage.ru_utime + usage.ru_stime

    def ways(self, source, width=2, more=None):
        """The argument lists of dlrun and of every installed peer; `more` are further ones."""
        ways = {
            "dlrun": self.stage(source),
            "dlrun no hash": self.stage(source, "--hash", "none"),
            **(more or {}),
        }
        for name, words in PEERS.items():
            if installed(name):
                ways[name] = [
                    w.format(source=source, target=self.target / "copy", width=width) for w in words
                ]
            else:
                print(f"  ({name} is not installed)")
        wanted = self.given.ways.split(",") if self.given.ways else list(ways)
        return {name: words for name, words in ways.items() if name in wanted or name == "dlrun"}

    def turns(self, title, ways, before=lambda: None, after=lambda _name: None):
        """Measure every way once per round, in a new random order each; `before` is called before, `after` with its name after.

        A fixed order would favour some ways: what one leaves in caches and queues of the disk the next one meets.
        """
        rounds = []
        try:
            for _ in range(self.given.rounds):
                found = {}
                for name in random.sample(sorted(ways), len(ways)):
                    self.fresh()
                    before()
                    found[name] = self.timed(ways[name])
                    after(name)
                rounds.append(found)
        finally:  # also if it is ended early
            table(title, rounds)
        self.fresh()


def table(title, rounds):
    """Print the rows of one measurement as Markdown: seconds and CPU seconds, and the ratio to dlrun in the same round."""
    print(f"\n{title}; {len(rounds)} rounds\n")
    print("| way | median s | minimum s | CPU s | times dlrun, median of the rounds |\n|---|---|---|---|---|")
    rows = []
    for name in rounds[0] if rounds else ():
        walls, cpus = zip(*(found[name] for found in rounds), strict=True)
        ratio = statistics.median(found[name][0] / found["dlrun"][0] for found in rounds)
        rows.append((statistics.median(walls), min(walls), statistics.median(cpus), ratio, name))
    for middle, least, cpu, ratio, name in sorted(rows):
        print(f"| {name} | {middle:.2f} | {least:.2f} | {cpu:.2f} | {ratio:.2f} |")
    sys.stdout.flush()
