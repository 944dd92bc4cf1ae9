"""The status of many files of a directory, as columns: without an object for each file, most of which are never looked at.

By statx(2) through ctypes, all calls in one loop of the interpreter. Where that is missing (glibc before 2.28, Linux before
4.11), `read` returns False, and the caller asks for each file by os.stat.
"""

import ctypes
from itertools import repeat
from typing import Dict, List, Sequence

from .system import c_library

SIZE_OF_STATUS = 256  # bytes of struct statx (linux/stat.h); the offsets below are of its fields
_EVERY = 0x7FF  # all fields of stat(2)
_SIZE_AND_TIMES = 0x2C0  # size, mtime and ctime: a network file system need not ask its server for others
_NO_AUTOMOUNT, _NO_FOLLOW = 0x800, 0x100
_NS = 10**9


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
            "q": whole.cast("q"), "I": whole.cast("I"), "H": whole.cast("H")
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

    def owners(self) -> "memoryview[int]":
        """The user ids; needs `every`."""
        return self._column("I", 20)
