"""Make a new version of a data set from the files of the published one: hard links, copies on the same disk, or in place.

A file is shared by a hard link only if this user owns it, no other user can write it, and it still has the size, times and
mode of its manifest. A file with another mode or time than in the new version is copied. Before either, a file that may
have been written since it was published is read and compared with its hash.

Of many files few have changed: to give each of the others a second name, and remove the first, takes longer than all else.
So where the new version only adds and replaces files, they are moved into the published tree (`InPlace`), which stays as it
is until all of them are written. While they are moved, its manifest is one of a set that is not complete: what a kill leaves
counts as none, and the next run removes it and copies all.
"""

import contextlib
import os
import stat
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..blocks.blocks import Block, Blocks, whole_file
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..blocks.reader import Reader
from ..blocks.writer import write_all
from ..common import text
from ..common.errors import Damaged, SourceFault
from ..common.fork import in_processes, stretches
from ..common.safety import DIRECTORY_FLAGS, DirectoryCache, open_below
from ..common.statuses import Statuses
from ..source import delta
from ..source.manifest import CHUNK, FILE, Manifest
from .finish import finish_directories, set_mode_and_time
from .others import OWN
from .resume import EarlierRun, load_earlier_run
from .target import MANIFEST, TREE, TargetDirectory, on_disk
from .tree import check_names, make_directories

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OTHERS_WRITE = 0o022
OWNER = 0o700  # permissions of a directory with which its owner can replace files in it
MANY = 256  # files whose statuses are read together
PAIRS_PER_HELPER = 2000  # files from which on another process is worth its start (about 5 ms)


class Published:
    """The published version of a set as files, with its hashes; a context manager.

    verify: read every file before it is used, since the version may not have survived a crash of the node.
    """

    def __init__(self, directory: int, tree: int, earlier: EarlierRun, verify: bool) -> None:
        self.directory, self.tree, self.verify = directory, tree, verify
        self.manifest, self._hasher = earlier.manifest, earlier.hasher
        self._hashes = self.manifest.hashes()
        # The manifest is written after all files of the set: a file with a later ctime was changed since.
        self.made = os.stat(MANIFEST, dir_fd=directory, follow_symlinks=False).st_ctime_ns
        self._reader = Reader(tree, self.manifest, self._hasher, timed=False)
        self._view = BufferPool(1).acquire()
        self._clean = True

    def __enter__(self) -> "Published":
        return self

    def __exit__(self, *error: object) -> None:
        if self._clean and not self.verify:
            # The new links have changed the ctimes of files that were as published; see `warm`.
            with contextlib.suppress(OSError):
                os.utime(MANIFEST, dir_fd=self.directory)
        self.close()

    def close(self) -> None:
        """Close every descriptor."""
        self._reader.close()
        os.close(self.tree)
        os.close(self.directory)

    def take(self, new: Manifest, blocks: Blocks, root: int) -> Dict[int, bytes]:
        """Create the shared files of a new version below `root`; returns block number -> hashes of its whole blocks.

        Files of other blocks may be left there.
        """
        # Equal status proves nothing about the files of another source; equal content does.
        same_source = self.manifest.info.get("source") == new.info.get("source")
        origin = delta.unchanged(self.manifest, new) if same_source else {}
        rest = [e for e, kind in enumerate(new.kinds) if kind == FILE and e not in origin]
        origin.update(delta.by_content(self.manifest, new, rest))
        whole = {
            number: block
            for number, block in enumerate(blocks)
            if all(entry in origin for entry in range(block.first, block.first + block.file_count))
        }
        wanted = {e for block in whole.values() for e in range(block.first, block.first + block.file_count)}
        make_directories(root, new)
        self._check_others(set(self._hashes) - {origin[entry] for entry in wanted})
        made = self._make_with_helpers(new, root, [(entry, origin[entry]) for entry in sorted(wanted)])
        hashes: Dict[int, bytes] = {}
        for number, block in whole.items():
            entries = range(block.first, block.first + block.file_count)
            if all(entry in made for entry in entries):
                hashes[number] = self.hashes_of(block, [origin[entry] for entry in entries])
        return hashes

    def hashes_of(self, block: Block, files: List[int]) -> bytes:
        """The hashes of a block of a new version whose content `files` of this version have."""
        if block.file_count > 1:  # small ones, with one hash each
            return b"".join(map(self._hashes.__getitem__, files))
        size = self._hasher.size
        start = block.offset // CHUNK * size
        return b"".join(self._hashes[file][start : start + size] for file in files)

    def create(self, new: Manifest, root: int, pairs: List[Tuple[int, int]]) -> Set[int]:
        """Create files of this version below `root`, each pair an entry of `new` and its file here; those that could be."""
        make_directories(root, new)
        self._check_others(set(self._hashes) - {before for _, before in pairs})
        return self._make_with_helpers(new, root, pairs)

    def _check_others(self, entries: Set[int]) -> None:
        """Find out whether files that are not shared were changed: only an unchanged set stays marked as such."""
        old, directories = self.manifest, DirectoryCache(self.tree)
        for entry in sorted(entries):
            with contextlib.suppress(OSError):
                directory = directories(old.dirs[old.parents[entry]])
                status = os.stat(old.names[entry], dir_fd=directory, follow_symlinks=False)
                self._clean = self._clean and status.st_ctime_ns <= self.made
        directories.close()

    def _make_with_helpers(self, new: Manifest, root: int, pairs: List[Tuple[int, int]]) -> Set[int]:
        """`_make` with helpers."""
        made: Set[int] = set()
        # Stretches of the pairs: processes that create names in one directory wait for one another.
        for result in in_processes(
            lambda part: self._make(new, root, part), stretches(pairs, PAIRS_PER_HELPER)
        ):
            # A process that was killed: the copy writes its files, after a `clear`.
            entries, clean = result or ((), False)
            made.update(entries)
            self._clean = self._clean and clean
        return made

    def _make(self, new: Manifest, root: int, pairs: List[Tuple[int, int]]) -> Tuple[List[int], bool]:
        """Create files of the new version; returns those that could be, and whether all were as published."""
        old, source, target = self.manifest, DirectoryCache(self.tree), DirectoryCache(root)
        user, made, clean = os.geteuid(), [], True
        directories, here, there = (-1, -1), -1, -1
        for entry, before in pairs:
            name, mode, mtime = old.names[before], old.modes[before], old.mtimes[before]
            try:
                if directories != (old.parents[before], new.parents[entry]):
                    directories = old.parents[before], new.parents[entry]
                    here, there = source(old.dirs[directories[0]]), target(new.dirs[directories[1]])
                status = os.stat(name, dir_fd=here, follow_symlinks=False)
                touched = status.st_ctime_ns > self.made
                clean = clean and not touched
                state = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns)
                if state != (stat.S_IFREG | mode, user, old.sizes[before], mtime):
                    continue
                if mode & OTHERS_WRITE or mode != new.modes[entry] or mtime != new.mtimes[entry]:
                    done = self._copy(new, entry, before, there)
                else:
                    done = not (touched or self.verify) or self._has_hashes(before)
                    done = done and self._link(new, entry, before, here, there)
            except (OSError, SourceFault):
                continue
            if done:
                made.append(entry)
        source.close()
        target.close()
        return made, clean

    def _link(self, new: Manifest, entry: int, before: int, here: int, there: int) -> bool:
        names = self.manifest.names[before], new.names[entry]
        try:
            os.link(*names, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
        # No hard links here (FAT; BeeGFS between directories), or no more of this file (ext4: 65,000).
        except OSError:
            return self._copy(new, entry, before, there)
        return True

    def _has_hashes(self, before: int) -> bool:
        """Whether a file of the published version still has its hashes."""
        return (
            b"".join(
                self._reader.read(b, self._view[: b.length + SLACK])
                for b in whole_file(self.manifest, before)
            )
            == (self._hashes[before])
        )

    def _copy(self, new: Manifest, entry: int, before: int, directory: int) -> bool:
        """Copy a file of the published version, comparing it with its hashes; a damaged one is not kept."""
        name, content = new.names[entry], b""
        descriptor = os.open(name, _NEW, 0o600, dir_fd=directory)
        try:
            for block in whole_file(self.manifest, before):
                content += self._reader.read(block, self._view[: block.length + SLACK])
                write_all(descriptor, self._view[: block.length], block.offset)
        finally:
            set_mode_and_time(new, entry, descriptor)
            # Also if the disk is full: then the space for the whole version is checked next.
            if content != self._hashes[before]:
                os.unlink(name, dir_fd=directory)
        return content == self._hashes[before]


def open_published(
    target: TargetDirectory, name: bytes, hasher: Hasher, verify: bool, known: Optional[Manifest] = None
) -> Optional[Published]:
    """The published version of a set, or None if there is none of plain files with hashes of this function.

    known: its manifest, if it was read since the caller has the lock of the set.
    """
    directory = target.published(name)
    if directory is None:
        return None
    earlier = load_earlier_run(directory, hasher, trusted=True, known=known) if hasher.size else None
    try:
        if earlier is None or not earlier.manifest.digests or earlier.manifest.info.get("strategy") != "copy":
            raise FileNotFoundError
        verify = verify or not on_disk(directory, earlier.manifest)
        return Published(directory, open_below(directory, TREE, DIRECTORY_FLAGS), earlier, verify)
    except OSError:
        os.close(directory)
        return None


class InPlace:
    """What the published version and the new one have in common, which stays where it is.

    kept: block number -> hashes of the blocks whose files all stay; files: entry of the new version -> that of the published
    one. Both are empty if the new version lacks a name of the published one, or if a published file may have been changed.
    """

    def __init__(
        self, published: Published, new: Manifest, blocks: Blocks, unchanged: Optional[Dict[int, int]] = None
    ) -> None:
        self.published, self._new = published, new
        self.kept: Dict[int, bytes] = {}
        self.files: Dict[int, int] = {}
        old = published.manifest
        same_names = delta.has_same_names(old, new)
        if published.verify or not _only_adds(old, new, same_names):
            return
        same = unchanged or delta.unchanged(old, new)
        if not same_names:
            same = {entry: before for entry, before in same.items() if old.path(before) == new.path(entry)}
        if not same or not self._is_as_published():
            return
        for number, block in enumerate(blocks):
            entries = range(block.first, block.first + block.file_count)
            origins = [same[entry] for entry in entries if entry in same]
            if len(origins) == len(entries):
                self.kept[number] = published.hashes_of(block, origins)
                self.files.update(zip(entries, origins))

    def _is_as_published(self) -> bool:
        """Whether no file was changed since the set was published."""
        entries = range(len(self.published.manifest.names))
        parts = stretches(entries, PAIRS_PER_HELPER)
        return all(in_processes(lambda part: self._are_as_published([part]), parts))

    def _are_as_published(self, parts: Iterable[Sequence[int]]) -> bool:
        """The same for the entries of some ranges."""
        old = self.published.manifest
        directories, there = DirectoryCache(self.published.tree), Statuses(MANY, every=True)
        try:
            for part in parts:
                for parent, first, end in old.by_directory(part, MANY):
                    if not self._are_in(directories(old.dirs[parent]), first, end, there):
                        return False
        except OSError:
            return False
        finally:
            directories.close()
        return True

    def _are_in(self, directory: int, first: int, end: int, there: Statuses) -> bool:
        """Whether files of one directory are as published."""
        old, user, made = self.published.manifest, os.geteuid(), self.published.made
        names, modes = old.names[first:end], [stat.S_IFREG | mode for mode in old.modes[first:end]]
        sizes, mtimes = old.sizes[first:end], old.mtimes[first:end].tolist()
        if any(mode & OTHERS_WRITE for mode in set(modes)):
            return False
        if there.read(directory, names):
            same = there.sizes() == sizes and there.mtimes() == mtimes and there.modes().tolist() == modes
            return same and set(there.owners().tolist()) == {user} and there.newest() <= made
        status = [os.stat(name, dir_fd=directory, follow_symlinks=False) for name in names]
        states = [(s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns) for s in status]
        wanted = [(mode, user, size, mtime) for mode, size, mtime in zip(modes, sizes, mtimes)]
        return states == wanted and max(s.st_ctime_ns for s in status) <= made

    def is_possible(self) -> bool:
        """Whether nothing was added to the published version meanwhile, and no file that will be replaced was changed."""
        published, stay = self.published, set(self.files.values())
        entries = range(len(published.manifest.names))
        replaced = [range(entry, entry + 1) for entry in entries if entry not in stay]
        there = set(map(os.fsencode, os.listdir(published.directory)))
        return (
            there <= OWN | {TREE}
            and (self._has_names() or check_names(published.tree, published.manifest) == ([], []))
            and self._are_as_published(replaced)
        )

    def _has_names(self) -> bool:
        """Whether no directory was changed since the set was published: nothing was added to it or removed."""
        old, made, tree = self.published.manifest, self.published.made, self.published.tree
        for path, mtime in zip(old.dirs, old.dir_mtimes):
            try:
                status = os.stat(path or b".", dir_fd=tree, follow_symlinks=False)
            except OSError:
                return False
            if not stat.S_ISDIR(status.st_mode) or status.st_mtime_ns != mtime or status.st_ctime_ns > made:
                return False
        return True

    def link(self, root: int) -> None:
        """Give the files that stay a second name below `root` instead, and close the published version."""
        with self.published:
            self.published.create(self._new, root, sorted(self.files.items()))

    def move(self, root: int) -> None:
        """Move the other files of the new version from the tree `root` into the published one; raises Damaged.

        The set must not count as complete while this runs.
        """
        new, tree = self._new, self.published.tree
        make_directories(tree, new)
        source, target = DirectoryCache(root), DirectoryCache(tree)
        for entry, name in enumerate(new.names):
            if entry not in self.files:
                path = new.dirs[new.parents[entry]]
                os.rename(name, name, src_dir_fd=source(path), dst_dir_fd=target(path))
        source.close()
        target.close()
        missing, extra = check_names(tree, new)
        if missing or extra:
            raise Damaged(
                "the published copy was changed while files were replaced: {}".format(
                    text.names(missing or extra)
                ),
                "run again",
            )
        finish_directories(tree, new)


def _only_adds(old: Manifest, new: Manifest, same_names: bool) -> bool:
    """Whether all files and directories of the published version have their names in the new one, too, and no links."""
    if old.info.get("source") != new.info.get("source") or new.known or old.xattrs or new.xattrs:
        return False
    if set(old.kinds + new.kinds) != {FILE} or any(mode & OWNER != OWNER for mode in old.dir_modes):
        return False
    if same_names:
        return True
    paths = {new.path(entry) for entry in range(len(new.names))}
    return set(old.dirs) <= set(new.dirs) and all(old.path(e) in paths for e in range(len(old.names)))
