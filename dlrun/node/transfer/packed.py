"""The content of an archive in one file with the headers of a tar file, which becomes that of the set (`strategy: pack`).

It is written in the order of the archive. Names, modes, times and links are in the tree beside it, with empty files. Where a
name is there twice, or a member is not selected, the tar file of the set is another one, to which the content is copied.
"""

import contextlib
import os
import threading
from array import array
from typing import IO, Dict, Iterable, NamedTuple, Optional

from ..blocks.blocks import Block
from ..blocks.hashing import Hasher
from ..blocks.writer import write_content
from ..common import text
from ..common.errors import SourceFault
from ..common.safety import DIRECTORY_FLAGS, closing, read_existing
from ..source.archive import Member
from ..source.manifest import FILE, HARD, Manifest
from ..store.tarball import PACKED, UNIT, TarMap, TarReader, header

_INDEX = PACKED + b".index"  # records `OFFSET SIZE SPARSE LINKED PATH` and a zero byte
_BUFFER = 1 << 20  # bytes of small files that are written with one call
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Place(NamedTuple):
    """Where a file's content is, how many bytes, whether it has holes, and whether its header has another name (a hard link)."""

    offset: int
    size: int
    sparse: bool
    linked: bool = False


class Pack:
    """Such a file beside `directory`, written member by member; a context manager, after which its index is there.

    shared: other users may read the set, but not change it.
    """

    def __init__(self, directory: str, shared: bool) -> None:
        self._root = os.open(os.path.join(directory, "data"), DIRECTORY_FLAGS)
        self._modes, self._end = 0o755 if shared else 0o777, 0
        self._places: Dict[bytes, _Place] = {}
        for name in (PACKED, _INDEX):
            # Not overwritten: the one of a killed run may be the tar file of an unfinished set.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._root)
        self._file: "IO[bytes]" = os.fdopen(os.open(PACKED, _NEW, 0o600, dir_fd=self._root), "wb", _BUFFER)

    def add(self, member: Member, content: "IO[bytes]") -> int:
        """Write a file with its header; returns its bytes."""
        head = header(member.path, b"0", member.mode & self._modes, member.size, member.mtime // 10**9)
        self._file.write(head)
        start, size = self._end + len(head), 0
        if member.sparse:
            self._file.flush()
            size = write_content(self._file.fileno(), content, True, start)
            self._file.seek(start + size)
        else:
            for data in iter(lambda: content.read(_BUFFER), b""):
                self._file.write(data)
                size += len(data)
        self._file.write(bytes(-size % UNIT))
        self._end = start + size + -size % UNIT
        self._places[member.path] = _Place(start, size, member.sparse)
        return size

    def link(self, member: Member) -> None:
        """A hard link has the content of its target."""
        self._places[member.path] = self._places[member.target]._replace(linked=True)

    def __enter__(self) -> "Pack":
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        with closing(self._root), self._file:
            if fault is None:
                records = (b"%d %d %d %d %s\0" % (*place, path) for path, place in self._places.items())
                flags = _NEW & ~os.O_RDWR | os.O_WRONLY
                with os.fdopen(os.open(_INDEX, flags, 0o600, dir_fd=self._root), "wb") as index:
                    index.writelines(records)


class PackedFiles:
    """The files of a manifest in such a file: `offsets` of the content by entry (as in a TarMap), known once it is read."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.offsets: "Optional[array[int]]" = None
        self._lock = threading.Lock()

    def describe(self, directory: str) -> None:
        """Give the manifest, which has empty files, sizes and holes, and an order if this can become the tar file."""
        with closing(os.open(os.path.join(directory, "data"), DIRECTORY_FLAGS)) as root:
            index = _read_index(root)
        self._take_names(index)
        places = self._places(index)
        manifest = self.manifest
        for entry, place in places.items():
            manifest.sizes[entry] = place.size
        manifest.sparse = array("I", [entry for entry, place in sorted(places.items()) if place.sparse])
        manifest.order = array("I", sorted(places, key=lambda entry: places[entry].offset))
        offsets = TarMap(manifest).offsets
        if any(place.linked or offsets[entry] != place.offset for entry, place in places.items()):
            manifest.order = array("I")

    def _take_names(self, index: Dict[bytes, _Place]) -> None:
        """Let the file of several names with the header be the one, and the others hard links to it."""
        manifest = self.manifest
        targets = dict(manifest.hard_links())
        firsts = {
            place.offset: entry
            for entry, place in self._places(index, set(targets.values())).items()
            if place.linked
        }
        owners = {
            firsts[place.offset]: entry
            for entry, place in self._places(index, targets).items()
            if not place.linked and place.offset in firsts
        }
        for first, owner in owners.items():
            manifest.kinds[first], manifest.kinds[owner] = HARD, FILE
            targets[first] = first
            del targets[owner]
        manifest.hard = array("I", [owners.get(targets[entry], targets[entry]) for entry in sorted(targets)])

    def load(self, root: int) -> None:
        """Read the offsets; raises SourceFault if they are not of these files."""
        with self._lock:
            if self.offsets is not None:
                return
            offsets = array("q", [-1]) * len(self.manifest.kinds)
            for entry, place in self._places(_read_index(root)).items():
                if place.size != self.manifest.sizes[entry]:
                    raise _missing(self.manifest, entry)
                offsets[entry] = place.offset
            self.offsets = offsets

    def reader(self, root: int, hasher: Hasher) -> "_PackedReader":
        """A reader of the file beside a directory, for one thread."""
        return _PackedReader(root, self, hasher)

    def _places(
        self, index: Dict[bytes, _Place], entries: "Optional[Iterable[int]]" = None
    ) -> Dict[int, _Place]:
        places: Dict[int, _Place] = {}
        for entry in self.manifest.of_kind(FILE) if entries is None else entries:
            place = index.get(self.manifest.path(entry))
            if place is None:
                raise _missing(self.manifest, entry)
            places[entry] = place
        return places


class _PackedReader(TarReader):
    """Reads blocks from such a file; interface of `blocks.reader.Reader`."""

    def __init__(self, root: int, files: PackedFiles, hasher: Hasher) -> None:
        super().__init__(root, PACKED, files, hasher)
        self._files = files

    def read(self, block: Block, view: memoryview) -> bytes:
        """As `Reader.read`."""
        self._files.load(self._root)
        try:
            return super().read(block, view)
        except (FileNotFoundError, EOFError):
            raise _missing(self._files.manifest, block.first) from None

    def _get(self, size: int, offset: int) -> bytes:
        data = super()._get(size, offset)
        if len(data) != size:
            raise EOFError
        return data


def _read_index(root: int) -> Dict[bytes, _Place]:
    """Path -> where its content is."""
    content: Optional[bytes] = read_existing(root, _INDEX)
    places: Dict[bytes, _Place] = {}
    for record in (content or b"").split(b"\0")[:-1]:
        offset, size, sparse, linked, path = record.split(b" ", 4)
        places[path] = _Place(int(offset), int(size), sparse == b"1", linked == b"1")
    return places


def _missing(manifest: Manifest, entry: int) -> SourceFault:
    return SourceFault("`{}` vanished".format(text.name(manifest.path(entry))))
