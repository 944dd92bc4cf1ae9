"""Read small files of procfs and sysfs, mostly with one read call; missing files are empty."""

import os
from typing import Dict, List, Optional

_AT_ONCE = 1 << 16


def read(path: str) -> Optional[bytes]:
    """A file's content; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        # Files of procfs have no size: read until the end. A second short read is taken for the end, which saves a call.
        parts = [os.read(descriptor, _AT_ONCE)]
        while len(parts[-1]) > 0 and len(parts) < 64:
            if len(parts[-1]) < _AT_ONCE // 2 and len(parts) > 1:
                break
            parts.append(os.read(descriptor, _AT_ONCE))
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def text(path: str) -> str:
    """A file's content as stripped text; empty if it cannot be read."""
    return (read(path) or b"").decode("utf-8", "replace").strip()


def number(path: str) -> Optional[int]:
    """The first number of a file; None for other content, such as `max`."""
    try:
        return int(text(path).split()[0])
    except (IndexError, ValueError):
        return None


def table(path: str) -> Dict[str, int]:
    """Name -> first number, from lines such as `VmRSS:  12 kB` or `usage_usec 12`."""
    values = {}
    for line in (read(path) or b"").decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            values[words[0].rstrip(":")] = int(words[1])
    return values


def names(path: str) -> List[str]:
    """The sorted names of a directory; empty if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
