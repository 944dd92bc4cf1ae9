"""Several nodes: broadcast over limited links, the cost of a relay, and the model for many nodes."""

import contextlib
import json
import os
import signal
import time

from dlrun.node.relay.shapes import HOP

from . import sbcast
from .bench import installed
from .hosts import Hosts, usable

TCP = 1.045  # bytes on the wire per byte of data, with the headers of TCP and IP


class Cast:
    """One broadcast by dlrun; the head is the host that sees the source.

    `victim` is killed half-way; the nodes `slow` are left out of the time taken.
    """

    def __init__(self, bench, hosts, source, wire=0.0, victim=None, slow=()):
        bench.disk.renew()
        (bench.root / "hosts").write_text("".join(f"{a}\n" for a in hosts.addresses))
        secret = bench.root / "secret"
        secret.write_text(os.urandom(32).hex())
        secret.chmod(0o600)
        running = []
        for k in range(len(hosts.names)):
            words = bench.node(
                "stage", "--source", source, "--to", bench.target / "nodes" / str(k), "--name", "set", "--hosts",
                bench.root / "hosts", "--index", k, "--port", 29411, "--secret", secret, "--json", "--workers", 1,
                "--dead-after", "20s", "--shape", "chain",
            )  # fmt: skip
            running.append(hosts.start(k, words))
        if victim is not None:
            time.sleep(wire / 2)
            os.killpg(running[victim].pid, signal.SIGKILL)
        done, self.cpu, whole, self.named = {}, 0.0, 0.0, set()
        for k, process in enumerate(running):
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            if k != victim:
                if status:
                    raise SystemExit(process.stderr.read())
                said = [json.loads(line) for line in out.splitlines()]
                done[k] = said[-1]
                self.named |= {one["host"] for one in said if one.get("event") == "slow"}
            whole += usage.ru_utime + usage.ru_stime
            if k == 1:
                self.cpu = usage.ru_utime + usage.ru_stime
        self.bytes = done[0]["bytes"]
        # The copy only, without the start of a program on every host of this one machine.
        times = {one[0]: one[3] for one in done[0]["reports"]}
        self.taken = max(taken for node, taken in times.items() if node != victim and node not in slow)
        # All hosts share this machine: near 1 the limit is its cores, not the links. Includes the start of the programs.
        self.busy = whole / self.taken / (os.cpu_count() or 1)
        self.slow = max((times[node] for node in slow), default=0.0)
        self.read = sum(one["read"] for one in done.values()) / self.bytes


def chain(bench):
    """Broadcast over limited links."""
    if not usable():
        print("\nchain: needs root, ip and tc; left out")
        return
    given = bench.given
    size = int(256e6 * given.scale)
    wire = size * 8 / (given.link * 1e6)
    one = bench.file("broadcast", size)
    crowd = bench.tree("crowd", max(1, size // 12_800), 12_800)
    kinds = {"one": ("dlrun, one file", one), "small": (f"dlrun, {size // 12_800:,} files", crowd)}
    print(
        f"\nchain: {size / 1e6:.0f} MB over links of {given.link} Mbit/s; S/B, the wire alone, is {wire:.2f} s\n"
    )
    print(
        "| way | nodes | seconds | times S/B | source read | CPU of all, of the cores' |\n|---|---|---|---|---|---|"
    )
    for count in given.nodes:
        with Hosts(count, given.link) as hosts:
            for kind, (label, source) in kinds.items():
                if kind in given.kinds:
                    cast = Cast(bench, hosts, source)
                    row(label, count, cast.taken, wire, f"{cast.read:.3f} times", f"{cast.busy:.2f}")
                    if kind == "one":
                        bench.measured.append((count, cast.taken / wire, wire))
            if count > 2 and "killed" in given.kinds:
                cast = Cast(bench, hosts, one, wire, victim=count // 2)
                row(
                    "dlrun, one file, a node killed half-way",
                    count,
                    cast.taken,
                    wire,
                    f"{cast.read:.3f} times",
                )
            if installed("rsync") and "rsync" in given.kinds:
                row("rsync, each node by itself", count, pulls(bench, hosts, one), wire, f"{count} times")
        if count > 2 and "slow" in given.kinds:
            for slow in sorted({1, count // 2, count}):
                slow_nodes(bench, count, (slow,), one, wire)
        if count > 4 and "two" in given.kinds:
            for slow in ((1, 2), (3, 4), (count - 1, count), (1, count - 3), (2, count - 2)):
                slow_nodes(bench, count, slow, one, wire)
        if "sbcast" in given.kinds:
            taken = sbcast.seconds(one / "large", count, given.link)
            if taken is not None:
                row("sbcast of Slurm", count, taken, wire, "1 times")


def slow_nodes(bench, count, slow, source, wire):
    """Some nodes have a quarter of the rate: the time until the others have everything, and until they have."""
    with Hosts(count, bench.given.link, dict.fromkeys(slow, bench.given.link // 4)) as hosts:
        cast = Cast(bench, hosts, source, slow=slow)
        right = cast.named == {hosts.addresses[node] for node in slow}
    named = "reported" if right else f"reported: {', '.join(sorted(cast.named)) or 'none'}"
    label = f"dlrun, one file, node {' and '.join(map(str, slow))} at a quarter of the rate ({named})"
    row(f"{label}: the others", count, cast.taken, wire, f"{cast.read:.3f} times")
    row(f"{label}: the slow", count, cast.slow, wire, "")


def row(label, count, taken, wire, read, busy=""):
    """One row of the table."""
    print(f"| {label} | {count} | {taken:.2f} | {taken / wire:.2f} | {read} | {busy} |", flush=True)


def pulls(bench, hosts, source):
    """The seconds of N rsync clients of one server."""
    config = bench.root / "rsyncd.conf"
    config.write_text(f"use chroot = no\nuid = 0\n[set]\npath = {source}\n")
    bench.disk.renew()
    server = hosts.start(0, ["rsync", "--daemon", "--no-detach", f"--config={config}"])
    time.sleep(0.5)
    began = time.perf_counter()
    clients = []
    for k in range(1, len(hosts.names)):
        target = bench.target / "pulled" / str(k)
        target.mkdir(parents=True)
        clients.append(hosts.start(k, ["rsync", "-aW", f"rsync://{hosts.addresses[0]}/set/", f"{target}/"]))
    for client in clients:
        _, complaint = client.communicate()
        if client.returncode:
            raise SystemExit(complaint)
    taken = time.perf_counter() - began
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    return taken


def relay(bench):
    """The CPU time of a node in the middle of a chain, over links without a limit."""
    if not usable():
        print("\nrelay: needs root, ip and tc; left out")
        return
    size = int(1e9 * bench.given.scale)
    small = bench.file("calm", 16 << 20)
    print("\nrelay: the node in the middle of three, which writes what it passes on; without its start\n")
    print("| source | CPU s per GB | Gbit/s that one core carries |\n|---|---|---|")
    with Hosts(2, 0) as hosts:
        fixed = min((Cast(bench, hosts, small) for _ in range(2)), key=lambda cast: cast.cpu)
        for label, source in (
            ("one file", bench.file("stream", size)),
            ("small files", bench.tree("many", size // 33_000, 33_000)),
        ):
            cast = min((Cast(bench, hosts, source) for _ in range(2)), key=lambda cast: cast.cpu)
            cost = (cast.cpu - fixed.cpu) / (cast.bytes - fixed.bytes) * 1e9
            print(f"| {label} | {cost:.2f} | {8 / cost:.1f} |", flush=True)


def model(bench):
    """The cost model for many nodes."""
    part, hop, how = TCP, HOP, "TCP's own part and the hop of `dlrun.node.relay.shapes`"
    if len({count for count, _, _ in bench.measured}) > 1:
        part, hop = fit(bench.measured)
        how = "fitted to the rows of one file above"
    print(f"\nmodel, computed and not measured: {part:.3f} S/B and {hop * 1000:.1f} ms a hop, {how}")
    print(
        "150 GB over links of 10 Gbit/s, seconds\n\n| nodes | chain | tree | each by itself |\n|---|---|---|---|"
    )
    wire = part * 150e9 / 1.25e9
    for count in (64, 256, 1024, 4096):
        tree = 2 * wire + (count.bit_length() - 1) * hop
        print(f"| {count:,} | {wire + (count - 1) * hop:,.0f} | {tree:,.0f} | {count * wire:,.0f} |")


def fit(measured):
    """The factor of S/B and the seconds per hop that fit rows of (nodes, times S/B, S/B), by least squares."""
    xs = [count - 1 for count, _, _ in measured]
    ys = [times * wire for _, times, wire in measured]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - middle) ** 2 for x in xs
    )
    return (height - slope * middle) / measured[0][2], max(0.0, slope)
