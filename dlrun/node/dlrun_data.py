"""Wait for files of a data set that is still being copied to this node: `dlrun_data.wait(path)`, `dlrun_data.files(directory)`.

With the key `start` of a data set, training begins before the copy is complete. Each file appears under its final name
once it is complete. In a shell, `python3 -m dlrun_data PATH...` prints each path once it exists, and fails if the path
is not part of the set or the copy has failed. Programs import this module, which the job puts on PYTHONPATH.
"""

import errno
import fcntl
import fnmatch
import os
import sys
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

POLL = 0.05  # seconds between two checks for a file
_lists: Dict[str, Tuple[float, List[str]]] = {}


class NeverComes(OSError):
    """The file is not part of the data set, or the copy failed before the file was complete."""


def wait(path: Any, timeout: Optional[float] = None) -> str:
    """Wait for a file, or for all files below a directory, and return its absolute path.

    Raises NeverComes if the path is not part of the data set or the copy has failed, TimeoutError after `timeout`
    seconds (default: no limit).
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
    """The paths of all files below a directory, copied or not yet, in the order of the copy.

    `pattern`: a glob for the last component of the path.
    """
    place = str(os.path.abspath(os.fspath(directory)))
    home = _home(place)
    if home is None:
        paths = sorted(os.path.join(d, name) for d, _, names in os.walk(place) for name in names)
    else:
        data = os.path.join(home, "data")
        paths = [os.path.join(data, name) for name in _below(home, os.path.relpath(place, data))]
    return [name for name in paths if fnmatch.fnmatch(os.path.basename(name), pattern)]


def _home(place: str) -> Optional[str]:
    """The directory of `data` and `state` (see early.py) above a path; None outside a set that is being copied."""
    above = place
    while above != os.path.dirname(above):
        above, leaf = os.path.split(above)
        if leaf == "data" and os.path.exists(os.path.join(above, "state")):
            return above
    return None


def _below(home: str, relative: str) -> List[str]:
    """The files of the set at or below a path relative to it; NeverComes if there is none."""
    names = _list(home)
    if relative in (".", ""):
        return names
    matches = [name for name in names if name == relative or name.startswith(relative + "/")]
    if not matches and not os.path.lexists(os.path.join(home, "data", relative)):
        raise NeverComes(errno.ENOENT, "not part of the data set", os.path.join(home, "data", relative))
    return matches


def _list(home: str) -> List[str]:
    path = os.path.join(home, "files")
    while not os.path.exists(path):
        if not _alive(home):
            raise NeverComes(errno.EIO, "the copying has ended: {}".format(_state(home)), path)
        time.sleep(POLL)
    known = _lists.get(home)
    # A restarted job stages the set again under the same path, and the list may differ: an equal time means the same list.
    made = os.stat(path).st_mtime
    if known is None or known[0] != made:
        with open(path, "rb") as file:
            names = [os.fsdecode(name) for name in file.read().split(b"\0")[:-1]]
        known = _lists[home] = (made, names)
    return known[1]


def _one(home: str, path: str, end: Optional[float]) -> None:
    while not os.path.lexists(path):
        alive, state = _alive(home), _state(home)
        # Checked again after the state: the file may have been linked, and the copy ended, between the two.
        if not os.path.lexists(path) and not (alive and state == "copying"):
            raise NeverComes(
                errno.EIO, "it will not be copied: the copying has ended ({})".format(state), path
            )
        if end is not None and time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, "still being copied", path)
        time.sleep(POLL)


def _state(home: str) -> str:
    with open(os.path.join(home, "state"), encoding="utf-8", errors="replace") as file:
        return file.read()


def _alive(home: str) -> bool:
    """Whether the copying process still runs: it holds an exclusive lock, which the kernel releases when it ends."""
    with open(os.path.join(home, "lock"), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def main(paths: Iterable[str]) -> int:
    """Print each path once it exists; exit status 1 at the first that will not."""
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
