"""System calls for cores and disks, also those that Python 3.6 lacks: syncfs, fallocate, renameat2, ioprio_set, prctl.

Each has a fallback for C libraries and file systems without it.
"""

import contextlib
import ctypes
import errno
import os
import signal
import time
from typing import Any, List, Optional

# System call numbers (linux/unistd.h): the C library has no function for this call.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
_RENAME_EXCHANGE = 2
_PF_KTHREAD = 0x00200000  # linux/sched.h: a thread of the kernel, which has no environment
_EXEC = 10.0  # seconds, at most, that an exec is awaited; from a slow file system it takes long
_EXEC_ENDED = 0.1  # seconds: a file of /proc that was opened before the exec shows nothing after it, and is opened a second time
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def c_library() -> Optional[Any]:
    """The C library; None for a static Python."""
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def boot() -> str:
    """The id of this boot of the node."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    # Missing in some containers: then each run counts as a new boot, and nothing written before is trusted.
    except OSError:
        return "unknown {}".format(os.getpid())


def environment(process: str) -> List[bytes]:
    """The variables, `NAME=value`, with which a process has begun. Raises OSError if it has ended or is another user's.

    A process in the middle of its exec shows none: it is awaited.
    """
    began = time.monotonic()
    while True:
        with open("/proc/{}/environ".format(process), "rb") as file:
            content = file.read()
        if content or time.monotonic() - began > _exec_wait(process):
            return content.split(b"\0")
        time.sleep(0.001)


def _exec_wait(process: str) -> float:
    """How many seconds to wait for the environment of a process that showed none (proc_pid_stat(5), env_start and env_end)."""
    with open("/proc/{}/stat".format(process), "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = fields[47:49]
    if fields[0] in (b"Z", b"X") or int(fields[6]) & _PF_KTHREAD:
        return 0.0
    if end == b"0":  # the memory of the new program has no environment yet
        return _EXEC
    return _EXEC_ENDED if start != end else 0.0


MAX_WORKERS = 4  # two reach 25 Gbit/s; more would only take cores from the job that is starting


def worker_count(asked: int) -> int:
    """The number of processes that copy: as asked, or for 0 one for each core up to MAX_WORKERS."""
    return asked or max(1, min(MAX_WORKERS, usable_cores()))


def usable_cores() -> int:
    """The number of CPUs of this process's affinity mask: the job's share of the node."""
    return len(os.sched_getaffinity(0))


def waited_for_cores() -> float:
    """Seconds that the threads of this process were runnable without a core; 0 if the kernel does not count it.

    The second number of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
    """
    nanoseconds = 0
    # A thread may end during the loop, and a kernel may be built without schedstat.
    with contextlib.suppress(OSError, IndexError, ValueError):
        for thread in os.listdir("/proc/self/task"):
            with open("/proc/self/task/{}/schedstat".format(thread), "rb") as file:
                nanoseconds += int(file.read().split()[1])
    return nanoseconds / 1e9


BUSY = 0.5  # part of the time computing below which a process mostly waits, as on a slow file system


class Waiting:
    """Whether this process mostly waits for calls: neither computes nor waits for a core, as on a busy node."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self._busy = time.process_time(), waited_for_cores()

    def is_most(self, seconds: float, part: float) -> bool:
        """Whether more than `seconds` have passed, and less than `part` of them computing or waiting for a core."""
        wall = time.perf_counter() - self.began
        if wall <= seconds or time.process_time() - self._busy[0] >= part * wall:
            return False
        # Asked only in doubt, since it reads a file for each thread.
        return time.process_time() + waited_for_cores() - sum(self._busy) < part * wall


def on_block_device(descriptor: int) -> bool:
    """Whether a file is on a block device of this node: network and memory file systems have device major 0."""
    return os.major(os.fstat(descriptor).st_dev) != 0


def file_system(device: int, mounts: str = "/proc/self/mountinfo") -> str:
    """The file system type of a device (st_dev), such as `ext4`, from mountinfo; empty if unknown."""
    wanted = "{}:{}".format(os.major(device), os.minor(device))
    with contextlib.suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2:3] == [wanted]:
                return (rest.split() or [""])[0]
    return ""


def sync_file_system(descriptor: int) -> None:
    """Flush the file system of a descriptor to its disk; all file systems where syncfs is missing or fails."""
    library = c_library()
    if library is None or not hasattr(library, "syncfs") or library.syncfs(descriptor) != 0:
        os.sync()


def fallocate(descriptor: int, size: int) -> int:
    """Reserve the first `size` bytes of a file; returns 0 or an errno (ENOSYS without fallocate)."""
    library = c_library()
    if library is None or not hasattr(library, "fallocate"):
        return errno.ENOSYS
    call = library.fallocate
    # Without types ctypes passes C ints, which are too short for the size of a file.
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
    return 0 if call(descriptor, 0, 0, size) == 0 else ctypes.get_errno()


def set_idle_io() -> bool:
    """Set the idle I/O priority for this process and its children; returns whether that succeeded."""
    library, number = c_library(), _IOPRIO_SET.get(os.uname().machine)
    return (
        library is not None
        and number is not None
        and library.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE) == 0
    )


def die_with_parent() -> None:
    """Make the kernel send SIGKILL to this process when its parent dies, if the C library has prctl."""
    library = c_library()
    if library is not None and hasattr(library, "prctl"):
        library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def exchange(directory_a: int, a: bytes, directory_b: int, b: bytes) -> bool:
    """Exchange two names atomically (renameat2); False if the kernel or the file system cannot."""
    library = c_library()
    if library is None or not hasattr(library, "renameat2"):
        return False
    return bool(library.renameat2(directory_a, a, directory_b, b, ctypes.c_uint(_RENAME_EXCHANGE)) == 0)
