"""`node.pyz` and `usage.py` in the user's cache: compiling all node programs takes longer than the rest of a dry run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dlrun import __version__, resources
from dlrun.jobs.submission import cache
from dlrun.node import bundle


def content() -> bytes:
    """The bytes of `node.pyz`, cached until a source, dlrun or Python changes."""
    return _cached("", "node", lambda programs: bundle.archive(programs, bundle.PACKAGE))


def sampler() -> bytes:
    """The bytes of `usage.py`, cached likewise."""
    return _cached(bundle.SAMPLER, "usage", lambda programs: bundle.single_file(programs, "dlrun_usage"))


def _cached(part: str, name: str, make: Callable[[dict[str, bytes]], bytes]) -> bytes:
    # Sizes and times instead of a hash of all sources: reading them would take three times as many system calls.
    origin = sha256(repr(_marks(part)).encode()).digest()
    path = cache.path_of(name, (__version__, sys.version))
    cached = cache.read(path) or b""
    if cached.startswith(origin):
        return cached[len(origin) :]
    made = make(_sources(part))
    cache.write(path, origin + made)
    return made


def _marks(part: str) -> object:
    """A value that changes with the sources: their sizes and times."""
    whole = resources.archive()
    if whole is None:
        maker = Path(bundle.__file__).stat()  # also the form of the file
        return (*bundle.sizes_and_times(part), (maker.st_size, maker.st_mtime_ns))
    seen = whole.stat()
    return (seen.st_size, seen.st_mtime_ns)


def _sources(part: str) -> dict[str, bytes]:
    """Path -> content of the node programs of a part, below its directory."""
    if resources.archive() is None:
        return bundle.sources(part)
    inside = resources.below(Path(bundle.__file__).parent / part)
    other = () if part else (f"{bundle.SAMPLER}/",)
    return {n: text for n, text in sorted(inside.items()) if n.endswith(".py") and not n.startswith(other)}
