"""Files of web servers and large objects of S3 are downloaded by the same requests: for ranges, and only of what is missing.

What a killed process has left is continued if the server's ETag (else the time) and size are the same, and begun from the
first byte otherwise. The client of S3 only signs the URLs of its objects, since it knows the credentials.
"""

import contextlib
import os
from typing import Dict

from ..common.errors import WrongHash
from . import kept as kept_files
from .answers import UNKNOWN, WebFile, differs, modification_time, validator
from .kept import Kept
from .stream import changed, damaged
from .web import Part, WebSource


def fetch_file(web: WebSource, listed: WebFile, parts: str, path: str) -> WebFile:
    """Download the file of a web server, or what is missing of it, and describe it; raises SourceFault for another one than
    was listed. parts: a directory for what is kept.
    """
    with contextlib.closing(Kept(parts, [web.url, *map(str, listed)])) as kept:
        kept_files.tidy(parts, [kept])
        state, begun = validator(listed), kept.begun()
        if not state or listed.size == UNKNOWN or begun > listed.size:
            kept.forget()
            begun = 0
        # Also of a complete file one byte is asked for: with it come the server's hashes.
        position = begun = max(0, min(begun, listed.size - 1))
        part = Part.of(listed, begun) if begun else None
        try:
            for offset, data in web.pieces(part):
                # A mirror may have another version than the one that was listed: nothing of it is kept.
                other = differs(listed, web.seen)
                if other or offset != position:
                    kept.forget()
                kept.write(offset, data, record=not other)
                position = offset + len(data)
            if differs(listed, web.found):
                raise changed(web.url)
            prove(kept, web.url, web.unproved)
        except WrongHash:
            kept.forget()
            raise
        link(kept, web.found, path)
    return web.found


def prove(kept: Kept, url: str, hashes: Dict[str, bytes]) -> None:
    """Compare the server's hashes with a file that did not arrive in one piece."""
    for name, expected in hashes.items():
        digest = kept.hexdigest(name)
        if digest != expected.hex():
            kept.forget()
            raise damaged(url, name, digest, expected)


def link(kept: Kept, file: WebFile, path: str) -> None:
    """Give a complete file its name, size and time."""
    kept.link(path, file.size)
    modified = modification_time(file.modified)
    if modified is not None:
        os.utime(path, (modified, modified))
