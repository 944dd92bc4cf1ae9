"""Free memory, for data sets in memory file systems.

Files in a tmpfs (tmpfs(5), /dev/shm) use memory: the size of the file system is only a maximum, and pages are charged to
the control group of the job that writes them.
"""

from typing import Dict, Iterator, Optional

KINDS = ("tmpfs", "ramfs")
"""Types of memory file systems."""
_UNLIMITED = 1 << 62  # bytes; control groups of version 1 report a larger number for no limit


def free(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> Optional[int]:
    """Bytes of memory that this process may still use: the least of the node's and its control groups'; None if unknown."""
    sizes = [_available(_read(proc + "/meminfo")), *_groups(_read(proc + "/self/cgroup"), groups)]
    known = [size for size in sizes if size is not None]
    return min(known) if known else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _available(meminfo: str) -> Optional[int]:
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _groups(listed: str, root: str) -> Iterator[Optional[int]]:
    """Bytes left in each control group of this process and its ancestors, version 1 and 2."""
    for line in listed.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            base, limit, used, cached = root, "memory.max", "memory.current", ("active_file", "inactive_file")
        elif "memory" in controllers.split(","):
            base, limit, used = root + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = ("total_active_file", "total_inactive_file")
        else:
            continue
        while path.strip("/"):
            directory = base + path
            most, now = _read(directory + "/" + limit).strip(), _read(directory + "/" + used).strip()
            if most.isdigit() and now.isdigit() and int(most) < _UNLIMITED:
                # The page cache is counted as memory of the group, but the kernel drops it when memory is needed.
                state = _pairs(_read(directory + "/memory.stat"))
                yield max(0, int(most) - int(now) + sum(state.get(name, 0) for name in cached))
            path = path.rpartition("/")[0]


def _pairs(text: str) -> Dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, text.splitlines()) if len(words) == 2}
