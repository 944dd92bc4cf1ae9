"""`node.pyz` and `usage.pyz`, kept in the user's cache: to compile all node programs takes longer than the rest of a dry run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dlrun import __version__, resources
from dlrun.effects.jobs import cache
from dlrun.node import bundle


def content() -> bytes:
    """The bytes of `node.pyz`; made again if a source, dlrun or Python has changed since they were kept."""
    return _kept("", "node", lambda programs: bundle.archive(programs, bundle.PACKAGE))


def sampler() -> bytes:
    """The bytes of `usage.pyz`, likewise."""
    return _kept(bundle.SAMPLER, "usage", lambda programs: bundle.alone(programs, "dlrun_usage"))


def _kept(part: str, name: str, make: Callable[[dict[str, bytes]], bytes]) -> bytes:
    origin = sha256(repr(_marks(part)).encode()).digest()  # to read all takes three times as many calls
    path = cache.place(name, (__version__, sys.version))
    kept = cache.read(path) or b""
    if kept.startswith(origin):
        return kept[len(origin) :]
    made = make(_sources(part))
    cache.write(path, origin + made)
    return made


def _marks(part: str) -> object:
    """What changes if a source does."""
    whole = resources.archive()
    if whole is None:
        return bundle.marks(part)
    seen = whole.stat()
    return (seen.st_size, seen.st_mtime_ns)


def _sources(part: str) -> dict[str, bytes]:
    """The node programs of that part by path below its directory."""
    if resources.archive() is None:
        return bundle.sources(part)
    inside = resources.below(Path(bundle.__file__).parent / part)
    other = () if part else (f"{bundle.SAMPLER}/",)
    return {n: text for n, text in sorted(inside.items()) if n.endswith(".py") and not n.startswith(other)}
