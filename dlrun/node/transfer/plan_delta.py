"""Before a changed data set is copied: which files need no copying, and blocks that have only the others."""

import os
from typing import Dict, Optional, Tuple

from ..blocks.blocks import whole_file
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..blocks.reader import Reader
from ..common.errors import SourceFault
from ..source import delta
from ..source.manifest import FILE, Manifest


def plan_delta(
    source: Tuple[int, Hasher, bool, bool],
    old: Manifest,
    new: Manifest,
    relayed: bool,
    shared: Dict[bytes, bytes],
) -> Dict[int, int]:
    """Set `known` and `cuts` of the manifest of a new version; returns its `unchanged` files.

    source: a descriptor of its root, which this closes, or -1 if it cannot be read here, and how it is read (see `Reader`);
    old: the published version, with its hashes; relayed: other nodes get the data from this one. Then files that only have
    another time are read first, too: what a node already has, under any name, is not sent to it. shared: path -> hashes of
    files that are known to be those of the published version.
    """
    root, hasher, follow, slow = source
    same_source = old.info.get("source") == new.info.get("source")
    reused = delta.unchanged(old, new) if same_source else {}
    pairs = delta.candidates(old, new, reused, relayed) if root >= 0 else {}
    reader = Reader(root, new, hasher, follow, slow=slow)
    view = BufferPool(1).acquire()

    def hashes_of(entry: int) -> Optional[bytes]:
        try:
            return b"".join(reader.read(b, view[: b.length + SLACK]) for b in whole_file(new, entry))
        except SourceFault:
            return None  # the copy reports it

    new.known = delta.proved(old, pairs, hashes_of)
    if shared:
        paths = ((entry, new.path(entry)) for entry, kind in enumerate(new.kinds) if kind == FILE)
        new.known = {**new.known, **{entry: shared[path] for entry, path in paths if path in shared}}
    new.cuts = delta.cuts(new, {**reused, **new.known} if new.known else reused)
    reader.close()
    if root >= 0:
        os.close(root)
    return reused
