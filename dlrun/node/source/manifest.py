"""The manifest of a data set: all directories, files and links with size, mode, time, target and hash.

Columns, not objects: a million files take about 100 MB and are read in 0.1 s. Names are bytes. A manifest from another
node or from disk is checked before it is used: no `..`, no absolute names, no modes above 0777, no kinds other than
file, symbolic link and hard link.
"""

import json
import struct
import sys
from array import array
from bisect import bisect_right
from itertools import chain, compress, repeat
from operator import eq
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Set, Tuple

from ..common.errors import Damaged

if TYPE_CHECKING:
    import hashlib

MAGIC = b"dlrun-manifest 1\n"
CHUNK = 4 << 20  # bytes; larger files are copied, hashed and resumed in chunks of this size
FILE, LINK, HARD = b"flh"  # the values of `kinds`
_ARRAYS = (
    ("dir_modes", "I"),
    ("dir_mtimes", "q"),
    ("parents", "I"),
    ("modes", "I"),
    ("sizes", "q"),
    ("mtimes", "q"),
    ("hard", "I"),
    ("sparse", "I"),
)
_METADATA = ("dirs", "names", "kinds", "links", "xattrs", *tuple(name for name, _ in _ARRAYS))


_NOTHING: Dict[int, bytes] = {}


ROOT_TIME = "root time"
"""Key of `info`: the modification time (ns) of the directory above a glob or a single file, which is not the data set's own."""


class Manifest:
    """A data set in columns; entries are ordered by directory, and by name inside a directory.

    dirs: relative paths, `b""` first, a parent before its children; `dir_modes`, `dir_mtimes` (ns) beside it.
    names, parents (index into dirs), kinds, modes, sizes (bytes), mtimes (ns): one value an entry.
    links: targets of the symbolic links, in order; hard: for each hard link the entry that has the data.
    sparse: files with holes; xattrs: (entry, or -1 - directory; name; value).
    ctimes (ns), inodes: change time and inode of each entry of the source; empty if unknown. Not part of `id`.
    cuts: entries at which a block begins in any case, ascending; known: file -> its hashes, where its content is known before
    it is copied (see `delta`); order: all files in the order of their content in a tar file, where it is not that of the
    entries (see `store.tarball`). Not part of `id`.
    digests: the hashes of all files in order, for a file cut into chunks one a chunk; b"" before they are known.
    info: source and options as JSON values of the caller; not part of `id`.
    """

    def __init__(self) -> None:
        self.dirs: List[bytes] = []
        self.names: List[bytes] = []
        self.kinds = bytearray()
        self.links: List[bytes] = []
        self.xattrs: List[Tuple[int, bytes, bytes]] = []
        self.dir_modes, self.dir_mtimes = array("I"), array("q")
        self.parents, self.modes = array("I"), array("I")
        self.sizes, self.mtimes = array("q"), array("q")
        self.hard, self.sparse = array("I"), array("I")
        self.ctimes, self.inodes = array("q"), array("Q")
        self.cuts, self.order, self.known = array("I"), array("I"), _NOTHING
        self.digests = b""
        self.digest_size = 0
        self.info: Dict[str, Any] = {}

    def path(self, entry: int) -> bytes:
        """The path of an entry relative to the data set."""
        directory = self.dirs[self.parents[entry]]
        return directory + b"/" + self.names[entry] if directory else self.names[entry]

    def by_directory(self, entries: Sequence[int], most: int) -> Iterator[Tuple[int, int, int]]:
        """(directory, first entry, the one after the last) of a range of entries, by at most so many of one directory."""
        start, last = entries[0], entries[-1] + 1
        while start < last:
            parent = self.parents[start]
            # Entries are ordered by directory: a search for its end instead of a step for each file.
            end = min(start + most, bisect_right(self.parents, parent, start, last))
            yield parent, start, end
            start = end

    def names_by_directory(self) -> List[List[bytes]]:
        """The names of the files and links of each directory, in the order of `dirs`."""
        groups: List[List[bytes]] = []
        start = 0
        for number in range(len(self.dirs)):
            end = bisect_right(self.parents, number, start)
            groups.append(self.names[start:end])
            start = end
        return groups

    def subdirectories(self) -> Dict[bytes, Set[bytes]]:
        """Directory -> names of its subdirectories."""
        children: Dict[bytes, Set[bytes]] = {directory: set() for directory in self.dirs}
        for directory in self.dirs[1:]:
            parent, _, leaf = directory.rpartition(b"/")
            children[parent].add(leaf)
        return children

    def by_entry(self, values: Dict[bytes, int]) -> Dict[int, int]:
        """Entry -> value of a path, for the entries whose paths are in `values`."""
        paths = ((entry, self.path(entry)) for entry in range(len(self.names) if values else 0))
        return {entry: values[path] for entry, path in paths if path in values}

    def size(self) -> int:
        """Bytes of all files, hard-linked ones once."""
        return sum(self.sizes)

    def close_to_writers(self) -> None:
        """Clear the write bits of group and others in all modes: other users may read a shared set, but not change it."""
        for modes in (self.modes, self.dir_modes):
            for entry, mode in enumerate(modes):
                modes[entry] = mode & 0o755

    def files(self) -> int:
        """The number of regular files, hard-linked ones once."""
        return self.kinds.count(FILE)

    def link_targets(self) -> Iterator[Tuple[int, bytes]]:
        """(entry, target) of each symbolic link."""
        return zip(self.of_kind(LINK), self.links)

    def hard_links(self) -> Iterator[Tuple[int, int]]:
        """(entry, entry with the data) of each hard link."""
        return zip(self.of_kind(HARD), self.hard)

    def of_kind(self, kind: int) -> Iterator[int]:
        """The entries of a kind."""
        entries = range(len(self.kinds))
        if self.kinds.count(kind) == len(entries):
            return iter(entries)
        return compress(entries, map(eq, self.kinds, repeat(kind)))

    def _columns(self) -> Dict[str, bytes]:
        columns = {
            "dirs": b"\0".join(self.dirs),
            "names": b"\0".join(self.names),
            "kinds": bytes(self.kinds),
            "links": b"\0".join(self.links),
            "xattrs": json.dumps([[i, k.hex(), v.hex()] for i, k, v in self.xattrs]).encode("ascii"),
        }
        for name, _ in _ARRAYS:
            columns[name] = _little(getattr(self, name)).tobytes()
        return columns

    def id(self) -> str:
        """SHA-256 of all columns except hashes, ctimes and `info`: equal for trees with equal names, sizes, modes and times."""
        return _identity(self._columns())

    def journal_id(self) -> str:
        """`id`, how the data is cut into blocks, which journals name by their numbers, and where these are in a tar file."""
        identity = self.id()
        for column in filter(None, (self.cuts, self.order)):
            identity = sha256(identity.encode("ascii") + _little(column).tobytes()).hexdigest()
        return identity

    def hashes(self) -> Dict[int, bytes]:
        """File -> its hashes, of a complete manifest."""
        if not self.digests:
            return {}
        hashes, offset, length = {}, 0, self.digest_size
        if max(self.sizes) <= CHUNK:  # one hash a file
            each = struct.iter_unpack("{}s".format(length), self.digests)
            return dict(zip(self.of_kind(FILE), chain.from_iterable(each)))
        for entry, (kind, size) in enumerate(zip(self.kinds, self.sizes)):
            if kind == FILE:
                length = pieces(size) * self.digest_size
                hashes[entry] = self.digests[offset : offset + length]
                offset += length
        return hashes

    def pack(self) -> bytes:
        """As bytes: a magic line, a line of JSON with the lengths of the columns, the columns."""
        columns = self._columns()
        identity = _identity(columns)
        columns["digests"] = self.digests
        for name in ("ctimes", "inodes", "cuts", "order"):
            columns[name] = _little(getattr(self, name)).tobytes()
        columns["known"] = _little(array("I", self.known)).tobytes()
        columns["known_hashes"] = b"".join(self.known.values())
        head = {
            "id": identity,
            "entries": len(self.names),
            "directories": len(self.dirs),
            "files": self.files(),
            "bytes": self.size(),
            "digest_size": self.digest_size,
            "info": self.info,
            "columns": [[name, len(blob)] for name, blob in sorted(columns.items())],
        }
        line = json.dumps(head, sort_keys=True).encode("ascii") + b"\n"
        return MAGIC + line + b"".join(blob for _, blob in sorted(columns.items()))


def sha256(content: bytes = b"") -> "hashlib._Hash":
    """SHA-256 of `hashlib`, which takes longer to import than all else that a set found unchanged needs."""
    import hashlib

    return hashlib.sha256(content)


def pieces(size: int) -> int:
    """The number of hashes of a file of `size` bytes: one per chunk, at least one."""
    return max(1, -(-size // CHUNK))


def _little(column: "array[int]") -> "array[int]":
    # Manifests are little-endian on disk and between nodes, and `id` must be equal on both kinds of hosts.
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


def _identity(columns: Dict[str, bytes]) -> str:
    total = sha256()
    for name in sorted(_METADATA):
        total.update("{} {}\n".format(name, len(columns[name])).encode("ascii"))
        total.update(columns[name])
    return total.hexdigest()


def head(blob: bytes) -> Tuple[Dict[str, Any], int]:
    """(JSON line of a packed manifest, offset of its columns); Damaged if it is not a manifest."""
    end = blob.find(b"\n", len(MAGIC))
    if not blob.startswith(MAGIC) or end < 0:
        raise Damaged("this is not a manifest that this version can read")
    try:
        header = json.loads(blob[len(MAGIC) : end].decode("ascii"))
    except ValueError:
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("columns"), list):
        raise Damaged("the manifest's first lines are damaged")
    return header, end + 1


def unpack(blob: bytes, trusted: bool = False) -> Manifest:
    """Unpack a manifest and check it; raises Damaged for an inconsistent or unsafe one.

    `trusted`, for this user's published sets only, leaves out the checks, which are half of the time.
    """
    line, offset = head(blob)
    columns: Dict[str, bytes] = {}
    try:
        for name, length in line["columns"]:
            columns[name] = blob[offset : offset + length]
            offset += length
        if offset != len(blob) or (not trusted and _identity(columns) != line["id"]):
            raise Damaged("the manifest is cut short or does not have the hash that it names")
        manifest = _filled(columns)
        manifest.digest_size, manifest.info = int(line["digest_size"]), dict(line["info"])
    except (KeyError, TypeError, ValueError):
        raise Damaged("the manifest is damaged") from None
    if not trusted:
        check(manifest)
    return manifest


def _filled(columns: Dict[str, bytes]) -> Manifest:
    manifest = Manifest()
    manifest.dirs = columns["dirs"].split(b"\0")
    manifest.names = columns["names"].split(b"\0") if columns["kinds"] else []
    manifest.kinds = bytearray(columns["kinds"])
    manifest.links = columns["links"].split(b"\0") if LINK in manifest.kinds else []
    attributes = json.loads(columns["xattrs"].decode("ascii"))
    manifest.xattrs = [(i, bytes.fromhex(k), bytes.fromhex(v)) for i, k, v in attributes]
    for name, _ in _ARRAYS:
        column = getattr(manifest, name)
        column.frombytes(columns[name])
        setattr(manifest, name, _little(column))
    for name, code in (("ctimes", "q"), ("inodes", "Q"), ("cuts", "I"), ("order", "I"), ("known", "I")):
        column = array(code, columns.get(name, b""))  # missing in manifests of older versions
        setattr(manifest, name, _little(column))
    manifest.known = _known(manifest, columns.get("known_hashes", b""))
    manifest.digests = columns["digests"]
    return manifest


def _known(manifest: Manifest, hashes: bytes) -> Dict[int, bytes]:
    """The column `known`, of which `manifest` has the entries, with its hashes; raises ValueError if they do not fit."""
    entries: "array[int]" = array("I", manifest.known)
    counts = [pieces(manifest.sizes[entry]) for entry in entries if entry < len(manifest.sizes)]
    size, rest = divmod(len(hashes), max(1, sum(counts)))
    if rest or len(counts) != len(entries):
        raise ValueError("known hashes do not fit")
    known, offset = {}, 0
    for entry, count in zip(entries, counts):
        known[entry] = hashes[offset : offset + count * size]
        offset += count * size
    return known


def check(manifest: Manifest) -> None:
    """Raise Damaged unless the columns are consistent and all names, modes and links are safe to create."""
    count = len(manifest.names)
    if {
        len(c) for c in (manifest.parents, manifest.kinds, manifest.modes, manifest.sizes, manifest.mtimes)
    } != {count}:
        raise Damaged("the manifest's columns differ in length")
    if len(manifest.ctimes) not in (0, count) or len(manifest.inodes) not in (0, count):
        raise Damaged("the manifest's columns differ in length")
    in_order = not manifest.order or sorted(manifest.order) == list(manifest.of_kind(FILE))
    if (
        not in_order
        or list(manifest.cuts) != sorted(set(manifest.cuts))
        or (manifest.cuts and manifest.cuts[-1] >= count)
    ):
        raise Damaged("the manifest's blocks do not fit its entries")
    if {len(manifest.dir_modes), len(manifest.dir_mtimes)} != {len(manifest.dirs)}:
        raise Damaged("the manifest's directory columns differ in length")
    hashes = sum(pieces(size) for size, kind in zip(manifest.sizes, manifest.kinds) if kind == FILE)
    if manifest.digests and len(manifest.digests) != hashes * manifest.digest_size:
        raise Damaged("the manifest's hashes do not fit its entries")
    if set(manifest.kinds) - {FILE, LINK, HARD}:
        raise Damaged("the manifest names an entry that is neither a file nor a link")
    if len(manifest.links) != manifest.kinds.count(LINK) or len(manifest.hard) != manifest.kinds.count(HARD):
        raise Damaged("the manifest's links do not fit its entries")
    if any(m > 0o777 for m in manifest.modes) or any(m > 0o777 for m in manifest.dir_modes):
        raise Damaged("the manifest holds a set-user-id, set-group-id or sticky mode")
    if any(s < 0 for s in manifest.sizes):
        raise Damaged("the manifest holds a negative size")
    _check_names(manifest)
    for entry, target in manifest.hard_links():
        if target >= count or manifest.kinds[target] != FILE or entry == target:
            raise Damaged("the manifest holds a hard link to something that is not a file")
    if any(s >= count for s in manifest.sparse) or any(
        not -1 - len(manifest.dirs) < i < count for i, _, _ in manifest.xattrs
    ):
        raise Damaged("the manifest refers to entries that it does not have")


def _check_names(manifest: Manifest) -> None:
    seen = {b""}
    if not manifest.dirs or manifest.dirs[0] != b"":
        raise Damaged("the manifest has no top directory")
    for path in manifest.dirs[1:]:
        parent, _, leaf = path.rpartition(b"/")
        absolute = path.startswith(b"/")
        if absolute or parent not in seen or path in seen or leaf in (b"", b".", b".."):
            raise Damaged("the manifest holds an unsafe directory name")
        seen.add(path)
    names, parents = manifest.names, manifest.parents
    # All names at once: a search for each of millions would take seconds.
    if b"/" in b"\0".join(names) or {b"", b".", b".."} & set(names):
        raise Damaged("the manifest holds an unsafe file name")
    if names and max(parents) >= len(manifest.dirs):
        raise Damaged("the manifest holds an entry outside its directories")
    keys = list(zip(parents, names))
    if any(a >= b for a, b in zip(keys, keys[1:])):
        raise Damaged("the manifest is not in order or holds a name twice")
    if any(manifest.path(i) in seen for i in _with_name_of_directory(manifest, seen)):
        raise Damaged("the manifest holds one name as a file and as a directory")


def _with_name_of_directory(manifest: Manifest, seen: "set[bytes]") -> Iterator[int]:
    """The entries whose last component is also a directory's: only their full paths need a comparison."""
    leaves = {path.rpartition(b"/")[2] for path in seen}
    return (i for i, name in enumerate(manifest.names) if name in leaves)
