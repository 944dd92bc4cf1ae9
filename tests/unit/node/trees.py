"""Directory trees to copy, and what a test compares: everything that a copy must keep."""

import hashlib
import os
import stat


def write(path, data=b"data", mode=0o644, mtime=None):
    """A file with its directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))


def odd(root):
    """Every kind of entry and name that other tools lose; gives what was made as `snapshot` would."""
    root = os.fsencode(root)
    os.makedirs(root)
    for name in (
        b"plain.txt",
        b"with space/and tab\t.txt",
        b"new\nline.txt",
        b"dir\nnl/f",
        b"nonutf8-\xff\xfe.bin",
        b"-dash",
        b"--help",
        b"quote'\"`$(x).txt",
        b"back\\slash",
        b"*glob?[a]",
        b"L" * 255,
        b".hidden",
        b"~tilde",
        b"#hash",
        "\u00e9nfd".encode() + b".txt",
        "e\u0301nfd.txt".encode(),
        b"a/same",
        b"a.b/same",
        b"a/b/same",
    ):
        write(root + b"/" + name, name)
    write(root + b"/empty", b"")
    write(root + b"/exec.sh", b"#!/bin/sh\n", 0o755)
    write(root + b"/read-only", b"r", 0o400)
    if os.geteuid() == 0:  # only root may read, and so copy, such a file
        write(root + b"/no-mode", b"n", 0o000)
    write(root + b"/old", b"o", 0o640, 1_000_000_000_123_456_789)
    write(root + b"/middling", os.urandom(3_000_000))
    write(root + b"/large", os.urandom(9_000_001), 0o440)
    os.makedirs(root + b"/empty-directory")
    write(root + b"/closed/f")
    deep = root + b"/" + b"/".join([b"deep" * 12] * 20)
    write(deep + b"/leaf")
    for name, target in (
        (b"relative", b"plain.txt"),
        (b"absolute", b"/etc/hostname"),
        (b"dangling", b"nowhere"),
        (b"up", b".."),
        (b"with\nnewline", b"new\nline.txt"),
        (b"to-directory", b"a"),
    ):
        os.symlink(target, root + b"/" + name)
    write(root + b"/hard-1", b"h" * 100)
    os.link(root + b"/hard-1", root + b"/hard-2")
    os.link(root + b"/hard-1", root + b"/a/hard-3")
    for name, size in ((b"/sparse", 3 << 20), (b"/sparse-large", 40 << 20)):
        with open(root + name, "wb") as file:
            file.seek(size)
            file.write(b"x")
    with open(root + b"/sparse-large", "r+b") as file:
        file.seek(17 << 20)
        file.write(b"island")
    os.chmod(root + b"/closed", 0o555)
    os.utime(root + b"/empty-directory", ns=(10**18 + 5, 10**18 + 5))
    return snapshot(root)


def has_xattrs(directory):
    """Whether the file system of a directory keeps user attributes."""
    try:
        os.setxattr(directory, "user.dlrun-test", b"1")
        os.removexattr(directory, "user.dlrun-test")
    except OSError:
        return False
    return True


def snapshot(root):
    """Every entry below a directory with all that must be the same in a copy."""
    root = os.fsencode(root)
    found, inodes = {}, {}
    for directory, below, files in os.walk(root):
        for name in [b"", *below, *files]:
            path = os.path.join(directory, name) if name else directory
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            entry = [kind, status.st_mtime_ns]
            if kind == stat.S_IFLNK:
                entry.append(os.readlink(path))
            else:
                entry.append(stat.S_IMODE(status.st_mode))
                entry.append(
                    sorted((a, os.getxattr(path, a)) for a in os.listxattr(path) if a.startswith("user."))
                )
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    entry.append(hashlib.sha1(file.read()).hexdigest())
                entry.append(status.st_blocks * 512 < status.st_size)
                entry.append(
                    inodes.setdefault(status.st_ino, os.path.relpath(path, root))
                    if status.st_nlink > 1
                    else None
                )
            found[os.path.relpath(path, root)] = entry
    first = {}
    for path in sorted(found):  # hard links by the first name, whatever order they were met in
        entry = found[path]
        if entry[0] == stat.S_IFREG and entry[-1] is not None:
            entry[-1] = first.setdefault(entry[-1], path)
    return found


def data_size(root):
    """The bytes of all files below a directory, those of a file with several names once."""
    found = {}
    for directory, _, files in os.walk(os.fsencode(root)):
        for name in files:
            status = os.lstat(os.path.join(directory, name))
            if stat.S_ISREG(status.st_mode):
                found[status.st_ino] = status.st_size
    return sum(found.values())
