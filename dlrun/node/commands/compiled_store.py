"""The user's store of what compilers have compiled, on the shared file system: one archive for each environment and machine.

STORE/caches--KEY/VERSION/cache.tar     the entries, by their paths below the caches' directory of a node
STORE/caches--KEY/VERSION/entries.json  path -> [bytes, time in ns] of each entry
STORE/caches--KEY/VERSION.json          marks a complete version: written last, its time is that of the last use

VERSION is the machine and the begin of the archive's digest. The entries are code that ranks run: what another user owns or
can write, and what is a link, is refused. A version is never changed; a newer one, made under a hidden name and renamed, has
what it had and more.
"""

import contextlib
import fcntl
import json
import os
import tarfile
import time
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, cast

from ..common import cache_lines, text
from ..common.errors import NodeError
from ..common.safety import closing
from ..store.remove import remove_tree
from .compiled_archive import Entries, Hashed, add_files, add_old, digest_of
from .private_files import private_directory_at, private_file

PREFIX = "caches--"
ARCHIVE = "cache.tar"
ENTRIES = "entries.json"
_MARK, _LOCK = ".json", ".lock"
_SUPERSEDED = (
    3600.0  # seconds since its last use for which jobs may still read a version that is not the newest
)
_UNUSED = 30 * 86400.0  # the same for the versions of other environments and machines


class Version(NamedTuple):
    """A complete version: its name, the archive's digest and path, and when it was saved, in seconds since 1970."""

    name: str
    digest: str
    path: str
    saved: float


class Store:
    """The versions of one environment, open; close it. Raises Unsafe for what is not this user's alone, OSError without them."""

    def __init__(self, path: str, key: str, make: bool = False) -> None:
        if make:
            os.makedirs(os.path.dirname(path) or ".", 0o700, exist_ok=True)
        self.path = os.path.join(path, PREFIX + key)
        self.notes: List[str] = []
        self._alone = True
        with contextlib.ExitStack() as opened:
            store = private_directory_at(path, path, None, make)
            opened.callback(os.close, store)
            self._directory = private_directory_at(PREFIX + key, self.path, store, make)
            self._opened = contextlib.ExitStack()
            self._opened.callback(os.close, self._directory)

    def close(self) -> None:
        """Close it, and release its lock."""
        self._opened.close()

    def lock(self, seconds: float) -> bool:
        """Keep others from changing the versions, `dlrun clean` too; False if they still do after so many seconds."""
        descriptor = os.open(
            _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._directory
        )
        self._opened.callback(os.close, descriptor)
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.1)
                continue
            except OSError:  # no locks on this file system: both add, and one of the two versions counts
                self._alone = False
            return True

    def newest(self, machine: str) -> Optional[Version]:
        """The last version of a machine; what is damaged or not this user's alone is in `notes`."""
        versions = []
        for name in self._versions(machine):
            path = os.path.join(self.path, name, ARCHIVE)
            try:
                with self._file(name + _MARK) as file:
                    facts = json.loads(file.read().decode("utf-8"))
                with self._below(name, ARCHIVE) as archive:
                    size = os.fstat(archive.fileno()).st_size
                version = Version(name, str(facts["digest"]), path, float(facts["saved"]))
                if size == facts["bytes"]:
                    versions.append(version)
                else:
                    self.set_aside(name)
            except (NodeError, OSError) as fault:
                self.notes.append(cache_lines.NOT_USED.format(name, getattr(fault, "message", None) or fault))
            except (LookupError, TypeError, ValueError):
                self.set_aside(name)
        return max(versions, key=lambda version: version.saved) if versions else None

    def entries(self, version: Version) -> Entries:
        """The entries of a version; none if their list is damaged: then all are added again."""
        try:
            with self._below(version.name, ENTRIES) as file:
                listed = json.loads(file.read().decode("ascii"))
            return {str(path): (int(size), int(mtime)) for path, (size, mtime) in listed.items()}
        except (AttributeError, OSError, TypeError, ValueError):
            return {}

    def use(self, version: Version) -> None:
        """Note that a version is used now."""
        os.utime(version.name + _MARK, dir_fd=self._directory, follow_symlinks=False)

    def is_damaged(self, version: Version) -> bool:
        """Whether the archive has another digest than its mark says."""
        with self._below(version.name, ARCHIVE) as file:
            return digest_of(file) != version.digest

    def set_aside(self, name: str) -> None:
        """Take a damaged version out of use; `dlrun clean` removes it."""
        self.notes.append(cache_lines.DAMAGED.format(text.name(os.fsencode(self.path + "/" + name))))
        with contextlib.suppress(OSError):
            os.unlink(name + _MARK, dir_fd=self._directory)
            os.rename(
                name, "." + name + ".damaged.new", src_dir_fd=self._directory, dst_dir_fd=self._directory
            )

    def add(
        self,
        kind: Tuple[str, str],
        entries: Entries,
        place: Callable[[str], str],
        local: Entries,
        old: Optional[Version],
    ) -> None:
        """Make a new version for a machine (name and words): of the entries, `local` ones are at `place`, others in `old`.

        The store must be locked. Raises DamagedArchive if the old version is, OSError, and SourceFault for an entry that changes.
        """
        machine, about = kind
        self._remove_left(machine)
        made = ".{}-{}.new".format(machine, os.getpid())
        os.mkdir(made, 0o700, dir_fd=self._directory)
        try:
            with self._new(made, ARCHIVE) as file:
                archive = Hashed(file)
                with tarfile.open(mode="w|", fileobj=cast(Any, archive), format=tarfile.PAX_FORMAT) as tar:
                    add_files(tar, place, {path: entries[path] for path in entries if path in local})
                    if old is not None:
                        with self._below(old.name, ARCHIVE) as earlier:
                            add_old(tar, earlier, old.digest, [path for path in entries if path not in local])
                file.flush()
                os.fsync(file.fileno())
            with self._new(made, ENTRIES) as file:
                file.write(json.dumps(entries).encode("ascii"))
            self._publish(made, machine, about, archive, len(entries))
        except BaseException:
            with contextlib.suppress(OSError):
                remove_tree(self._directory, os.fsencode(made))
            raise

    def _remove_left(self, machine: str) -> None:
        """Remove what a job whose node failed while it saved has left, and damaged versions after a month."""
        for name in self._names("." + machine, ".new"):
            damaged = name.endswith(".damaged.new")
            if not damaged or time.time() - os.stat(name, dir_fd=self._directory).st_mtime > _UNUSED:
                remove_tree(self._directory, os.fsencode(name))
        if self._alone:
            marked = self._versions(machine)
            for name in self._names(machine + "-", ""):
                if not name.endswith(_MARK) and name not in marked:
                    remove_tree(self._directory, os.fsencode(name))

    def _publish(self, made: str, machine: str, about: str, archive: Hashed, count: int) -> None:
        version = "{}-{}".format(machine, archive.digest()[:12])
        facts = {
            "version": 1, "digest": archive.digest(), "bytes": archive.size, "files": count, "saved": time.time(),
            "about": about,
        }  # fmt: skip
        with contextlib.suppress(FileNotFoundError):  # one of the same content, whose mark may be lost
            os.unlink(version + _MARK, dir_fd=self._directory)
        remove_tree(self._directory, os.fsencode(version))
        os.rename(made, version, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        mark = ".mark"
        with self._new("", mark) as file:
            file.write(json.dumps(facts).encode("ascii"))
        os.rename(mark, version + _MARK, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        for name in self._versions():
            if name != version:
                self._remove_unused(name, _SUPERSEDED if name.startswith(machine + "-") else _UNUSED)

    def _remove_unused(self, name: str, seconds: float) -> None:
        """Remove a version that no job has used for so long."""
        with contextlib.suppress(OSError):
            used = os.stat(name + _MARK, dir_fd=self._directory, follow_symlinks=False).st_mtime
            if time.time() - used > seconds:
                os.unlink(name + _MARK, dir_fd=self._directory)
                remove_tree(self._directory, os.fsencode(name))

    def _versions(self, machine: str = "") -> "List[str]":
        """The names of the versions that have a mark, of all machines or of one."""
        return [name[: -len(_MARK)] for name in self._names(machine and machine + "-", _MARK)]

    def _names(self, start: str, end: str) -> "List[str]":
        return sorted(
            name for name in os.listdir(self._directory) if name.startswith(start) and name.endswith(end)
        )

    @contextlib.contextmanager
    def _new(self, below: str, name: str) -> "Any":
        """A new file for this user alone."""
        path = os.path.join(below, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600, dir_fd=self._directory), "wb") as file:
            yield file

    @contextlib.contextmanager
    def _below(self, version: str, name: str) -> "Any":
        """A file of a version."""
        where = os.path.join(self.path, version)
        with closing(private_directory_at(version, where, self._directory)) as directory, self._file(
            name, directory, where
        ) as file:
            yield file

    @contextlib.contextmanager
    def _file(self, name: str, directory: Optional[int] = None, where: str = "") -> "Any":
        path = os.path.join(where or self.path, name)
        with open(
            private_file(name, path, self._directory if directory is None else directory), "rb"
        ) as file:
            yield file
