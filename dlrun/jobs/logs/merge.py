"""Merge several logs by the timestamps of their lines.

A line without a timestamp stays after the previous line of its log; those at the beginning come before the first timestamp.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

from dlrun.jobs.logs import files as log_files
from dlrun.jobs.logs.files import Log

_SHOWN = 120
"""Bytes at the beginning of a line that are searched for its timestamp."""
_ISO = re.compile(
    rb"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:\s?(Z|[+-]\d\d:?\d\d))?"
)
_GLOG = re.compile(rb"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})")
_EPOCH = re.compile(rb"^\[(1\d{9}\.\d+)\]")
_CLOCK = re.compile(rb"(?:^|[\s\[])(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?=[\s\]]|$)")


def time_of(line: bytes, written: datetime) -> float | None:
    """The timestamp of a line in seconds since 1970, or None.

    written: time of the file's last change, for the missing year (glog) or day (time only), and the time zone.
    """
    # The job script repeats the last lines of a failed process with this prefix: their times are earlier ones.
    if line.startswith(b"  | "):
        return None
    head = line[:_SHOWN]
    if match := _ISO.search(head):
        return _seconds([int(part) for part in match.groups()[:6]], match[7], _zone(match[8], written))
    if match := _EPOCH.search(head):
        return float(match[1])
    if match := _GLOG.search(head):
        return _seconds([written.year, *map(int, match.groups()[:5])], match[6], written)
    if match := _CLOCK.search(head):
        day = [written.year, written.month, written.day]
        return _seconds([*day, *map(int, match.groups()[:3])], match[4], written)
    return None


def _zone(text: bytes | None, written: datetime) -> datetime:
    """A time in the named zone, else in the file's."""
    if text is None:
        return written
    if text == b"Z":
        return datetime(2000, 1, 1, tzinfo=UTC)
    sign = -1 if text[:1] == b"-" else 1
    digits = text[1:].replace(b":", b"")
    try:
        zone = timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
    except ValueError:  # more than 24 hours
        return written
    return datetime(2000, 1, 1, tzinfo=zone)


def _seconds(parts: Sequence[int], fraction: bytes | None, zone: datetime) -> float | None:
    try:
        whole = datetime(*parts[:6], tzinfo=zone.tzinfo)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    return whole.timestamp() + (float(b"0." + fraction) if fraction else 0.0)


def merged(logs: Sequence[Log]) -> Iterator[tuple[Log, bytes]]:
    """Yield the lines of all logs by timestamp; equal ones in the order of `logs`."""
    for _, index, _, line in heapq.merge(*[_timed(log, index) for index, log in enumerate(logs)]):
        yield logs[index], line


def without_times(logs: Sequence[Log]) -> list[Log]:
    """The logs without any timestamp; `merged` yields them first."""
    return [log for log in logs if next((at for at, *_ in _timed(log, 0)), 0.0) == float("-inf")]


def _timed(log: Log, index: int) -> Iterator[tuple[float, int, int, bytes]]:
    try:
        written = datetime.fromtimestamp(log.path.stat().st_mtime).astimezone()
    except OSError:
        return
    with suppress(FileNotFoundError):
        waiting: list[bytes] = []
        at: float | None = None
        number = 0
        for line in log_files.lines(log):
            whole = line if line.endswith(b"\n") else line + b"\n"
            timestamp = time_of(whole, written)
            # The order of a log is kept, also where its times decrease.
            if timestamp is not None:
                at = max(timestamp, at) if at is not None else timestamp
            if at is None:
                waiting.append(whole)
                continue
            for held in (*waiting, whole):
                yield at, index, number, held
                number += 1
            waiting = []
        for held in waiting:
            yield float("-inf"), index, number, held
            number += 1
