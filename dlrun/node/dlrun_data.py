"""Wait for files of a data set that is still being copied to this node: `dlrun_data.wait(path)`, `dlrun_data.files(directory)`.

With `start` in a data set, training begins before all of it is there. Each file appears under its name once it is whole.
In a shell: `python3 -m dlrun_data PATH...` prints each path when it is there, and fails if it will never be.
"""

import errno
import fcntl
import fnmatch
import os
import sys
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

POLL = 0.05  # seconds between two looks
_lists: Dict[str, Tuple[float, List[str]]] = {}


class NeverComes(OSError):
    """A file that is not part of the data set, or whose copying failed."""


def wait(path: Any, timeout: Optional[float] = None) -> str:
    """The path, once its file is there; of a directory, once all files below it are.

    Raises NeverComes when it will never be there, TimeoutError after `timeout` seconds (default: no limit).
    """
    place = str(os.path.abspath(os.fspath(path)))
    end = None if timeout is None else time.monotonic() + timeout
    home = _home(place)
    if home is None:
        if os.path.lexists(place):
            return place
        raise NeverComes(errno.ENOENT, "not there, and not in a data set that is still being copied", place)
    data = os.path.join(home, "data")
    for wanted in _below(home, os.path.relpath(place, data)):
        _one(home, os.path.join(data, wanted), end)
    return place


def files(directory: Any, pattern: str = "*") -> List[str]:
    """The paths of all files below a directory that are there or will be, in the order in which they are copied.

    `pattern`: of the file's name.
    """
    place = str(os.path.abspath(os.fspath(directory)))
    home = _home(place)
    if home is None:
        found = sorted(os.path.join(d, name) for d, _, names in os.walk(place) for name in names)
    else:
        data = os.path.join(home, "data")
        found = [os.path.join(data, name) for name in _below(home, os.path.relpath(place, data))]
    return [name for name in found if fnmatch.fnmatch(os.path.basename(name), pattern)]


def _home(place: str) -> Optional[str]:
    """The directory that has `data`, in which the place is, and what is known of the copying; None where there is none."""
    above = place
    while above != os.path.dirname(above):
        above, leaf = os.path.split(above)
        if leaf == "data" and os.path.exists(os.path.join(above, "state")):
            return above
    return None


def _below(home: str, relative: str) -> List[str]:
    """The files of the set that are `relative`, or below it."""
    names = _list(home)
    if relative in (".", ""):
        return names
    found = [name for name in names if name == relative or name.startswith(relative + "/")]
    if not found and not os.path.lexists(os.path.join(home, "data", relative)):
        raise NeverComes(errno.ENOENT, "not part of the data set", os.path.join(home, "data", relative))
    return found


def _list(home: str) -> List[str]:
    path = os.path.join(home, "files")
    while not os.path.exists(path):
        if not _alive(home):
            raise NeverComes(errno.EIO, "the copying has ended: {}".format(_state(home)), path)
        time.sleep(POLL)
    known = _lists.get(home)
    made = os.stat(path).st_mtime
    if known is None or known[0] != made:
        with open(path, "rb") as file:
            names = [os.fsdecode(name) for name in file.read().split(b"\0")[:-1]]
        known = _lists[home] = (made, names)
    return known[1]


def _one(home: str, path: str, end: Optional[float]) -> None:
    while not os.path.lexists(path):
        alive, state = _alive(home), _state(home)
        if not os.path.lexists(path) and not (alive and state == "copying"):
            raise NeverComes(errno.EIO, "it will not come, the copying has ended ({})".format(state), path)
        if end is not None and time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, "still being copied", path)
        time.sleep(POLL)


def _state(home: str) -> str:
    with open(os.path.join(home, "state"), encoding="utf-8", errors="replace") as file:
        return file.read()


def _alive(home: str) -> bool:
    """Whether the process that copies still runs: it holds a lock."""
    with open(os.path.join(home, "lock"), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def main(paths: Iterable[str]) -> int:
    """Print each path when it is there; 1 if one will never be."""
    try:
        for path in paths:
            sys.stdout.write(wait(path) + "\n")
            sys.stdout.flush()
    except OSError as fault:
        sys.stderr.write("dlrun_data: {}: {}\n".format(fault.filename, fault.strerror))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
