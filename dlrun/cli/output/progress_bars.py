"""Progress bars on a terminal: of staged data, and of countable work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from dlrun.cli.output.terminal import Plain, console
from dlrun.model.text import visible
from dlrun.model.units import Bytes


class StagingBar:
    """Progress of the copy of data sets, drawn on stderr from the events of the node program."""

    def __init__(self) -> None:
        self._console = console(sys.stderr)
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._slow = ""

    def event(self, event: Mapping[str, Any]) -> None:
        """Draw a `progress` event. The bar appears with the first one, so a short copy has no bar.

        The slowest node is shown beside the rate: that of a `slow` event, else the last one of a `progress` event.
        """
        if event["event"] == "slow":
            self._slow = visible(f"{event['host']} is slow, {Bytes(event['rate'])}/s")
        if event["event"] != "progress":
            return
        if self._progress is None:
            columns = (
                TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(), DownloadColumn(),
                TextColumn("{task.fields[files]}"), TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[slowest]}"),
            )  # fmt: skip
            self._progress = Progress(*columns, console=self._console, transient=True, expand=True)
            self._progress.start()
        name = event["name"]
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(visible(name), files="", rate="", slowest="")
        self._progress.update(
            self._tasks[name], total=event["bytes"], completed=event["bytes_done"], rate=f"{Bytes(event['rate'])}/s",
            files=f"{event['files_done']:,}/{event['files']:,} files", slowest=self._slowest(event),
        )  # fmt: skip

    def _slowest(self, event: Mapping[str, Any]) -> str:
        """The slow node, else the node with the least data if there are several."""
        last = event.get("last")
        return self._slow or (visible(f"last: {last['host']}, {Bytes(last['bytes_done'])}") if last else "")

    def message(self, line: str) -> None:
        """Print a message above the bar."""
        self._console.print(Plain(line), soft_wrap=True)

    def close(self) -> None:
        """Remove the bar; messages report what was copied."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        self._tasks.clear()


class CountBar:
    """Progress of work in steps, drawn on stderr; work of a single step has no bar."""

    def __init__(self, title: str, *, size: bool = False) -> None:
        self._title = title
        self._console = console(sys.stderr)
        count = DownloadColumn() if size else MofNCompleteColumn()
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), count, TimeRemainingColumn(compact=True),
            console=self._console, transient=True, expand=True,
        )  # fmt: skip
        self._task: TaskID | None = None

    def step(self, done: int, total: int) -> None:
        """Report `done` of `total` steps."""
        if self._task is None:
            if done >= total:
                return
            self._progress.start()
            self._task = self._progress.add_task(visible(self._title), total=total)
        self._progress.update(self._task, completed=done, total=total)

    def message(self, line: str) -> None:
        """Print a message above the bar."""
        self._console.print(Plain(line), soft_wrap=True)

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()
