"""`dlrun top` on a terminal: the whole screen, redrawn at each look, and keys."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live as Drawing
from rich.table import Table

from dlrun.cli.output.live_text import headline
from dlrun.cli.output.terminal import Plain, console
from dlrun.effects.usage.live import Live, LiveRank, Watch, last_line, tail
from dlrun.effects.usage.words import bits, size

_ORDER = {"r": "rank", "c": "cores", "m": "memory", "g": "busy"}
_BAR = 10
_KEYS = "r c m g: order   ↑ ↓: choose   Enter: its log   q: quit"


class Screen:
    """One job on the screen."""

    def __init__(self, watch: Watch, every: float) -> None:
        self._watch, self._every = watch, every
        self._by = "rank"
        self._at = 0
        self._log = False

    def run(self) -> None:
        """Until `q` or Ctrl-C; a job that has ended stays on the screen."""
        out = console(sys.stdout)
        live = self._watch.look()
        with _keys(), Drawing(self._draw(live), console=out, screen=True, auto_refresh=False) as drawing:
            due = time.monotonic() + self._every
            while (key := _key(max(0.0, due - time.monotonic()))) != "q":
                self._press(key, len(live.ranks))
                if time.monotonic() >= due:
                    live = self._watch.look()
                    due = time.monotonic() + self._every
                drawing.update(self._draw(live), refresh=True)
        out.print(Plain(headline(live)))

    def _press(self, key: str, count: int) -> None:
        if key in _ORDER:
            self._by = _ORDER[key]
        elif key == "up":
            self._at = max(0, self._at - 1)
        elif key == "down":
            self._at = min(max(0, count - 1), self._at + 1)
        elif key == "enter":
            self._log = not self._log

    def _draw(self, live: Live) -> Group:
        height = os.get_terminal_size(sys.stdout.fileno()).lines
        ranks = sorted(live.ranks, key=self._key, reverse=self._by != "rank")
        self._at = min(self._at, max(0, len(ranks) - 1))
        parts: list[Plain | Table] = [
            Plain(f"{self._watch.job.directory.name}: {headline(live)}", style="bold")
        ]
        for node in live.nodes[: max(1, height // 4)]:
            share = (node.memory or 0.0) / node.limit if node.limit else 0.0
            text = f"{node.node:<12} memory {_bar(share)} {size(node.memory)} of {size(node.limit)}"
            late = (
                f"   no sample for {node.age:.0f} s" if node.age > 90 and not live.status.state.final else ""
            )
            parts.append(Plain(f"{text}   {node.interface or 'network'} {bits(node.network)}{late}"))
        room = max(3, height - len(parts) - 4)
        parts.append(self._log_of(ranks[self._at], room) if self._log and ranks else self._table(ranks, room))
        if not ranks:
            parts.append(Plain("no samples yet: the ranks have not started, or `usage: false`"))
        parts.append(Plain(self._watch.trouble or _KEYS, style="dim"))
        return Group(*parts)

    def _key(self, rank: LiveRank) -> tuple[float, str, int]:
        role, _, number = rank.rank.rpartition("-")
        value = {"cores": rank.cores, "memory": rank.memory, "busy": rank.busy or 0.0}.get(self._by, 0.0)
        return value, role, int(number) if number.isdigit() else 0

    def _table(self, ranks: list[LiveRank], room: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        for title in ("RANK", "NODE", "CORES", "MEMORY", "PEAK", "READ/s", "WRITE/s", "GPU"):
            table.add_column(title, justify="left" if title in ("RANK", "NODE") else "right", no_wrap=True)
        table.add_column("LAST LINE", no_wrap=True, overflow="ellipsis", ratio=1)
        first = max(0, min(self._at - room // 2, len(ranks) - room))
        for place, one in enumerate(ranks[first : first + room], first):
            gpu = "-" if one.busy is None else f"{one.gpus}: {one.busy:.0f} %"
            cells = (
                one.rank, one.node, f"{one.cores:.2f}", size(one.memory), size(one.peak), size(one.read), size(one.written), gpu,
            )  # fmt: skip
            table.add_row(*map(Plain, cells), Plain(one.line), style="reverse" if place == self._at else "")
        return table

    def _log_of(self, rank: LiveRank, room: int) -> Plain:
        run = self._watch.run
        shown = tail(run / "logs" / f"{rank.rank}.log") or [last_line(run, rank.rank)]
        lines = [line.expandtabs() for line in shown[-room:]]
        return Plain("\n".join([f"{rank.rank} on {rank.node}", *lines]))


def _bar(share: float) -> str:
    full = max(0, min(_BAR, round(_BAR * share)))
    return "█" * full + "░" * (_BAR - full)


@contextmanager
def _keys() -> Iterator[None]:
    """Have each key at once, without an echo, and the terminal afterwards as it was."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(within: float) -> str:
    """The next key, by name; empty if none is pressed so long."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], within)[0]:
        return ""
    pressed = os.read(descriptor, 16)
    if not pressed:  # the terminal is gone
        return "q"
    return {
        b"\x1b[A": "up",
        b"\x1b[B": "down",
        b"\x1bOA": "up",
        b"\x1bOB": "down",
        b"\r": "enter",
        b"\n": "enter",
    }.get(pressed, pressed[:1].decode("ascii", "replace").lower())
