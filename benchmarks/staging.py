"""How fast data reaches nodes, beside other tools on the same machine in the same run.

    python benchmarks/staging.py [--scale F] [--rounds R] [--only large,small,warm,reads,chain,model] [--dir PATH]

large   one file of 4 GB to one node; the disk's own limit is `dd` with the same amount
small   50,000 files of 33 KB to one node
warm    the same set once more: nothing is copied
reads   random reads a second from the staged files, and from the same set packed
chain   256 MB, as one file and as 20,000 small ones, from one host to N others over links shaped to --link Mbit/s
        (network namespaces: needs root, `ip` and `tc`), with a node killed half-way, and beside N rsync clients
model   the cost model of chain and tree for many nodes; a computation, not a measurement

Sizes and numbers of files are multiplied by --scale. Ways take turns, R rounds; a row has the best time with the
data on the disk (`sync`), and its ratio to dlrun's. Peers that are not installed are named and left out.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dlrun.node import bundle  # noqa: E402 - the checkout's own
from dlrun.node.topology import seconds as modelled  # noqa: E402

PEERS = {
    "cp": ["cp", "-a", "{source}", "{target}"],
    "tar pipe": [
        "sh",
        "-c",
        'mkdir "$2" && tar -C "$1" -cf - . | tar -C "$2" -xpf -',
        "sh",
        "{source}",
        "{target}",
    ],
    "rsync": ["rsync", "-a", "{source}/", "{target}/"],
    "rclone": ["rclone", "copy", "--links", "--metadata", "--transfers", "8", "{source}", "{target}"],
    "fpsync": ["fpsync", "-n", "2", "{source}/", "{target}/"],
    "dcp": ["mpirun", "--oversubscribe", "-n", "2", "dcp", "-p", "{source}", "{target}"],
}


def installed(name):
    """Whether a peer's program is here."""
    return shutil.which({"tar pipe": "tar"}.get(name, name)) is not None


class Bench:
    """A scratch directory with the node program in it."""

    def __init__(self, given):
        self.given = given
        self.root = Path(tempfile.mkdtemp(prefix="dlrun-bench-", dir=given.dir))
        self.program = str(self.root / "node.pyz")
        bundle.write(self.program)

    def tree(self, name, count, size):
        """A source of so many files, a thousand in each directory."""
        base = self.root / name
        data = os.urandom(1 << 20)
        for number in range(count):
            directory = base / f"d{number // 1000}"
            if number % 1000 == 0:
                directory.mkdir(parents=True)
            start = number % (len(data) - size) if size < len(data) else 0
            (directory / f"f{number}").write_bytes(data[start : start + size])
        return base

    def file(self, name, size):
        """A source of one large file."""
        base = self.root / name
        base.mkdir()
        with (base / "large").open("wb") as stream:
            for _ in range(size >> 20):
                stream.write(os.urandom(1 << 20))
        return base

    def node(self, *words):
        """The argument list of the node program."""
        return [sys.executable, self.program, *map(str, words)]

    def stage(self, source, *more):
        """The argument list that stages a source here."""
        return self.node(
            "stage", "--source", source, "--to", self.root / "local", "--name", "set", "--json", *more
        )

    def fresh(self):
        """Remove what was copied, and wait until the disk is idle."""
        shutil.rmtree(self.root / "local", ignore_errors=True)
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        os.sync()

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

    def beside(self, title, source, more=()):
        """dlrun and every peer on one source, in turns."""
        ways = {"dlrun": self.stage(source), "dlrun, no hash": self.stage(source, "--hash", "none")}
        ways.update(more)
        for name, words in PEERS.items():
            if installed(name):
                ways[name] = [w.format(source=source, target=self.root / "copy") for w in words]
            else:
                print(f"  ({name} is not installed)")
        best = {name: (float("inf"), 0.0) for name in ways}
        for _ in range(self.given.rounds):
            for name, words in ways.items():
                self.fresh()
                best[name] = min(best[name], self.timed(words))
        table(title, best)
        self.fresh()


def table(title, best):
    """Print the rows of one measurement."""
    print(f"\n{title}\n{'way':<18}{'seconds':>9}{'CPU s':>8}{'ratio':>8}")
    for name, (wall, cpu) in sorted(best.items(), key=lambda item: item[1]):
        print(f"{name:<18}{wall:>9.2f}{cpu:>8.2f}{wall / best['dlrun'][0]:>8.2f}")
    sys.stdout.flush()


def large(bench):
    """One large file."""
    size = int(4e9 * bench.given.scale) >> 20 << 20
    source = bench.file("one", size)
    limit = ["dd", f"if={source}/large", f"of={bench.root}/copy-dd", "bs=4M", "conv=fdatasync", "status=none"]
    bench.beside(f"large: one file of {size / 1e9:.1f} GB", source, {"dd": limit}.items())
    shutil.rmtree(source)


def small_source(bench):
    """The many small files, made once."""
    count = int(50_000 * bench.given.scale)
    source = bench.root / "many"
    return (source if source.exists() else bench.tree("many", count, 33_000)), count


def small(bench):
    """Many small files."""
    source, count = small_source(bench)
    bench.beside(f"small: {count:,} files of 33 KB", source)


def warm(bench):
    """Recognise a set that is there."""
    source, count = small_source(bench)
    subprocess.run(bench.stage(source), check=True, stdout=subprocess.DEVNULL)
    inside, whole = [], []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run(bench.stage(source), check=True, capture_output=True, text=True)
        whole.append(time.perf_counter() - began)
        inside.append(json.loads(done.stdout.splitlines()[-1])["seconds"])
    print(
        f"\nwarm: {count:,} files recognised in {min(inside):.3f} s; with the start of Python {min(whole):.3f} s"
    )


def reads(bench):
    """Random reads from files and from a pack."""
    source, count = small_source(bench)
    bench.fresh()
    subprocess.run(bench.stage(source), check=True, stdout=subprocess.DEVNULL)
    packed = bench.node(
        "stage", "--source", source, "--to", bench.root / "local", "--name", "packed", "--strategy", "pack"
    )
    subprocess.run(packed, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    order = [random.randrange(count) for _ in range(count)]
    data = bench.root / "local" / "set" / "data"
    names = [f"{data}/d{n // 1000}/f{n}" for n in order]
    began = time.perf_counter()
    for name in names:
        descriptor = os.open(name, os.O_RDONLY)
        os.read(descriptor, 1 << 20)
        os.close(descriptor)
    files = count / (time.perf_counter() - began)
    base = bench.root / "local" / "packed" / "data"
    index = {}
    for record in (base / "packed.tar.index").read_bytes().split(b"\0"):
        if record:
            offset, size, name = record.split(b" ", 2)
            index[name] = int(offset), int(size)
    places = [index[f"d{n // 1000}/f{n}".encode()] for n in order]
    descriptor = os.open(base / "packed.tar", os.O_RDONLY)
    began = time.perf_counter()
    for offset, size in places:
        os.pread(descriptor, size, offset)
    packs = count / (time.perf_counter() - began)
    os.close(descriptor)
    print(
        f"\nreads (from memory): {files:,.0f} files a second, {packs:,.0f} members of the pack, {packs / files:.1f} times"
    )
    bench.fresh()


class Hosts:
    """A head and N other hosts as network namespaces on one bridge, every link shaped."""

    def __init__(self, count, mbit):
        self.prefix = f"dlb{os.getpid()}"
        self.names = [f"{self.prefix}-{k}" for k in range(count + 1)]
        self.switch = f"{self.prefix}-sw"
        self.addresses = [f"10.78.0.{k + 1}" for k in range(count + 1)]
        self.mbit = mbit

    def __enter__(self):
        ip("netns", "add", self.switch)
        inside(self.switch, "ip", "link", "add", "br0", "type", "bridge")
        inside(self.switch, "ip", "link", "set", "br0", "up")
        for k, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            ip("netns", "add", name)
            ip(
                "link",
                "add",
                "e0",
                "netns",
                name,
                "type",
                "veth",
                "peer",
                "name",
                f"p{k}",
                "netns",
                self.switch,
            )
            inside(name, "ip", "addr", "add", f"{address}/24", "dev", "e0")
            for device in ("e0", "lo"):
                inside(name, "ip", "link", "set", device, "up")
            inside(self.switch, "ip", "link", "set", f"p{k}", "master", "br0", "up")
            for where, device in ((name, "e0"), (self.switch, f"p{k}")):
                inside(
                    where, "tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1"
                )
                shape = ["rate", f"{self.mbit}mbit", "burst", "256k", "cburst", "256k"]
                inside(
                    where,
                    "tc",
                    "class",
                    "add",
                    "dev",
                    device,
                    "parent",
                    "1:",
                    "classid",
                    "1:1",
                    "htb",
                    *shape,
                )
        return self

    def __exit__(self, *error):
        for name in [*self.names, self.switch]:
            left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in left.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False)

    def start(self, k, words):
        """Start a command on a host."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[k], *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip


def ip(*words):
    """Run ip(8)."""
    subprocess.run(["ip", *words], check=True)


def inside(name, *words):
    """Run a command in a namespace."""
    ip("netns", "exec", name, *words)


def chain(bench):
    """Broadcast over shaped links."""
    if os.geteuid() or not shutil.which("tc"):
        print("\nchain: needs root, ip and tc; left out")
        return
    size = int(256e6 * bench.given.scale)
    wire = size * 8 / (bench.given.link * 1e6)
    sources = {
        "one file": bench.file("broadcast", size),
        "small files": bench.tree("crowd", max(1, size // 12_800), 12_800),
    }
    print(
        f"\nchain: {size / 1e6:.0f} MB over links of {bench.given.link} Mbit/s; the wire alone takes {wire:.2f} s (S/B)"
    )
    print(f"{'way':<34}{'N':>3}{'seconds':>9}{'x S/B':>7}  remark")
    for count in bench.given.nodes:
        with Hosts(count, bench.given.link) as hosts:
            for what, source in sources.items():
                row(bench, hosts, f"dlrun, {what}", source, wire)
            if count > 2:
                row(
                    bench,
                    hosts,
                    "dlrun, one file, a node killed",
                    sources["one file"],
                    wire,
                    victim=count // 2,
                )
            if installed("rsync"):
                pulls(bench, hosts, sources["one file"], wire)


def row(bench, hosts, label, source, wire, victim=None):
    """One broadcast by dlrun; the head is the host that sees the source."""
    shutil.rmtree(bench.root / "nodes", ignore_errors=True)
    (bench.root / "hosts").write_text("".join(f"{a}\n" for a in hosts.addresses))
    secret = bench.root / "secret"
    secret.write_text(os.urandom(32).hex())
    secret.chmod(0o600)
    running = []
    for k in range(len(hosts.names)):
        words = bench.node(
            "stage", "--source", source, "--to", bench.root / "nodes" / str(k), "--name", "set", "--hosts", bench.root / "hosts",
            "--index", k, "--port", 29411, "--secret", secret, "--json", "--lanes", 1, "--dead-after", "20s",
        )  # fmt: skip
        running.append(hosts.start(k, words))
    if victim is not None:
        time.sleep(wire / 2)
        os.killpg(running[victim].pid, signal.SIGKILL)
    done, cpu = {}, 0.0
    for k, process in enumerate(running):
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if k != victim:
            assert status == 0, process.stderr.read()
            done[k] = json.loads(out.splitlines()[-1])
        if k == 1:
            cpu = usage.ru_utime + usage.ru_stime
    # The copying itself, without the start of a program on every host of one small machine.
    taken = max(one[3] for one in done[0]["reports"] if one[0] != victim)
    total = done[0]["bytes"]
    remark = f"source read {sum(one['read'] for one in done.values()) / total:.2f} x, a relay {cpu / total * 1e9:.1f} CPU s/GB"
    print(f"{label:<34}{len(hosts.names) - 1:>3}{taken:>9.2f}{taken / wire:>7.2f}  {remark}", flush=True)


def pulls(bench, hosts, source, wire):
    """N rsync clients at one server."""
    config = bench.root / "rsyncd.conf"
    config.write_text(f"use chroot = no\nuid = 0\n[set]\npath = {source}\n")
    server = hosts.start(0, ["rsync", "--daemon", "--no-detach", f"--config={config}"])
    time.sleep(0.5)
    began = time.perf_counter()
    clients = []
    for k in range(1, len(hosts.names)):
        target = bench.root / "pulled" / str(k)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        clients.append(hosts.start(k, ["rsync", "-aW", f"rsync://{hosts.addresses[0]}/set/", f"{target}/"]))
    for client in clients:
        _, complaint = client.communicate()
        assert client.returncode == 0, complaint
    taken = time.perf_counter() - began
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    print(f"{'rsync, each node by itself':<34}{len(clients):>3}{taken:>9.2f}{taken / wire:>7.2f}", flush=True)


def model(_bench):
    """The cost model for many nodes."""
    print("\nmodel (computed): 150 GB over links of 10 Gbit/s, seconds")
    print(f"{'nodes':>6}{'chain':>9}{'tree':>9}{'each by itself':>16}")
    for count in (64, 256, 1024, 4096):
        times = [modelled(shape, count, 150e9, 1.25e9) for shape in ("chain", "tree", "alone")]
        print(f"{count:>6}{times[0]:>9.0f}{times[1]:>9.0f}{times[2]:>16,.0f}")


PARTS = {"large": large, "small": small, "warm": warm, "reads": reads, "chain": chain, "model": model}


def main():
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--dir", help="where to work; a disk like the nodes' own")
    parser.add_argument("--link", type=int, default=400, metavar="MBIT", help="rate of every link in `chain`")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="hosts in `chain` besides the head"
    )
    given = parser.parse_args()
    wanted = given.only.split(",")
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        parser.error(f"no part `{unknown[0]}`; there are {', '.join(PARTS)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces and files are removed
    bench = Bench(given)
    try:
        for name in wanted:
            PARTS[name](bench)
    finally:
        shutil.rmtree(bench.root, ignore_errors=True)


if __name__ == "__main__":
    main()
