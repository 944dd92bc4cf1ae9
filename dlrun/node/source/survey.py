"""Build the manifest from a walk: put entries in order, reject those that cannot be copied, list those that change."""

import contextlib
import errno
import os
import resource
import stat
import time
from typing import Dict, List, Optional, Sequence, Tuple

from ..common import text
from ..common.errors import SourceFault, error_text
from ..common.system import file_system
from .changes import survey_changes
from .listing import (
    BLOCK,
    BLOCKS,
    CTIME,
    DEVICE,
    GROUP,
    INODE,
    MODE,
    MTIME,
    NLINK,
    SIZE,
    USER,
    Findings,
    Status,
)
from .manifest import FILE, HARD, LINK, ROOT_TIME, Manifest
from .selection import Options, Source
from .walk import Walk, join

ATTRIBUTES = "attributes"  # key of `info`: names of attributes that are not copied
MAX_DESCRIPTORS = 1 << 16  # of a process; the kernel's default maximum is a million (fs.nr_open)
RESERVE = 1024  # descriptors for the threads of the walk and the workers, with their directories, and for connections


def survey(
    source: Source, options: Options, to_read: bool = False, earlier: Optional[Manifest] = None
) -> Tuple[Manifest, Findings]:
    """The manifest of a source, without hashes, and the findings for the report.

    to_read: the files are read next, and may be left open for that (see `Walk`); earlier: the manifest of an earlier survey of
    this source with these options.

    Raises SourceFault if an entry cannot be read, if nothing is selected, or if the source has devices, pipes, sockets or
    privileged modes and the options do not skip them.
    """
    keep_open = max(0, _spare_descriptors() - RESERVE) // 2 if to_read else 0
    # The names of attributes that are not copied; None if files had others, or if that is not known.
    lost = _lost_attributes(earlier) if earlier and options.xattrs else []
    if earlier and lost is not None:
        changes = survey_changes(source, options, earlier)
        if changes is not None:
            made, findings = changes
            findings.attributes.update(lost)
            describe(made, source, options, findings)
            return made, findings
    known = earlier if options.xattrs and lost is not None else None
    walk = Walk(source, options, keep_open, dict(zip(known.inodes, known.ctimes)) if known else {})
    walk.findings.attributes.update(lost or ())
    began = time.perf_counter()
    try:
        walk.run()
    except OSError as fault:
        raise SourceFault(
            "the source `{}` cannot be read: {}".format(text.name(source.root), error_text(fault)),
            "seen from {}".format(os.uname().nodename),
        ) from None
    seconds = time.perf_counter() - began
    made = _columns(walk)
    walk.findings.rate = round(len(made.names) / seconds)
    walk.findings.unreadable += unreadable_files(walk)
    _reject(walk.findings, options)
    if not made.names and (source.parts or source.include or source.exclude):
        raise SourceFault(
            "nothing in `{}` is selected".format(text.name(source.root)),
            "check the glob, `include` and `exclude`",
        )
    describe(made, source, options, walk.findings)
    if file_system(os.stat(source.root).st_dev).startswith("fuse"):
        # Many FUSE file systems make up change times and inodes at each mount: every set would look changed.
        made.ctimes, made.inodes = made.ctimes[:0], made.inodes[:0]
    return made, walk.findings


def _spare_descriptors() -> int:
    """The number of files that this process may still open, after its limit has been raised as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return max(
        0, (most if soft == resource.RLIM_INFINITY else min(soft, most)) - len(os.listdir("/proc/self/fd"))
    )


def describe(made: Manifest, source: Source, options: Options, findings: Findings) -> None:
    """Record the source, and the attributes that are not copied, in the manifest."""
    made.info["source"] = source.describe()
    if source.parts:
        # The directory above a glob, or a single file, changes with what is not selected, too, and the data stays as it was.
        made.info[ROOT_TIME] = made.dir_mtimes[0]
        made.dir_mtimes[0] = max(made.mtimes, default=0)
    if options.xattrs:
        made.info[ATTRIBUTES] = sorted(map(os.fsdecode, findings.attributes))


def _lost_attributes(earlier: Manifest) -> Optional[List[bytes]]:
    """The names of attributes that are not copied, of a survey in which no file had one that is; None of any other."""
    lost = earlier.info.get(ATTRIBUTES)  # missing in manifests of older versions
    return None if lost is None or earlier.xattrs else list(map(os.fsencode, lost))


def unreadable_files(walk: Walk) -> List[Tuple[bytes, str]]:
    """(path, reason) of files that this user may not read.

    By their modes, without a call per file; where the mode denies it access(2) decides, since an ACL may allow it.
    """
    user, groups = os.geteuid(), {os.getegid(), *os.getgroups()}
    if user == 0:
        return []
    unreadable: List[Tuple[bytes, str]] = []
    for directory, listing in walk.listings.items():
        for name, status in zip(listing.names, listing.statuses):
            mode = status[MODE]
            if mode & 0o444 == 0o444 or not stat.S_ISREG(mode):
                continue
            bit = 0o400 if status[USER] == user else 0o040 if status[GROUP] in groups else 0o004
            path = join(directory, name)
            if not mode & bit and not os.access(join(walk.root, path), os.R_OK, effective_ids=True):
                unreadable.append((path, os.strerror(errno.EACCES)))
    return unreadable


def _reject(findings: Findings, options: Options) -> None:
    if findings.unreadable:
        first = findings.unreadable[0]
        count = len(findings.unreadable)
        raise SourceFault(
            "{:,} {} of the source cannot be read: {} ({})".format(
                count,
                "entry" if count == 1 else "entries",
                text.names([path for path, _ in findings.unreadable]),
                first[1],
            ),
            "make it readable, or leave it out with `exclude` (--exclude)",
        )
    if options.skip_special:
        return
    for paths, what in (
        (findings.special, "devices, pipes or sockets"),
        (findings.privileged, "set-user-id, set-group-id or sticky modes"),
    ):
        if paths:
            raise SourceFault(
                "the source holds {}: {}".format(what, text.names(paths)),
                "leave them out with `exclude` (--exclude)",
            )


def _columns(walk: Walk) -> Manifest:
    made = Manifest()
    inodes: Dict[Tuple[int, int], int] = {}
    made.dirs = sorted(walk.listings)
    for number, directory in enumerate(made.dirs):
        listing = walk.listings[directory]
        listing.sort()
        made.dir_modes.append(listing.status[MODE] & 0o777)
        if listing.status[MODE] & 0o7000:
            walk.findings.directories.append(directory or b".")
        made.dir_mtimes.append(listing.status[MTIME])
        _attributes(made, walk, -1 - number, directory)
        columns = list(zip(*listing.statuses))
        if columns and _only_files(columns) and not walk.xattrs:
            _add_files(made, number, listing.names, columns)
        else:
            for name, status in zip(listing.names, listing.statuses):
                _add_entry(made, walk, number=number, name=name, status=status, inodes=inodes)
    return made


def _only_files(columns: Sequence[Tuple[int, ...]]) -> bool:
    """Whether a directory has only regular files without hard links and holes: the fast path for nearly all."""
    kinds = {mode & ~0o777 for mode in set(columns[MODE])}
    if kinds != {stat.S_IFREG} or set(columns[NLINK]) != {1}:
        return False
    # Of equal pairs, of which a directory mostly has few, one is compared.
    return all(blocks * BLOCK >= size for blocks, size in set(zip(columns[BLOCKS], columns[SIZE])))


def _add_files(made: Manifest, number: int, names: List[bytes], columns: Sequence[Tuple[int, ...]]) -> None:
    count = len(names)
    made.names += names
    made.kinds += bytes((FILE,)) * count
    made.parents.extend([number] * count)
    made.modes.extend([mode & 0o777 for mode in columns[MODE]])
    made.sizes.extend(columns[SIZE])
    made.ctimes.extend(columns[CTIME])
    made.inodes.extend(columns[INODE])
    made.mtimes.extend(columns[MTIME])


def _add_entry(
    made: Manifest,
    walk: Walk,
    number: int,
    name: bytes,
    status: Status,
    inodes: Dict[Tuple[int, int], int],
) -> None:
    path = join(made.dirs[number], name)
    mode, size, entry = status[MODE], status[SIZE], len(made.names)
    kind = FILE
    if stat.S_ISLNK(mode):
        kind, size = LINK, 0
        made.links.append(walk.targets[path])
        if points_outside(made.dirs[number], walk.targets[path]):
            walk.findings.outside.append(path)
    elif not stat.S_ISREG(mode):
        walk.findings.special.append(path)
        return
    else:
        if mode & 0o7000:
            walk.findings.privileged.append(path)
        # The first name of an inode has the data; its other names become hard links to it.
        first = inodes.setdefault((status[DEVICE], status[INODE]), entry) if status[NLINK] > 1 else entry
        if first != entry:
            kind, size = HARD, 0
            made.hard.append(first)
        elif status[BLOCKS] * BLOCK < size:
            made.sparse.append(entry)
        if kind == FILE:
            _attributes(made, walk, entry, path)
    made.names.append(name)
    made.kinds.append(kind)
    made.parents.append(number)
    made.modes.append(mode & 0o777)
    made.sizes.append(size)
    made.mtimes.append(status[MTIME])
    made.ctimes.append(status[CTIME])
    made.inodes.append(status[INODE])


def _attributes(made: Manifest, walk: Walk, entry: int, path: bytes) -> None:
    if walk.xattrs:
        made.xattrs += [(entry, key, value) for key, value in walk.xattrs.get(path, ())]


def points_outside(directory: bytes, target: bytes) -> bool:
    """Whether a link in a directory of the data set names a place outside it; links in between are not followed."""
    if target.startswith(b"/"):
        return True
    landed = os.path.normpath(b"/".join((directory or b".", target)))
    return landed == b".." or landed.startswith(b"../")


def lost_properties(findings: Findings, options: Options) -> List[str]:
    """The report's lines, one per kind of entry or attribute not copied unchanged."""
    lines: List[str] = []
    if findings.special:
        lines.append("left out, neither file nor link: " + text.names(findings.special))
    if findings.privileged:
        lines.append("set-user-id, set-group-id and sticky bits stripped: " + text.names(findings.privileged))
    if findings.directories:
        lines.append(
            "set-group-id and sticky bits of directories not kept: " + text.names(findings.directories)
        )
    if findings.outside:
        lines.append("links that lead out of the data set, kept as they are: " + text.names(findings.outside))
    if findings.attributes:
        lines.append("attributes not copied: " + text.names(sorted(findings.attributes)))
    if not options.xattrs:
        lines.append("extended attributes: not read")
    return lines
