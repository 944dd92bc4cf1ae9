"""Format names, sizes and times for messages: unprintable bytes escaped, units chosen, always one line."""

from typing import List, Sequence

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def name(raw: bytes) -> str:
    r"""A file name as printable UTF-8 on one line; other bytes as `\xNN` or `\n`."""
    shown = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def names(raw: Sequence[bytes], limit: int = 5) -> str:
    """The first names of a list in back quotes, and the number of the others."""
    parts: List[str] = ["`{}`".format(name(path)) for path in raw[:limit]]
    if len(raw) > limit:
        parts.append("{} more".format(len(raw) - limit))
    return ", ".join(parts)


def size(count: float) -> str:
    """Bytes in decimal units with three significant digits: 1.65 GB."""
    unit = 0
    # The bounds are those of rounding: 999.5 would be printed as 1000, 99.95 as 100.0.
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count /= 1000.0
        unit += 1
    if unit == 0:
        return "{:.0f} B".format(count)
    return "{:.{}f} {}".format(count, 0 if count >= 99.95 else 1 if count >= 9.995 else 2, _UNITS[unit])


def seconds(value: float) -> str:
    """A span of time: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if value < 9.95:
        return "{:.1f} s".format(value)
    whole = int(value + 0.5)
    if whole < 60:
        return "{} s".format(whole)
    if whole < 3600:
        return "{} min {} s".format(whole // 60, whole % 60)
    return "{} h {} min".format(whole // 3600, whole % 3600 // 60)


def count(number: int, noun: str) -> str:
    """`1 file`, `50,000 files`."""
    return "{:,} {}{}".format(number, noun, "" if number == 1 else "s")
