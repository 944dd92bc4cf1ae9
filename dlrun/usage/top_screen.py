"""`dlrun usage --live` on a terminal: the whole screen, redrawn at each update, and its keys."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live as Drawing
from rich.table import Table

from dlrun.jobs.clusters.reasons import in_words
from dlrun.terminal.drawing import Plain, console
from dlrun.usage.formats import bits, clock, meter, size
from dlrun.usage.live import Live, LiveRank, Watch, log_of
from dlrun.usage.summary import order

if TYPE_CHECKING:
    from dlrun.usage.live import Live, LiveRank

_ORDER = {"r": "rank", "c": "cores", "m": "memory", "g": "busy"}
_NAMES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
}
_SEQUENCE = re.compile(rb"\x1b\[[0-9;]*[@-~]|\x1bO.|.", re.DOTALL)
_METER = 10
"""Columns of a bar."""
_KEYS = "r c m g: order (by {})   ↑ ↓: choose   Enter: {}   q: quit"


class Screen:
    """The screen of `dlrun usage --live` for one job: a table of ranks, or the log of one rank."""

    def __init__(self, watch: Watch, every: float) -> None:
        self._watch, self._every = watch, every
        self._by = "rank"
        # By name, because the order changes from update to update.
        self._chosen = ""
        self._names: list[str] = []
        self._log = False

    def run(self) -> None:
        """Draw until `q` or Ctrl-C, also after the job has ended."""
        out = console(sys.stdout)
        live = self._watch.read()
        with _keys(), Drawing(self._draw(live), console=out, screen=True, auto_refresh=False) as drawing:
            due = time.monotonic() + self._every
            while "q" not in (pressed := _pressed(max(0.0, due - time.monotonic()))):
                for key in pressed:
                    self._press(key)
                if time.monotonic() >= due:
                    live = self._watch.read()
                    due = time.monotonic() + self._every
                drawing.update(self._draw(live), refresh=True)
        out.print(Plain(headline(live)))

    def _press(self, key: str) -> None:
        if key in _ORDER:
            self._by = _ORDER[key]
        elif key in ("up", "down") and self._names:
            at = self._names.index(self._chosen) + (1 if key == "down" else -1)
            self._chosen = self._names[max(0, min(len(self._names) - 1, at))]
        elif key == "enter":
            self._log = not self._log

    def _draw(self, live: Live) -> Group:
        height = os.get_terminal_size(sys.stdout.fileno()).lines
        ranks = sorted(
            live.ranks, key=lambda rank: (self._value(rank), order(rank.rank)), reverse=self._by != "rank"
        )
        self._names = [rank.rank for rank in ranks]
        if self._names and self._chosen not in self._names:
            self._chosen = self._names[0]
        # One line each, however narrow: the number of ranks that have room is counted from them.
        parts: list[Plain | Table] = [
            Plain(f"{self._watch.job.directory.name}: {state(live)}", style="bold", no_wrap=True)
        ]
        if live.metrics:
            parts.append(
                Plain("   ".join(metrics(live)), style="bold cyan", no_wrap=True, overflow="ellipsis")
            )
        for node in live.nodes[: max(1, height // 4)]:
            share = (node.memory or 0.0) / node.limit if node.limit else 0.0
            text = f"{node.node:<12} memory {meter(share, _METER)} {size(node.memory)} of {size(node.limit)}"
            late = (
                f"   no sample for {node.age:.0f} s" if node.age > 90 and not live.status.state.final else ""
            )
            network = f"{node.interface or 'network'} {bits(node.network)}"
            parts.append(Plain(f"{text}   {network}{late}", no_wrap=True, overflow="ellipsis"))
        room = max(3, height - len(parts) - 4)
        chosen = next((rank for rank in ranks if rank.rank == self._chosen), None)
        parts.append(self._log_of(chosen, room) if self._log and chosen else self._table(ranks, room))
        if not ranks:
            parts.append(Plain("no samples yet: the ranks have not started, or `usage: false`"))
        keys = _KEYS.format(
            "GPU" if self._by == "busy" else self._by, "all ranks" if self._log else "its log"
        )
        parts.append(Plain(self._watch.trouble or keys, style="dim"))
        return Group(*parts)

    def _value(self, rank: LiveRank) -> float:
        """What ranks are sorted by."""
        return {"cores": rank.cores, "memory": rank.memory, "busy": rank.busy or 0.0}.get(self._by, 0.0)

    def _table(self, ranks: list[LiveRank], room: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        gpus = ("GPU",) if any(rank.busy is not None for rank in ranks) else ()
        for title in ("RANK", "NODE", "CORES", "MEMORY", "PEAK", "READ/s", "WRITE/s", *gpus):
            table.add_column(title, justify="left" if title in ("RANK", "NODE") else "right", no_wrap=True)
        table.add_column("LAST LINE", no_wrap=True, overflow="ellipsis", ratio=1)
        at = self._names.index(self._chosen) if self._names else 0
        first = max(0, min(at - room // 2, len(ranks) - room))
        for rank in ranks[first : first + room]:
            gpu = ("-" if rank.busy is None else f"{rank.gpus}: {rank.busy:.0f} %",) if gpus else ()
            cells = (
                rank.rank, rank.node, cores(rank), size(rank.memory), size(rank.peak), size(rank.read), size(rank.written), *gpu,
            )  # fmt: skip
            style = "reverse" if rank.rank == self._chosen else ""
            table.add_row(*map(Plain, cells), Plain(rank.line), style=style)
        return table

    def _log_of(self, rank: LiveRank, room: int) -> Plain:
        lines = [line.expandtabs() for line in log_of(self._watch.run, rank.rank)[-room:]]
        # One screen line each: wrapped lines would push the newest ones off the screen.
        text = "\n".join([f"{rank.rank} on {rank.node}", *lines])
        return Plain(text, no_wrap=True, overflow="ellipsis")


@contextmanager
def _keys() -> Iterator[None]:
    """Read keys unbuffered and without echo in the block; restores the terminal's mode afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(within: float) -> list[str]:
    """The keys pressed within some seconds, by name; empty if none was."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], within)[0]:
        return []
    content = os.read(descriptor, 256)
    return names(content) if content else ["q"]  # the terminal is gone


def names(content: bytes) -> list[str]:
    """The keys in the bytes of one read: several if they were typed quickly, or over a slow connection."""
    return [
        _NAMES.get(sequence, sequence[:1].decode("ascii", "replace").lower())
        for sequence in _SEQUENCE.findall(content)
    ]


# `dlrun usage --live` in plain text: one line for the job, one for each rank.


def headline(live: Live) -> str:
    """State, time, and the latest value of each metric."""
    return ", ".join([state(live), *metrics(live)])


def metrics(live: Live) -> list[str]:
    """The latest value of each metric, with its unit."""
    return [f"{name} {reading.value:.6g} {reading.unit}".rstrip() for name, reading in live.metrics.items()]


def state(live: Live) -> str:
    """State and time."""
    reason = (
        f" ({in_words(live.status.reason)})" if live.status.reason and not live.status.state.final else ""
    )
    running = (
        f"{'after' if live.status.state.final else 'for'} {clock(live.running)}"
        if live.running is not None
        else "not started"
    )
    return f"{live.status.state}{reason}, {running}"


def cores(rank: LiveRank) -> str:
    """`1.25 of 4`: cores in use, of those that the rank may use."""
    return f"{rank.cores:.2f}" + (f" of {rank.allowed}" if rank.allowed else "")


def lines(live: Live) -> Iterator[str]:
    """The lines of one update."""
    now = time.strftime("%H:%M:%S")
    yield f"{now} {headline(live)}"
    for node in live.nodes:
        network = f", {node.interface} {bits(node.network)}" if node.interface else ""
        yield f"{now} {node.node}: memory {size(node.memory)} of {size(node.limit)}{network}"
    for rank in live.ranks:
        gpus = f", GPU {rank.gpus} {rank.busy:.0f} %" if rank.busy is not None else ""
        yield f"{now} {rank.rank} on {rank.node}: {cores(rank)} cores, {size(rank.memory)}{gpus} | {rank.line[:120]}"
