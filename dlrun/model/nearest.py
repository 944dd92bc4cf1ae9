"""The known name nearest to a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SLIP = 0.8
"""Similarity (difflib ratio) of a name with one typing error: a letter inserted, missing, wrong or transposed."""

RELATED = 0.75
"""Similarity assigned to names with a common word; with a higher `cutoff` only typing errors match."""

_SHORT = 3
"""Minimum length of a word that is compared."""
_INSIDE = 4
"""Minimum length of a part of a word that is compared."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The most similar known name with a similarity of at least `cutoff` (0 to 1); None if there is none.

    First names with one typing error, then those with the same words (`threads`: `threads_per_core`) or beginning
    (`mem`: `memory`), then those with many common letters. Case and the difference of `-` and `_` are ignored.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only needed after a mistake

    plain, others = _plain(name), {_plain(other): other for other in known}
    if slip := get_close_matches(plain, others, n=1, cutoff=max(cutoff, SLIP)):
        return others[slip[0]]
    if cutoff <= RELATED and (related := _related(plain, others)):
        return others[related]
    near = get_close_matches(plain, others, n=1, cutoff=cutoff)
    return others[near[0]] if near else None


def one_slip(name: str, other: str) -> bool:
    """Whether two names of three or more letters differ in one letter: wrong, missing, too many or exchanged with the next."""
    if min(len(name), len(other)) < _SHORT or abs(len(name) - len(other)) > 1:
        return False
    start = next(
        (i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), min(len(name), len(other))
    )
    a, b = name[start:], other[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").strip("_")


def _related(name: str, others: Mapping[str, str]) -> str | None:
    """The name with most words in common; of several the one with the most similar length."""
    related = [
        (strength, -abs(len(other) - len(name)), other)
        for other in others
        if (strength := _in_common(name, other))
    ]
    return max(related)[2] if related else None


def _in_common(name: str, other: str) -> int:
    """Score: 2 + number of words if the longer name has all words of the shorter; 2 for a prefix, 1 for a substring."""
    short, long = sorted((name, other), key=len)
    if len(short) < _SHORT:
        return 0
    words = _words(short)
    if words <= _words(long):
        return 2 + len(words)
    if long.startswith(short):
        return 2
    return int(len(short) >= _INSIDE and short in long)


def _words(name: str) -> set[str]:
    return {word.removesuffix("s") for word in name.split("_")}
