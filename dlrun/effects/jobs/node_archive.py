"""`node.pyz`, kept in the user's cache: to compile all node programs takes longer than the rest of a dry run."""

from __future__ import annotations

import marshal
import sys
from hashlib import sha256

from dlrun import __version__
from dlrun.effects.jobs import cache
from dlrun.node import bundle


def content() -> bytes:
    """The file's bytes; made anew if a source, dlrun or Python has changed since they were kept."""
    sources = bundle.sources()
    origin = sha256(marshal.dumps(sources)).digest()
    path = cache.place("node", (__version__, sys.version))
    kept = cache.read(path) or b""
    if kept.startswith(origin):
        return kept[len(origin) :]
    made = bundle.archive(sources)
    cache.write(path, origin + made)
    return made
