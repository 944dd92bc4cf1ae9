"""Compiled templates, kept in the user's cache: Jinja's compiler is a third of a dry run.

One small file for each version of dlrun. It is a convenience: whatever is wrong with it, templates are compiled
anew, and a template that has changed is not taken from it.
"""

from __future__ import annotations

import marshal
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache, bc_magic

import dlrun.model.text
from dlrun import __version__
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
            self._known = _read(self._path)
        checksum, code = self._known.get(bucket.key, ("", b""))
        if checksum == bucket.checksum:
            bucket.code = marshal.loads(code)  # noqa: S302 - a file of our own, by its owner and digest

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Take over what was compiled just now."""
        if self._known is not None:
            self._known[bucket.key] = (bucket.checksum, marshal.dumps(bucket.code))
            self._new = True

    def save(self) -> None:
        """Write the file if something is new; where it cannot be written, nothing is kept."""
        if not self._new:
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        data = marshal.dumps(self._known)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_bytes(sha256(data).digest() + data)
            temporary.rename(self._path)


def kept() -> Compiled:
    """The store of this version of dlrun, Jinja and Python."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "dlrun"  # noqa: PTH111 - no home is no error
    made = repr(
        [__version__, bc_magic, [Path(str(module.__file__)).stat().st_mtime_ns for module in _SHAPING]]
    )
    return Compiled(base / f"templates-{sha256(made.encode()).hexdigest()[:12]}")


def _read(path: Path) -> dict[str, tuple[str, bytes]]:
    """What the file holds: nothing if there is none, it is another user's, or it is not what `save` wrote."""
    try:
        with path.open("rb") as stream:
            own = os.fstat(stream.fileno()).st_uid == os.getuid()
            digest, data = stream.read(sha256().digest_size), stream.read()
    except OSError:
        return {}
    whole = own and digest == sha256(data).digest()  # marshal does not bear with what it did not write
    return marshal.loads(data) if whole else {}  # noqa: S302
