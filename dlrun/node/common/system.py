"""Calls of the system: cores, disks, and the few that Python 3.6 does not have (syncfs, fallocate, ...).

Each one falls back where the C library or the file system does not have it.
"""

import contextlib
import ctypes
import errno
import os
import signal
from typing import Any, Optional

_IOPRIO_SET = {
    "x86_64": 251,
    "aarch64": 30,
    "ppc64le": 273,
    "s390x": 282,
}  # system call numbers, linux/unistd.h
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
_RENAME_EXCHANGE = 2
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _c() -> Optional[Any]:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:  # a static Python
        return None


def usable_cores() -> int:
    """The cores that this process may use: a job's share of a node, not the node."""
    return len(os.sched_getaffinity(0))


def waited_for_cores() -> float:
    """Seconds that this process's threads could have computed and had no core for it; 0 where the kernel does not count it.

    It is the second number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
    """
    nanoseconds = 0
    with contextlib.suppress(OSError, IndexError, ValueError):  # a thread has ended, or nothing is counted
        for thread in os.listdir("/proc/self/task"):
            with open("/proc/self/task/{}/schedstat".format(thread), "rb") as file:
                nanoseconds += int(file.read().split()[1])
    return nanoseconds / 1e9


def on_block_device(descriptor: int) -> bool:
    """Whether a file or directory lies on a disk of this node: file systems of the network and of memory have no device."""
    return os.major(os.fstat(descriptor).st_dev) != 0


def file_system(device: int, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system of a device (st_dev), by the file of mounts; empty where that is not known."""
    wanted = "{}:{}".format(os.major(device), os.minor(device))
    with contextlib.suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2:3] == [wanted]:
                return (rest.split() or [""])[0]
    return ""


def sync_file_system(descriptor: int) -> None:
    """Wait until everything written to a descriptor's file system is on its disk; all of them when in doubt."""
    library = _c()
    if library is None or not hasattr(library, "syncfs") or library.syncfs(descriptor) != 0:
        os.sync()


def fallocate(descriptor: int, size: int) -> int:
    """Reserve the first `size` bytes of a file; 0, or the error number (ENOSYS where nothing can be reserved)."""
    library = _c()
    if library is None or not hasattr(library, "fallocate"):
        return errno.ENOSYS
    call = library.fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
    return 0 if call(descriptor, 0, 0, size) == 0 else ctypes.get_errno()


def idle_io() -> bool:
    """Let this process and those it starts use the disk only when it is otherwise idle; whether that was possible."""
    library, number = _c(), _IOPRIO_SET.get(os.uname().machine)
    return (
        library is not None
        and number is not None
        and library.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE) == 0
    )


def end_with_parent() -> None:
    """Let this process be killed when the one that forked it ends, where the C library can arrange that."""
    library = _c()
    if library is not None and hasattr(library, "prctl"):
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def exchange(directory_a: int, a: bytes, directory_b: int, b: bytes) -> bool:
    """Exchange two names at once; whether the kernel and the file system could."""
    library = _c()
    if library is None or not hasattr(library, "renameat2"):
        return False
    return bool(library.renameat2(directory_a, a, directory_b, b, ctypes.c_uint(_RENAME_EXCHANGE)) == 0)
