"""Large objects of S3: their parts are fetched over several connections, as ranges of files of a web server.

The client only signs the URLs, since it knows the credentials. So also an object that a client writes to a pipe is read on after
a cut.
"""

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..common.errors import NodeError, SourceFault
from ..common.threads import side_by_side
from . import fetching, kept as kept_files
from .answers import Pieces, WebFile, differs, validator
from .kept import Kept
from .objects import Object
from .selection import Access, scheme
from .stream import changed
from .web import Log, Part, WebSource

_SIGNED = 1800.0  # seconds after which a URL is signed once more; it is valid for an hour
CONNECTIONS = 8  # at the same time
PART = 16 << 20  # bytes of a part
Sign = Callable[[Object], str]
"""Gives the URL of an object; raises SourceFault if the client cannot sign one."""


class _Large(NamedTuple):
    """A large object: what its server says about it, what is there of it, and the server's hashes."""

    stored: Object
    file: WebFile
    kept: Kept
    signed: List[Any]  # when its URL was signed, and the URL
    hashes: Dict[str, bytes]


def require_same(name: str, stored: Object, file: WebFile) -> None:
    """Raise SourceFault if an object is not any more what was listed."""
    if file.size != stored.size or (stored.etag and file.etag.strip('"') != stored.etag):
        raise changed(name)


class LargeObjects:
    """Large objects of one source; `keys`: of those that can be fetched here, and not by the client. Close it."""

    def __init__(self, url: str, wanted: List[Object], sign: Sign, parts: str, log: Log) -> None:
        self._url, self._sign, self._parts, self._log = url, sign, parts, log
        # If the client cannot sign the first URL, it is asked for no other one.
        first = self._look(wanted[0]) if wanted else None
        others = side_by_side(self._look, wanted[1:] if first else [], CONNECTIONS)
        self._found: List[_Large] = [large for large in [first, *others] if large]
        kept_files.tidy(parts, [large.kept for large in self._found])
        self.keys = {large.stored.key for large in self._found}

    def fetch(self) -> None:
        """Fetch what is missing of all of them; raises SourceFault if that fails, or if one is not any more what it was."""
        ranges = [
            (large, *span) for large in self._found for span in large.kept.missing(large.stored.size, PART)
        ]
        side_by_side(lambda part: self._fetch(*part), ranges, CONNECTIONS)
        side_by_side(self._prove, self._found, CONNECTIONS)

    def link(self, to: str) -> None:
        """Give them their names below a directory."""
        for large in self._found:
            fetching.link(large.kept, large.file, os.path.join(to, large.stored.key))

    def close(self) -> None:
        """Close their files; what is there stays."""
        for large in self._found:
            large.kept.close()

    def _name(self, stored: Object) -> str:
        return self._url.rstrip("/") + "/" + stored.key

    def _look(self, stored: Object) -> Optional[_Large]:
        """What the server says about an object; None if it cannot be fetched in parts."""
        try:
            signed: List[Any] = [time.monotonic(), self._sign(stored)]
            web = WebSource(self._name(stored), Access(), self._log, signed[1])
            file = web.look()
        except SourceFault as fault:
            self._log("{}; the client fetches it as a whole".format(fault.message))
            return None
        require_same(self._name(stored), stored, file)
        if not validator(file):
            return None
        kept = Kept(self._parts, [self._url, stored.key, stored.time, *map(str, file)])
        return _Large(stored, file, kept, signed, web.unproved)

    def _fetch(self, large: _Large, first: int, end: int) -> None:
        if time.monotonic() - large.signed[0] > _SIGNED:
            large.signed[:] = time.monotonic(), self._sign(large.stored)
        file, web = large.file, WebSource(self._name(large.stored), Access(), self._log, large.signed[1])
        for offset, data in web.pieces(Part.of(file, first), end):
            large.kept.write(offset, data)

    def _prove(self, large: _Large) -> None:
        fetching.prove(large.kept, self._name(large.stored), large.hashes)


def read_on(url: str, stored: Object, pieces: Pieces, sign: Sign, log: Log) -> Pieces:
    """The `pieces` of an object, by a client, and where that fails before the end the rest, by its presigned URL.

    The rest must have the ETag that was listed; if the client lists none, that of a request before the first piece.
    """
    file = (
        WebFile('"{}"'.format(stored.etag), "", stored.size)
        if stored.etag
        else _strong(url, stored, sign, log)
    )
    offset = 0
    try:
        for at, data in pieces:
            yield at, data
            offset = at + len(data)
    except SourceFault as fault:
        broken, web = fault, _signed(url, stored, sign, log) if file and offset < stored.size else None
    else:
        return
    if file is None or web is None:
        raise broken
    log("{}; it is read on from byte {:,}".format(broken.message, offset))
    while True:
        begun = time.monotonic()
        try:
            for at, data in web.pieces(Part.of(file, offset)):
                yield at, data
                offset = at + len(data)
            break
        except SourceFault:
            later = _signed(url, stored, sign, log) if time.monotonic() - begun >= _SIGNED else None
            if later is None:
                raise
            web = later
    if differs(file, web.found):
        raise changed(url)


def _signed(url: str, stored: Object, sign: Sign, log: Log) -> Optional[WebSource]:
    """An object as a file of a web server; None if the client cannot sign its URL."""
    try:
        signed = sign(stored)
        return WebSource(url, Access(), log, signed) if scheme(signed) in ("http", "https") else None
    except (NodeError, ValueError):
        return None


def _strong(url: str, stored: Object, sign: Sign, log: Log) -> Optional[WebFile]:
    """What the server says about an object; None without an ETag that proves equal bytes."""
    web = _signed(url, stored, sign, log)
    try:
        file = web.look() if web is not None else None
    except SourceFault:
        return None
    if file is not None:
        require_same(url, stored, file)
    return file if file is not None and file.etag.startswith('"') else None
