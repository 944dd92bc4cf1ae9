"""Progress bars on a terminal: of staged data, and of countable work."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import RenderableType
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
from rich.table import Column

from dlrun.model.text import visible
from dlrun.node.common.text import size
from dlrun.terminal.drawing import Plain, console

ROOMY = 90
"""Columns of a terminal from which on the total number of files is shown."""

_NAME = Column(max_width=20, no_wrap=True, overflow="ellipsis")
"""The column of a data set's name, which may have 128 characters."""


class _Bars(Progress):
    """Bars with one line below them, which may take the whole width."""

    below = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars, and the line."""
        yield from super().get_renderables()
        if self.below:
            yield Plain(self.below, no_wrap=True, overflow="ellipsis")


class StagingBar:
    """Progress of the copy of data sets, drawn on stderr from the events of the node program."""

    def __init__(self) -> None:
        self._console = console(sys.stderr)
        self._progress: _Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._slow = ""

    def event(self, event: Mapping[str, Any]) -> None:
        """Draw a `progress` event. The bar appears with the first one, so a short copy has no bar.

        The slowest node is shown below the bar: that of a `slow` event, else the last one of a `progress` event.
        """
        if event["event"] == "slow":
            self._slow = visible(f"{event['host']} is slow, {size(event['rate'])}/s")
        if event["event"] != "progress":
            return
        if self._progress is None:
            columns = (
                TextColumn("{task.description}", table_column=_NAME), BarColumn(bar_width=None), TaskProgressColumn(),
                DownloadColumn(table_column=Column(no_wrap=True)), TextColumn("{task.fields[files]}"),
                TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True),
            )  # fmt: skip
            self._progress = _Bars(*columns, console=self._console, transient=True, expand=True)
            self._progress.start()
        name = event["name"]
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(visible(name), files="", rate="")
        self._progress.below = self._slowest(event)
        self._progress.update(
            self._tasks[name], total=event["bytes"], completed=event["bytes_done"], rate=f"{size(event['rate'])}/s",
            files=self._files(event),
        )  # fmt: skip

    def _files(self, event: Mapping[str, Any]) -> str:
        """The files done, with their total where there is room: rate and time are worth more."""
        total = f"/{event['files']:,}" if self._console.width >= ROOMY else ""
        return f"{event['files_done']:,}{total} files"

    def _slowest(self, event: Mapping[str, Any]) -> str:
        """The slow node, else the node with the least data if there are several."""
        last = event.get("last")
        return self._slow or (visible(f"last: {last['host']}, {size(last['bytes_done'])}") if last else "")

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
