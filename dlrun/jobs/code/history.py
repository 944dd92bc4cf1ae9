"""What the starts of a job have found changed since its submission, and the commit that was recorded then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from dlrun.jobs.code.names import RECORD
from dlrun.jobs.records import plans
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import MOST, read_json
from dlrun.model.record import record
from dlrun.model.text import digits
from dlrun.model.units import many
from dlrun.system.paths import text_of

STARTS = "code-starts"
"""In a run's directory: what each of its starts has found (`_dlrun_record_code` in templates/lib/code.sh)."""
_PLACES = 3
"""Places of changes that are named."""


@record(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a run. restart: 0 for the first; when: seconds since 1970; compared: False if the files could not be read;
    changed: (path, digest) of each changed file, with the digest `-` if it is gone; count: number of changed files.
    """

    restart: int
    when: int
    compared: bool
    count: int
    changed: tuple[tuple[str, str], ...]


def starts(run: Path) -> list[Start]:
    """The starts of a run, in order; lines that dlrun does not write are skipped."""
    entries: list[tuple[tuple[int, ...], list[tuple[str, str]]]] = []
    for line in text_of(run / STARTS, MOST, "surrogateescape").splitlines():
        words = line.split(" ")
        if words[0] == "start" and len(words) == 5 and all(map(digits, words[1:])):
            entries.append((tuple(map(int, words[1:])), []))
        elif entries and len(words) > 1:
            entries[-1][1].append((line.partition(" ")[2], words[0]))
    return [
        Start(
            restart=restart, when=when, compared=code == 0 or count > 0, count=count, changed=tuple(changed)
        )
        for (restart, when, code, count), changed in entries
    ]


class History:
    """The code of one job: the record of its submission, and what its starts have found, each read once, when it is needed."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record of the submission, with the digest of an image that the job has pulled; empty if the job has none."""
        return plans.in_record(read_json(self.job.directory / RECORD) or {}, self.job.directory)

    @cached_property
    def commit(self) -> str | None:
        """The commit in seven digits, with `-dirty` if files differed from it, `-unchecked` if git did not say; None without."""
        repository = self.record.get("repository")
        if not isinstance(repository, dict) or not isinstance(repository.get("commit"), str):
            return None
        differs = repository.get("dirty", False)
        return str(repository["commit"])[:7] + (
            "-unchecked" if differs is None else "-dirty" if differs else ""
        )

    def commit_of_run(self, run: Path) -> str | None:
        """The commit of one run, with `-changed` if its last start found changes since the submission."""
        if self.commit is None:
            return None
        its = starts(run)
        return f"{self.commit}-changed" if its and its[-1].count else self.commit

    @cached_property
    def changes(self) -> str | None:
        """What changed since the submission, in words, and between which starts; None if nothing is known to have changed."""
        order = sorted(
            (
                (start.when, point, start)
                for point, run in enumerate(self.job.run_directories())
                for start in starts(run)
            ),
            key=lambda entry: entry[:2],
        )
        names: dict[str, None] = {}
        most, places, before = 0, [], None
        seen: tuple[tuple[str, str], ...] = ()
        for _, point, start in order:
            if start.compared and start.changed != seen:
                names |= dict.fromkeys(path for path, _ in start.changed)
                places.append(_place(self.job, before, (point, start)))
                seen = start.changed
            most = max(most, start.count)
            before = (point, start)
        if not names:
            return None
        more = max(most, len(names)) - 1
        where = f", {' and '.join(places[:_PLACES])}" + (", …" if len(places) > _PLACES else "")
        first = self._shown(next(iter(names)))
        return f"{first}{f' and {more} more' if more else ''} changed since the submission{where}"

    def _shown(self, path: str) -> str:
        """A path as the user names it: relative to the working directory, if it is below."""
        with suppress(ValueError):
            if (directory := self.record.get("directory")) and path.startswith("/"):
                short = os.path.relpath(path, str(directory))
                return path if short.startswith("..") else short
        return path

    def facts(self) -> Iterator[tuple[str, str]]:
        """Names and values for a page about the job: commit, files, environment, changes."""
        recorded = self.record
        repository, environment = recorded.get("repository") or {}, recorded.get("environment") or {}
        if self.commit is not None:
            of = ", ".join(str(repository[key]) for key in ("branch", "remote") if repository.get(key))
            yield "commit", f"{self.commit} ({of})" if of else self.commit
        if recorded.get("files"):
            part = f", recorded in part: {recorded['incomplete']}" if recorded.get("incomplete") else ""
            yield (
                "code",
                f"{many(int(recorded['files']), 'file')}, digest {str(recorded.get('digest'))[:12]}{part}",
            )
        packages = environment.get("distributions") or {}
        if environment.get("python") and environment.get("prefix"):
            yield (
                "Python",
                f"{environment['python']} in {environment['prefix']}, {many(len(packages), 'package')}",
            )
        if self.changes is not None:
            yield "changed", self.changes


def _place(job: Job, before: tuple[int, Start] | None, now: tuple[int, Start]) -> str:
    """Between which starts a change was made."""
    if before is None:
        return "before the first start"
    if before[0] != now[0] and job.array is not None:
        return f"between points {before[0]} and {now[0]}"
    of_point = f" of point {now[0]}" if job.array is not None else ""
    return f"between runs {before[1].restart + 1} and {now[1].restart + 1}{of_point}"
