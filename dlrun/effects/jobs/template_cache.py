"""Compiled templates, kept in the user's cache: Jinja's compiler is a third of a dry run.

One small file for each version of dlrun; a template that has changed is not taken from it.
"""

from __future__ import annotations

import marshal
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache, bc_magic

import dlrun.model.text
from dlrun import __version__, resources
from dlrun.effects.jobs import cache
from dlrun.render import script, shell

_SHAPING = (script, shell, dlrun.model.text)
"""Modules whose functions end up inside compiled templates, in a checkout where they may change."""


class Compiled(BytecodeCache):
    """Jinja's store of compiled templates in one file: read at the first question, written by `save`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[str, bytes]] | None = None
        self._new = False

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket if its template has not changed since."""
        if self._known is None:
            found = cache.read(self._path)
            self._known = marshal.loads(found) if found else {}  # noqa: S302 - a file of our own, by its owner and digest
        checksum, code = self._known.get(bucket.key, ("", b""))
        if checksum == bucket.checksum:
            bucket.code = marshal.loads(code)  # noqa: S302

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Take over what was compiled just now."""
        if self._known is not None:
            self._known[bucket.key] = (bucket.checksum, marshal.dumps(bucket.code))
            self._new = True

    def save(self) -> None:
        """Write the file if something is new; where it cannot be written, nothing is kept."""
        if self._new:
            cache.write(self._path, marshal.dumps(self._known))


def kept() -> Compiled:
    """The store of this version of dlrun, Jinja and Python."""
    whole = resources.archive()
    made_of = [whole] if whole is not None else [Path(str(module.__file__)) for module in _SHAPING]
    times = [path.stat().st_mtime_ns for path in made_of]
    return Compiled(cache.place("templates", [__version__, bc_magic, times]))
