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
    old: Manifest, new: Manifest, reader: Optional[Reader], relayed: bool, shared: Dict[bytes, bytes]
) -> Dict[int, int]:
    """Set `known` and `cuts` of the manifest of a new version; returns its `unchanged` files.

    old: the published version, with its hashes; reader: of the source, None if it cannot be read here; relayed: other nodes
    get the data from this one. Then files that only have another time are read first, too: what a node already has, under
    any name, is not sent to it. shared: path -> hashes of files that are known to be those of the published version.
    """
    if not old.digests:
        return {}
    same_source = old.info.get("source") == new.info.get("source")
    reused = delta.unchanged(old, new) if same_source else {}
    pairs = delta.candidates(old, new, reused, relayed) if reader is not None else {}
    view = BufferPool(1).acquire()

    def hashes_of(entry: int) -> Optional[bytes]:
        if reader is None:
            return None
        try:
            return b"".join(reader.read(b, view[: b.length + SLACK]) for b in whole_file(new, entry))
        except SourceFault:
            return None  # the copy reports it

    new.known = delta.proved(old, pairs, hashes_of)
    if shared:
        paths = ((entry, new.path(entry)) for entry, kind in enumerate(new.kinds) if kind == FILE)
        new.known = {**new.known, **{entry: shared[path] for entry, path in paths if path in shared}}
    new.cuts = delta.cuts(new, {**reused, **new.known} if new.known else reused)
    return reused


def plan_from(
    source: Tuple[int, Hasher, bool, bool],
    old: Manifest,
    new: Manifest,
    relayed: bool,
    shared: Dict[bytes, bytes],
) -> Dict[int, int]:
    """As `plan_delta`; source: a descriptor of its root, which this closes, or -1, and how it is read (see `Reader`)."""
    root, hasher, follow, slow = source
    reader = Reader(root, new, hasher, follow, slow=slow)
    reused = plan_delta(old, new, reader if root >= 0 else None, relayed, shared)
    reader.close()
    if root >= 0:
        os.close(root)
    return reused
