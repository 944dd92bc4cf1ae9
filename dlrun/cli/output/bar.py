"""The progress bar of `dlrun stage-data` on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dlrun.cli.output.terminal import console
from dlrun.model.units import Bytes


class StagingBar:
    """The progress of data sets that are copied to this machine, drawn on stderr from the events of the node program."""

    def __init__(self) -> None:
        self._console = console(sys.stderr)
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        """Draw a `progress` event; the bar appears with the first, so a short copy shows none."""
        if event["event"] != "progress":
            return
        if self._progress is None:
            columns = (
                TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(), DownloadColumn(),
                TextColumn("{task.fields[files]}"), TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True),
            )  # fmt: skip
            self._progress = Progress(*columns, console=self._console, transient=True, expand=True)
            self._progress.start()
        name = event["name"]
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, files="", rate="")
        self._progress.update(
            self._tasks[name], total=event["bytes"], completed=event["bytes_done"], rate=f"{Bytes(event['rate'])}/s",
            files=f"{event['files_done']:,}/{event['files']:,} files",
        )  # fmt: skip

    def message(self, line: str) -> None:
        """Print a message above the bar."""
        self._console.print(Text(line), soft_wrap=True)

    def close(self) -> None:
        """Remove the bar; what was copied is in the messages."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        self._tasks.clear()
