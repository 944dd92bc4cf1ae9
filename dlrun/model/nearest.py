"""The name that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SLIP = 0.8
"""How like a name is that is but a slip of the finger away: a letter too many, too few, wrong or moved."""

RELATED = 0.75
"""How like a name counts that has a word in common; with a higher threshold only typing errors match."""

_SHORT = 3  # letters that a word must have to be compared
_INSIDE = 4  # letters that a part of a word must have


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like this one, if any is; `cutoff` is how like, from 0 to 1.

    First what is but a slip away, then what has its words (`threads`: `threads_per_core`) or begins as it does
    (`mem`: `memory`), then what merely has many letters in common. `-` and `_`, small and large letters are the same.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only where somebody has mistyped

    plain, others = _plain(name), {_plain(other): other for other in known}
    if slip := get_close_matches(plain, others, n=1, cutoff=max(cutoff, SLIP)):
        return others[slip[0]]
    if cutoff <= RELATED and (related := _related(plain, others)):
        return others[related]
    near = get_close_matches(plain, others, n=1, cutoff=cutoff)
    return others[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").strip("_")


def _related(name: str, others: Mapping[str, str]) -> str | None:
    """The other name that has most in common with this one by its words; of several the one of about its length."""
    found = [
        (strength, -abs(len(other) - len(name)), other)
        for other in others
        if (strength := _in_common(name, other))
    ]
    return max(found)[2] if found else None


def _in_common(one: str, other: str) -> int:
    """Above 2 how many words, if all of the one are in the other; 2 if it begins like that, 1 if it is in it, else 0."""
    short, long = sorted((one, other), key=len)
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
