"""The status of files by statx(2), through ctypes; without it (glibc before 2.28, Linux before 4.11) by stat(2).

`Statuses` has those of many files of a directory as columns, from calls in one loop of the interpreter: without an object for
each file, most of which are never looked at. Without statx its `read` returns False, and the caller asks for each by os.stat.
"""

import ctypes
import os
import struct
from itertools import repeat
from typing import Callable, Dict, List, Sequence, Tuple

from .system import c_library

SIZE_OF_STATUS = 256  # bytes of struct statx (linux/stat.h); the offsets below are of its fields
_EVERY = 0x7FF  # all fields of stat(2)
_SIZE_AND_TIMES = 0x2C0  # size, mtime and ctime: a network file system need not ask its server for others
_SIZE_AND_MTIME = 0x240
_NO_AUTOMOUNT, _NO_FOLLOW, _EMPTY_PATH = 0x800, 0x100, 0x1000
_NS = 10**9
_TWO = struct.Struct("40xQ64xqI132x")  # size; seconds and nanoseconds of the last change


def size_and_time() -> Callable[[int], Tuple[int, int]]:
    """A function that returns (size in bytes, modification time in ns) of an open file, without other fields.

    After a read the access time that a FUSE file system has cached is void: for all fields it is asked once more, for these
    two it is not. For one thread.
    """
    call = getattr(c_library(), "statx", None)
    if call is None:
        return fstat_size_and_time
    buffer = ctypes.create_string_buffer(SIZE_OF_STATUS)

    def statx(descriptor: int) -> Tuple[int, int]:
        if call(descriptor, b"", _EMPTY_PATH, _SIZE_AND_MTIME, buffer):
            return fstat_size_and_time(descriptor)  # ENOSYS: Linux before 4.11
        size, seconds, nanoseconds = _TWO.unpack(buffer)
        return size, seconds * _NS + nanoseconds

    return statx


def fstat_size_and_time(descriptor: int) -> Tuple[int, int]:
    """As a function of `size_and_time`, by fstat(2)."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


class Statuses:
    """The statuses of up to `most` files at a time; for one thread. Columns are valid until the next `read`.

    follow: of the targets of symbolic links; every: with all fields, not only sizes and times.
    """

    def __init__(self, most: int, follow: bool = False, every: bool = False) -> None:
        self._call = getattr(c_library(), "statx", None)
        self._count, self._flags = 0, _NO_AUTOMOUNT | (0 if follow else _NO_FOLLOW)
        self._mask = _EVERY if every else _SIZE_AND_TIMES
        content = bytearray(SIZE_OF_STATUS * most)
        buffer = (ctypes.c_char * len(content)).from_buffer(content)
        self._places = [ctypes.byref(buffer, SIZE_OF_STATUS * number) for number in range(most)]
        whole = memoryview(content)
        self._views: Dict[str, "memoryview[int]"] = {
            "q": whole.cast("q"), "Q": whole.cast("Q"), "I": whole.cast("I"), "H": whole.cast("H")
        }  # fmt: skip

    def read(self, directory: int, names: Sequence[bytes]) -> bool:
        """Read the statuses of names in an open directory; False if that is impossible, or one of them is missing."""
        self._count = len(names)
        if self._call is None or self._count > len(self._places):
            return False
        columns = (repeat(directory), names, repeat(self._flags), repeat(self._mask), self._places)
        return not any(map(self._call, *columns))

    def _column(self, code: str, offset: int) -> "memoryview[int]":
        view = self._views[code]
        step = SIZE_OF_STATUS // view.itemsize
        return view[offset // view.itemsize : self._count * step : step]

    def _times(self, offset: int) -> List[int]:
        pairs = zip(self._column("q", offset), self._column("I", offset + 8))
        return [seconds * _NS + nanoseconds for seconds, nanoseconds in pairs]

    def sizes(self) -> "memoryview[int]":
        """The sizes in bytes; comparable with an array of type `q`."""
        return self._column("q", 40)

    def mtimes(self) -> List[int]:
        """The modification times in nanoseconds."""
        return self._times(112)

    def ctimes(self) -> List[int]:
        """The change times in nanoseconds."""
        return self._times(96)

    def newest(self) -> int:
        """The latest change time in nanoseconds."""
        seconds = self._column("q", 96).tolist()
        latest = max(seconds)
        nanoseconds = self._column("I", 104)
        return latest * _NS + max(n for second, n in zip(seconds, nanoseconds) if second == latest)

    def modes(self) -> "memoryview[int]":
        """The modes, with the types of the files; needs `every`."""
        return self._column("H", 28)

    def inodes(self) -> "memoryview[int]":
        """The inode numbers; needs `every`, and comparable with an array of type `Q`."""
        return self._column("Q", 32)

    def owners(self) -> "memoryview[int]":
        """The user ids; needs `every`."""
        return self._column("I", 20)
