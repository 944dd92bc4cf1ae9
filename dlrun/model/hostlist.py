"""Folded host lists (`n[01-03,7],login1`), in the order written: the first host is rank 0's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

from dlrun.model.text import lazy_pattern

_RANGE = lazy_pattern(r"([0-9]{1,18})(?:-([0-9]{1,18}))?(?:/([0-9]{1,18}))?")
_NUMBERED = lazy_pattern(r"(.*?)(\d+)(\D*)")
_LIMIT = 1_000_000


def expand(text: str) -> tuple[str, ...]:
    """The hosts of a folded list, in order; supports several brackets, zero padding and `/step`.

    Raises ValueError for unbalanced brackets and invalid ranges.
    """
    hosts: list[str] = []
    for word in _split(text):
        pieces = re.split(r"\[([^\[\]]*)\]", word)
        if any("[" in piece or "]" in piece for piece in pieces[::2]):
            raise ValueError(f"unbalanced brackets in host list `{text}`")
        count, choices = 1, []
        for i, piece in enumerate(pieces):
            choices.append((piece,) if i % 2 == 0 else _numbers(piece))
            count *= len(choices[-1])
            # Checked before the product is built, which may be larger than memory.
            if len(hosts) + count > _LIMIT:
                raise ValueError(f"host list `{text[:40]}` names more than {_LIMIT} hosts")
        hosts += map("".join, product(*choices))
    return tuple(hosts)


def fold(hosts: Iterable[str]) -> str:
    """The shortest bracket form that expands to the same hosts in the same order."""
    groups: list[tuple[str, str, list[str]]] = []
    for host in hosts:
        match = _NUMBERED.fullmatch(host)
        prefix, number, suffix = match.groups() if match else (host, "", "")
        if groups and number and groups[-1][:2] == (prefix, suffix) and groups[-1][2][0]:
            groups[-1][2].append(number)
        else:
            groups.append((prefix, suffix, [number]))
    return ",".join(
        prefix + (numbers[0] if len(numbers) == 1 else f"[{_ranges(numbers)}]") + suffix
        for prefix, suffix, numbers in groups
    )


def _split(text: str) -> list[str]:
    words, depth, word = [], 0, ""
    for char in text.strip():
        depth += (char == "[") - (char == "]")
        if char in ", \n\t" and depth == 0:
            words.append(word)
            word = ""
        else:
            word += char
    return [w for w in (*words, word) if w]


def _numbers(text: str) -> tuple[str, ...]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError(f"`{part}` is not a range of numbers in a host list")
        first, last, step = match.groups()
        stop = int(last or first)
        more = (stop - int(first)) // max(1, int(step or 1)) + 1
        if stop < int(first) or len(numbers) + more > _LIMIT or not int(step or 1):
            raise ValueError(f"`{part[:40]}` is not a range of numbers in a host list")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), stop + 1, int(step or 1))]
    return tuple(numbers)


def _ranges(numbers: Sequence[str]) -> str:
    """`01,02,03,7` -> `01-03,7`; the numbers of a range have the same width unless they are unpadded (`9,10`)."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs:
            last = runs[-1][-1]
            # Expansion pads to the width of the first number: `08,09` is a range, `8,09` is not.
            follows = number == str(int(last) + 1).zfill(len(runs[-1][0]))
            if follows:
                runs[-1].append(number)
                continue
        runs.append([number])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
