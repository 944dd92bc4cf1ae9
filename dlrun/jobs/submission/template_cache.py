"""Compiled templates in the user's cache: Jinja's compiler takes a third of a dry run.

One small file per version of dlrun; changed templates are compiled again.
"""

from __future__ import annotations

import marshal
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache, bc_magic

import dlrun.model.text
from dlrun import __version__, resources
from dlrun.jobs.submission import cache
from dlrun.render import script, shell

_SHAPING = (script, shell, dlrun.model.text)
"""Modules whose functions are evaluated while templates are compiled: a change of them changes the result."""


class Compiled(BytecodeCache):
    """Jinja's bytecode cache in one file: read at the first use, written by `save`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, tuple[str, bytes]] | None = None
        self._new = False

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket if its template has not changed since."""
        if self._known is None:
            content = cache.read(self._path)
            self._known = marshal.loads(content) if content else {}  # noqa: S302 - only this user can have written it
        checksum, code = self._known.get(bucket.key, ("", b""))
        if checksum == bucket.checksum:
            bucket.code = marshal.loads(code)  # noqa: S302

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a newly compiled template."""
        if self._known is not None:
            self._known[bucket.key] = (bucket.checksum, marshal.dumps(bucket.code))
            self._new = True

    def save(self) -> None:
        """Write the file if a template was compiled; a failure is ignored."""
        if self._new:
            cache.write(self._path, marshal.dumps(self._known))


def cached() -> Compiled:
    """The cache of this version of dlrun, Jinja and Python."""
    whole = resources.archive()
    sources = [whole] if whole is not None else [Path(str(module.__file__)) for module in _SHAPING]
    times = [path.stat().st_mtime_ns for path in sources]
    return Compiled(cache.path_of("templates", [__version__, bc_magic, times]))
