"""The name that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most like this one, if any is; `cutoff` is how like, from 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where somebody has mistyped

    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return near[0] if near else None
