"""The selection of the source: a directory, one file or a glob, with include and exclude patterns.

Every source has one root directory; a file or a glob is a selection inside its root. A data set's paths are
relative to the root, so `/a/b/*.h5` gives `x.h5` and `/a/*/train` gives `v1/train/...`.
"""

import fnmatch
import os
import re
from typing import Any, Dict, List, NamedTuple, Pattern, Sequence, Tuple

from ..common import text
from ..common.errors import SourceFault, Usage

SCHEMES = ("s3", "http", "https")
"""The schemes of URLs that `remote` reads."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_WILD = re.compile(rb"[*?\[]")


def _glob(pattern: bytes) -> Pattern[bytes]:
    return re.compile(
        fnmatch.translate(pattern.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"),
        re.DOTALL,
    )


class Source(NamedTuple):
    """The root directory, the glob below it by path component, and the filter patterns.

    A pattern with a slash is matched against the path in the data set, one without against the last component; excluded
    directories are not entered. With include patterns only matching files are taken.
    """

    root: bytes
    parts: Tuple[bytes, ...] = ()
    include: Tuple[bytes, ...] = ()
    exclude: Tuple[bytes, ...] = ()

    def describe(self) -> Dict[str, Any]:
        """As JSON values for a manifest's `info`, to recognise data sets of the same source."""
        return {
            "root": text.name(self.root),
            "parts": [text.name(p) for p in self.parts],
            "include": [text.name(p) for p in self.include],
            "exclude": [text.name(p) for p in self.exclude],
        }


class Options(NamedTuple):
    """Treatment of links, special files and extended attributes.

    follow: copy the targets of symbolic links; skip_special: skip devices, sockets and pipes and strip set-user-id bits
    instead of failing; xattrs: read the user attributes of all files.
    """

    follow: bool = False
    skip_special: bool = False
    xattrs: bool = True


class PathFilter:
    """The filter of a walk: the directories and files that belong to the data set."""

    def __init__(self, source: Source) -> None:
        self._parts = [_glob(p) for p in source.parts]
        self._include = [(b"/" in p, _glob(p.lstrip(b"/"))) for p in source.include]
        self._exclude = [(b"/" in p, _glob(p.strip(b"/"))) for p in source.exclude]
        self.everything = not (self._parts or self._include or self._exclude)

    def _selected(self, path: bytes, is_directory: bool) -> bool:
        names = path.split(b"/")
        deep_enough = is_directory or len(names) >= len(self._parts)
        return deep_enough and all(part.match(n) for part, n in zip(self._parts, names))

    @staticmethod
    def _any(patterns: "List[Tuple[bool, Pattern[bytes]]]", path: bytes) -> bool:
        leaf = path.rpartition(b"/")[2]
        return any(pattern.match(path if whole else leaf) for whole, pattern in patterns)

    def includes_directory(self, path: bytes) -> bool:
        """Whether a directory belongs to the data set."""
        return self.everything or (self._selected(path, True) and not self._any(self._exclude, path))

    def includes_file(self, path: bytes) -> bool:
        """Whether a file or link belongs to the data set."""
        if self.everything:
            return True
        if not self._selected(path, False) or self._any(self._exclude, path):
            return False
        return not self._include or self._any(self._include, path)


def outside(source: Source, place: bytes) -> Source:
    """The source itself; raises Usage if it holds `place`, where this copy is made: each run would copy the last one."""
    inner = os.path.relpath(os.path.realpath(place), source.root)
    parts, path_filter = inner.split(b"/"), PathFilter(source)
    if parts[0] != b".." and all(
        path_filter.includes_directory(b"/".join(parts[: k + 1])) for k in range(len(parts))
    ):
        raise Usage(
            "the staging directory `{}` is inside the source `{}`".format(
                text.name(os.path.dirname(place)), text.name(source.root)
            ),
            "stage to a directory outside it, or leave that one out with --exclude",
        )
    return source


class Access(NamedTuple):
    """Names of the environment variables with credentials: of the whole URL (empty: none), and of each header's value."""

    url: str = ""
    headers: Tuple[Tuple[str, str], ...] = ()


def scheme(source: str) -> str:
    """The scheme of a source that is a URL; empty for a path."""
    match = _URL.match(source)
    return match.group(1).lower() if match else ""


def parse(source: str, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Source:
    """Parse a user's source; raises SourceFault if it does not exist, Usage if it is empty."""
    if not source:
        raise Usage("the source is empty")
    path = os.path.abspath(os.fsencode(source))
    filters = tuple(os.fsencode(p) for p in include), tuple(os.fsencode(p) for p in exclude)
    if os.path.isdir(path):
        return Source(os.path.realpath(path), (), *filters)
    if os.path.exists(path):
        # A single file is a glob that matches only itself: its special characters are escaped.
        root, leaf = os.path.split(os.path.realpath(path))
        return Source(root, (re.sub(rb"([*?\[])", rb"[\1]", leaf),), *filters)
    parts = path.split(b"/")
    wild = next((i for i, part in enumerate(parts) if _WILD.search(part)), None)
    if wild is None:
        raise SourceFault(
            "the source `{}` does not exist".format(text.name(path)),
            "seen from {}".format(os.uname().nodename),
        )
    # The root is the part before the first wildcard: nothing above it can be selected.
    root = os.path.realpath(b"/".join(parts[:wild]) or b"/")
    if not os.path.isdir(root):
        raise SourceFault("the source's directory `{}` does not exist".format(text.name(root)))
    return Source(root, tuple(parts[wild:]), *filters)
