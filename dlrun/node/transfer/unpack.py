"""Write the members of an archive below a directory, through directory descriptors and never through a link.

The last member of a name counts, as for `tar`. Modes and times of directories, and where links lead, are settled when all
members are there: only then is it known what a link through another link names.
"""

import contextlib
import errno
import os
import stat
from typing import IO, TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

from ..blocks.writer import write_content
from ..common import text
from ..common.errors import SourceFault
from ..common.safety import DIRECTORY_FLAGS, DirectoryCache, closing, open_below
from ..source.archive import DIRECTORY, FILE, HARD, LINK, Archive, Member, damaged

if TYPE_CHECKING:
    from .packed import Pack

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE, _SEARCHABLE = 0o400, 0o500  # what the copy of the data set needs, whatever the archive says
_DEFAULT_MODE = 0o755  # of directories that the archive does not name


class Tree:
    """A directory that an archive is unpacked to: `files` and `bytes` written so far; `close` it after `finish`.

    before(size): called before `size` more bytes are written, to raise an error if they do not fit. mtime: time in ns of
    directories that the archive does not name. pack: takes the content of files, which are empty in the directory then.
    """

    def __init__(
        self,
        root: bytes,
        archive: Archive,
        mtime: int,
        before: Callable[[int], None],
        pack: "Optional[Pack]" = None,
    ) -> None:
        self.files, self.bytes, self._pack = 0, 0, pack
        self._root_path, self._archive, self._before = root, archive, before
        self._root = os.open(root, DIRECTORY_FLAGS)
        self._open = DirectoryCache(self._root)
        self._default = (_DEFAULT_MODE, mtime)
        self._directories: Dict[bytes, Tuple[int, int]] = {b"": self._default}
        self._links: List[bytes] = []

    def add(self, member: Member, content: "Optional[IO[bytes]]") -> None:
        """Write one member; raises SourceFault, which names it, if its place is a link, a file or another member's."""
        path = member.path
        if member.kind == DIRECTORY:
            self._make_directory(path, (member.mode | _SEARCHABLE, member.mtime), path)
            return
        above, _, name = path.rpartition(b"/")
        if above not in self._directories:
            self._make_directory(above, self._default, path)
        self._remove_earlier(path, name, above)
        directory = self._open(above)
        if member.kind == FILE and content is not None:
            self._write(member, name, directory, content)
        elif member.kind == LINK:
            os.symlink(member.target, name, dir_fd=directory)
            os.utime(name, ns=(member.mtime, member.mtime), dir_fd=directory, follow_symlinks=False)
            self._links.append(path)
        elif member.kind == HARD:
            self._link(member, name, directory)

    def finish(self) -> None:
        """Set modes and times of directories; raises SourceFault for a link that leads out of the tree."""
        root = os.path.realpath(self._root_path)
        for path in self._links:
            landed = os.path.realpath(os.path.join(root, path))
            if landed != root and not landed.startswith(root + b"/"):
                raise self._archive.refuse(
                    path, "is a link that leads out of the data set, to `{}`".format(text.name(landed))
                )
        for path, (mode, mtime) in sorted(self._directories.items(), reverse=True):
            with closing(os.open(b".", DIRECTORY_FLAGS, dir_fd=self._open(path))) as descriptor:
                os.fchmod(descriptor, mode)
                os.utime(descriptor, ns=(mtime, mtime))

    def close(self) -> None:
        """Close the directories."""
        self._open.close()
        os.close(self._root)

    def _make_directory(self, path: bytes, state: Tuple[int, int], member: bytes) -> None:
        """Create a directory and those above it; `state`: its mode and time; `member`: for which."""
        above, _, name = path.rpartition(b"/")
        if path and above not in self._directories:
            self._make_directory(above, self._default, member)
        if path not in self._directories:
            try:
                os.mkdir(name, 0o700, dir_fd=self._open(above))
            except FileExistsError:
                raise self._archive.refuse(member, "lies where another member is a file or a link") from None
        self._directories[path] = state

    def _remove_earlier(self, path: bytes, name: bytes, above: bytes) -> None:
        if path in self._directories:
            raise self._archive.refuse(path, "lies where another member is a directory")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._open(above))

    def _write(self, member: Member, name: bytes, directory: int, content: "IO[bytes]") -> None:
        self._before(0 if member.sparse else member.size)  # how much of it is holes is not known
        descriptor = os.open(name, _NEW, 0o600, dir_fd=directory)
        try:
            if self._pack is not None:
                offset = self._pack.add(member._replace(mode=member.mode | _READABLE), content)
                if offset != member.size:
                    raise damaged(self._archive.path, "a member has another size than its header names")
            else:
                offset = write_content(descriptor, content, member.sparse)
            os.fchmod(descriptor, member.mode | _READABLE)
            os.utime(descriptor, ns=(member.mtime, member.mtime))
        finally:
            os.close(descriptor)
            content.close()
        self.files += 1
        self.bytes += offset

    def _link(self, member: Member, name: bytes, directory: int) -> None:
        above, _, first = member.target.rpartition(b"/")
        try:
            there = open_below(self._root, above)
        except OSError as fault:
            if fault.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            raise self._no_file(member) from None
        with closing(there):
            if not _is_file(there, first):
                raise self._no_file(member)
            os.link(first, name, src_dir_fd=there, dst_dir_fd=directory, follow_symlinks=False)
        if self._pack is not None:
            self._pack.link(member)

    def _no_file(self, member: Member) -> SourceFault:
        target = text.name(member.target)
        return self._archive.refuse(
            member.path, "is a hard link to `{}`, which is not a file of an earlier member".format(target)
        )


def _is_file(directory: int, name: bytes) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
