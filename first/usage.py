# The sampler, one process of each node, started by lib/usage.sh: what `dlrun usage` shows. Its modules, then their start.
import sys
from importlib.machinery import ModuleSpec

PACKAGE = "dlrun_usage"
SOURCES = {}

SOURCES[
    "dlrun_usage"
] = r'''"""The sampler: records the resource usage of a job's ranks on this node as JSON lines (`docs/guide/usage.md`).

It is copied to the job as `usage.py`. One process per node runs it during the training, at the lowest priority:

    python3 - $$ LOG CHECKPOINTS <usage.py    # DLRUN_RUN_DIR, DLRUN_RUN_ID, DLRUN_HOST, DLRUN_NODE_RANK as `rank.sh` sets them

`sampler` (when, and the file) > `numa`, `saving` > `ranks`, `machine`, `cgroup`, `gpus` (`nvml`, `smi`, `amd`, `rocm`,
`level_zero`) > `procfs`.
"""
'''

SOURCES[
    "dlrun_usage.__main__"
] = r'''"""`python3 - PARENT <usage.py`, or `python3 -m dlrun.node.usage PARENT`."""

import sys

from .sampler import main

if __name__ == "__main__":
    sys.exit(main())
'''

SOURCES[
    "dlrun_usage.amd"
] = r'''"""AMD GPUs, from sysfs (`gpu_busy_percent` and others: kernel documentation, GPU, amdgpu, thermal)."""

import os
from typing import Any, Dict, List

from . import procfs

BASE = "/sys/class/drm"


class Amd:
    """The node's GPUs with the driver amdgpu; raises OSError if there are none."""

    def __init__(self, base: str = BASE) -> None:
        self._places = []
        for name in procfs.names(base):
            place = "{}/{}/device".format(base, name)
            if name.startswith("card") and name[4:].isdigit() and os.path.exists(place + "/gpu_busy_percent"):
                self._places.append(place)
        if not self._places:
            raise OSError("amdgpu drives no GPU here")

    def describe(self) -> List[Dict[str, Any]]:
        """Name, unique id, and memory in bytes of each GPU."""
        return [
            {
                "name": procfs.text(place + "/product_name") or "AMD GPU",
                "uuid": procfs.text(place + "/unique_id"),
                "memory": procfs.number(place + "/mem_info_vram_total"),
                "clock": None,
                "mig": False,
            }
            for place in self._places
        ]

    def rows(self) -> List[List[Any]]:
        """The values of `gpus.COLUMNS` for each GPU."""
        return [_row(place) for place in self._places]

    def processes(self) -> List[List[int]]:
        """Empty: sysfs has no processes of a GPU."""
        return [[] for _ in self._places]


def _row(place: str) -> List[Any]:
    hwmon = next(("{}/hwmon/{}/".format(place, name) for name in procfs.names(place + "/hwmon")), place + "/")
    power = procfs.number(hwmon + "power1_average")
    if power is None:
        power = procfs.number(hwmon + "power1_input")  # newer kernels
    clock, heat = procfs.number(hwmon + "freq1_input"), procfs.number(hwmon + "temp1_input")
    return [
        procfs.number(place + "/gpu_busy_percent"),
        procfs.number(place + "/mem_busy_percent"),
        procfs.number(place + "/mem_info_vram_used"),
        None if power is None else round(power / 1e6),
        None if clock is None else round(clock / 1e6),
        None if heat is None else round(heat / 1000),
        None,
        None,
    ]
'''

SOURCES["dlrun_usage.cgroup"] = r'''"""Memory and CPU time of the job's cgroup on this node, version 1 or 2.

Schedulers name it after the job: Slurm `job_ID`, OpenPBS `ID.SERVER`, Flux and systemd a scope. If the sampler is in no
such cgroup, its cgroup may have processes of others, and the values are left out.
"""

import re
from typing import Dict, List, Optional, Tuple

from . import procfs

COLUMNS = ("cpu", "memory", "peak", "limit")
"""CPU seconds; memory in bytes: now, peak, limit (null: unknown or no limit)."""
_NAMES = re.compile(r"^(job_?\d[\w.]*|\d+(\[\d*\])?\.[\w.-]+|imp-shell-.*|flux-.*|ge_.*)$")
_NO_LIMIT = 1 << 60


class Cgroup:
    """The cgroup directories of the job; all values are None without them."""

    def __init__(
        self, words: str, membership: str = "/proc/self/cgroup", base: str = "/sys/fs/cgroup"
    ) -> None:
        self._words = [word for word in words.split() if word]
        self._places: Dict[str, str] = {}
        self._seen = 0
        for line in procfs.text(membership).splitlines():
            _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
            own = self._job(path)
            if own is None:
                continue
            if not controllers:
                self._enter("v2", own, [base, base + "/unified"])
            for controller in controllers.split(","):
                if controller in ("memory", "cpuacct"):
                    self._enter(controller, own, [base + "/" + controller, base + "/cpu,cpuacct"])

    def _job(self, path: str) -> Optional[str]:
        """The part of a cgroup path up to the last component with a job's name; None without one."""
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            if _NAMES.match(parts[end - 1]) or parts[end - 1] in self._words:
                return "/".join(parts[:end])
        return None

    def _enter(self, kind: str, own: str, places: List[str]) -> None:
        for base in places:
            path = own
            while path and not procfs.names(base + path):  # a container sees a part of the tree
                path = path[path.index("/", 1) :] if "/" in path[1:] else ""
            if path:
                self._places.setdefault(kind, base + path)

    @property
    def known(self) -> bool:
        """Whether the job has a cgroup of its own on this node."""
        return bool(self._places)

    def row(self) -> List[object]:
        """The values of `COLUMNS`."""
        current, peak, limit = self._memory()
        if current is not None:
            self._seen = max(self._seen, current)
        if peak is None and self._seen:
            peak = self._seen  # Linux before 5.19 keeps none in version 2
        return [self._cpu(), current, peak, limit]

    def _cpu(self) -> Optional[float]:
        if "cpuacct" in self._places:
            used = procfs.number(self._places["cpuacct"] + "/cpuacct.usage")
            return None if used is None else round(used / 1e9, 2)
        used = procfs.table(self._places.get("v2", "/nowhere") + "/cpu.stat").get("usage_usec")
        return None if used is None else round(used / 1e6, 2)

    def _memory(self) -> Tuple[Optional[int], Optional[int], Optional[int]]:
        if "memory" in self._places:
            place, words = self._places["memory"] + "/memory.", ("usage", "max_usage", "limit")
            found = [procfs.number(place + word + "_in_bytes") for word in words]
        else:
            place = self._places.get("v2", "/nowhere") + "/memory."
            found = [procfs.number(place + word) for word in ("current", "peak", "max")]
        limit = found[2] if found[2] is not None and found[2] < _NO_LIMIT else None
        return found[0], found[1], limit
'''

SOURCES[
    "dlrun_usage.gpus"
] = r'''"""The GPUs of the node, through the reader that works here; errors of a driver's library lose only its values."""

import os
from typing import Any, Dict, List, Optional, Set

from . import procfs

COLUMNS = ("busy", "memory_busy", "memory", "power", "clock", "temperature", "slowed", "ecc")
"""Percent of the time with a kernel running; percent of the time with memory traffic; bytes in use; W; MHz; °C; reasons
for a reduced clock; uncorrected memory errors since the driver was loaded."""


class Gpus:
    """The GPUs: descriptions once, then one row per GPU and sample."""

    def __init__(self) -> None:
        self.missing: Set[str] = set()
        self._reader: Optional[Any] = self._open()
        self.described: List[Dict[str, Any]] = self._reader.describe() if self._reader is not None else []

    def _open(self) -> Optional[Any]:
        if any(name.startswith("nvidia") and name[6:].isdigit() for name in procfs.names("/dev")):
            return self._nvidia()
        if os.path.exists("/dev/kfd"):
            return self._amd()
        if any(procfs.text(p) == "0x8086" for p in _vendors()):
            from .level_zero import LevelZero

            return self._try(LevelZero, "Level Zero")
        return None

    def _nvidia(self) -> Optional[Any]:
        try:
            from .nvml import Nvml

            return Nvml()
        except (ImportError, OSError):
            from .smi import smi

            return self._try(smi, "NVML and nvidia-smi")

    def _amd(self) -> Optional[Any]:
        try:
            from .amd import Amd

            return Amd()
        except OSError:  # a container without /sys/class/drm
            from .rocm import rocm

            return self._try(rocm, "amdgpu's files and rocm-smi")

    def _try(self, reader: Any, name: str) -> Optional[Any]:
        try:
            return reader()
        except (ImportError, OSError, ValueError) as error:
            self.missing.add("gpus: {}: {}".format(name, error))
            return None

    def rows(self) -> List[List[Any]]:
        """The values of `COLUMNS` for each GPU; empty after the driver has failed."""
        if self._reader is None:
            return []
        try:
            return list(self._reader.rows())
        except (OSError, ValueError, IndexError) as error:
            self.missing.add("gpus: {}".format(error))
            self._reader = None
            return []

    def processes(self) -> List[List[int]]:
        """The ids of the compute processes of each GPU, if known."""
        return list(self._reader.processes()) if self._reader is not None else []


def _vendors() -> List[str]:
    names = [name for name in procfs.names("/sys/class/drm") if name.startswith("renderD")]
    return ["/sys/class/drm/{}/device/vendor".format(name) for name in names]
'''

SOURCES[
    "dlrun_usage.level_zero"
] = r'''"""Intel GPUs through Level Zero Sysman with `ctypes` (names and structures: zes_api.h of the specification)."""

import ctypes
from typing import Any, Dict, List, Optional, Tuple

LIBRARY = "libze_loader.so.1"
_ENGINE_PROPERTIES, _MEMORY_STATE, _ALL = 0x5, 0x1E, 0


class _EngineProperties(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("on_part", ctypes.c_uint8),
        ("part", ctypes.c_uint32),
    ]


class _Activity(ctypes.Structure):
    _fields_ = [("active", ctypes.c_uint64), ("time", ctypes.c_uint64)]


class _MemoryState(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("health", ctypes.c_int),
        ("free", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    ]


class LevelZero:
    """The visible GPUs; raises OSError if the library is missing or its initialisation fails."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._call = ctypes.CDLL(library)
        if not hasattr(self._call, "zesInit") or self._call.zesInit(ctypes.c_uint32(0)):
            raise OSError("zesInit failed")
        self._devices = [
            device for driver in self._all("zesDriverGet") for device in self._all("zesDeviceGet", driver)
        ]
        self._engines = [self._engine(device) for device in self._devices]
        self._before: Dict[int, Tuple[int, int]] = {}

    def _all(self, name: str, *of: ctypes.c_void_p) -> List[ctypes.c_void_p]:
        """The handles of an enumeration function: one call for their number, one for the handles."""
        count = ctypes.c_uint32(0)
        function = getattr(self._call, name)
        if function(*of, ctypes.byref(count), None) or not count.value:
            return []
        held = (ctypes.c_void_p * count.value)()
        if function(*of, ctypes.byref(count), held):
            return []
        return [ctypes.c_void_p(one) for one in held]

    def _engine(self, device: ctypes.c_void_p) -> Optional[ctypes.c_void_p]:
        """The engine group of all engines (ZES_ENGINE_GROUP_ALL), if the device has one."""
        for engine in self._all("zesDeviceEnumEngineGroups", device):
            found = _EngineProperties(kind=_ENGINE_PROPERTIES)
            if not self._call.zesEngineGetProperties(engine, ctypes.byref(found)) and found.type == _ALL:
                return engine
        return None

    def _memory(self, device: ctypes.c_void_p) -> Tuple[int, int]:
        """(total, used) bytes of a device's memory."""
        size = free = 0
        for module in self._all("zesDeviceEnumMemoryModules", device):
            state = _MemoryState(kind=_MEMORY_STATE)
            if not self._call.zesMemoryGetState(module, ctypes.byref(state)):
                size, free = size + state.size, free + state.free
        return size, size - free

    def describe(self) -> List[Dict[str, Any]]:
        """Memory in bytes of each GPU."""
        return [
            {"name": "Intel GPU", "uuid": "", "memory": self._memory(one)[0], "clock": None, "mig": False}
            for one in self._devices
        ]

    def rows(self) -> List[List[Any]]:
        """The values of `gpus.COLUMNS` for each GPU: busy since the last call, and memory."""
        rows: List[List[Any]] = []
        for index, device in enumerate(self._devices):
            rows.append([self._busy(index), None, self._memory(device)[1], None, None, None, None, None])
        return rows

    def _busy(self, index: int) -> Optional[int]:
        engine, now = self._engines[index], _Activity()
        if engine is None or self._call.zesEngineGetActivity(engine, ctypes.byref(now)):
            return None
        before = self._before.get(index)
        self._before[index] = (now.active, now.time)
        if before is None or now.time <= before[1]:
            return None
        share = (int(now.active) - before[0]) / (int(now.time) - before[1])
        return min(100, round(100 * share))

    def processes(self) -> List[List[int]]:
        """Empty: not read."""
        return [[] for _ in self._devices]
'''

SOURCES[
    "dlrun_usage.machine"
] = r'''"""Usage of the whole node, by all processes: cores, memory, pressure, network, local disks, shared file systems."""

import os
from typing import Dict, List, Optional, Set, Tuple

from . import procfs

COLUMNS = (
    "cpu",  # seconds of CPU time of all cores
    "memory",  # bytes in use (MemTotal - MemAvailable)
    "cpu_pressure",  # seconds in which something had to wait for a core (PSI, `some`)
    "memory_pressure",  # ... for memory
    "io_pressure",  # ... for a disk
    "elsewhere",  # pages that were taken from another NUMA node than that of the core
    "disk_read",  # bytes, of all local disks
    "disk_written",
    "disk_busy",  # seconds in which the busiest disk had work
)
_CXI = "/sys/class/cxi"
_SECTOR = 512
_BUSY = 0.9
_WORD = 4  # bytes that one count of an InfiniBand or Omni-Path port's data counters is worth


class Machine:
    """The counters of the node; each method returns their current values."""

    def __init__(self) -> None:
        self._before: Dict[int, Tuple[int, int]] = {}
        self.missing: Set[str] = set()
        self._disks = [
            name for name in procfs.names("/sys/block") if os.path.exists("/sys/block/{}/device".format(name))
        ]

    def busy_cores(self) -> Set[int]:
        """The hardware threads that were busy at least 90 % of the time since the last call."""
        busy, before = set(), self._before
        self._before = {}
        for line in (procfs.read("/proc/stat") or b"").splitlines():
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            if words[0] == b"cpu":
                continue
            core, idle, total = int(words[0][3:]), int(words[4]) + int(words[5]), sum(map(int, words[1:9]))
            self._before[core] = (idle, total)
            was = before.get(core)
            if was and total > was[1] and (idle - was[0]) <= (1 - _BUSY) * (total - was[1]):
                busy.add(core)
        return busy

    def row(self) -> List[object]:
        """The values of `COLUMNS`."""
        words = (procfs.read("/proc/stat") or b"cpu").split(b"\n", 1)[0].split()[1:9]
        ticks = [int(word) for word in words]
        used = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") if len(ticks) > 4 else None
        memory = procfs.table("/proc/meminfo")
        in_use = (memory["MemTotal"] - memory["MemAvailable"]) << 10 if "MemAvailable" in memory else None
        pressure = [self._pressure(what) for what in ("cpu", "memory", "io")]
        elsewhere = self._elsewhere()
        return [None if used is None else round(used, 2), in_use, *pressure, elsewhere, *self._disk()]

    def total(self) -> Optional[int]:
        """Bytes of memory."""
        kilobytes = procfs.table("/proc/meminfo").get("MemTotal")
        return None if kilobytes is None else kilobytes << 10

    def _pressure(self, what: str) -> Optional[float]:
        for line in procfs.text("/proc/pressure/" + what).splitlines():
            if line.startswith("some ") and "total=" in line:
                return round(int(line.rpartition("total=")[2]) / 1e6, 2)
        self.missing.add("pressure: this kernel keeps none (/proc/pressure)")
        return None

    def _elsewhere(self) -> Optional[int]:
        nodes = [name for name in procfs.names("/sys/devices/system/node") if name[4:].isdigit()]
        found = [procfs.table("/sys/devices/system/node/{}/numastat".format(name)) for name in nodes]
        return sum(one.get("other_node", 0) for one in found) if found else None

    def _disk(self) -> List[object]:
        read = written = 0
        busy = 0.0
        for line in procfs.text("/proc/diskstats").splitlines():
            words = line.split()
            if len(words) > 12 and words[2] in self._disks:
                read += int(words[5]) * _SECTOR
                written += int(words[9]) * _SECTOR
                busy = max(busy, int(words[12]) / 1e3)
        return [read, written, round(busy, 2)]

    def network(self) -> Dict[str, List[Optional[int]]]:
        """Interface or port -> bytes received, bytes sent, Mbit/s (None if unknown)."""
        found: Dict[str, List[Optional[int]]] = {}
        for line in procfs.text("/proc/net/dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) > 8 and int(words[0]) + int(words[8]):
                speed = procfs.number("/sys/class/net/{}/speed".format(name.strip()))
                speed = speed if speed is not None and speed > 0 else None
                found[name.strip()] = [int(words[0]), int(words[8]), speed]
        for device in procfs.names("/sys/class/infiniband"):
            for port in procfs.names("/sys/class/infiniband/{}/ports".format(device)):
                place = "/sys/class/infiniband/{}/ports/{}/".format(device, port)
                received = procfs.number(place + "counters/port_rcv_data")
                sent = procfs.number(place + "counters/port_xmit_data")
                if received is None or sent is None:
                    self.missing.add("network: {}'s counters cannot be read".format(device))
                    continue
                rate = procfs.text(place + "rate").split()  # `100 Gb/sec (4X EDR)`
                speed = int(float(rate[0]) * 1000) if rate else None
                found["{}:{}".format(device, port)] = [received * _WORD, sent * _WORD, speed]
        for device in procfs.names(_CXI):
            found.update(self._slingshot(device))
        return found

    def _slingshot(self, device: str) -> Dict[str, List[Optional[int]]]:
        """The same for a Cassini NIC, from its telemetry: libfabric's traffic is not in the Ethernet interface's counters."""
        place = "{}/{}/device/".format(_CXI, device)
        counts = []
        for way in ("rx", "tx"):
            text = procfs.text(
                place + "telemetry/hni_sts_{}_ok_octets".format(way)
            )  # `90049@1675489372.701036980`
            counts.append(int(text.partition("@")[0]) if text.partition("@")[0].isdigit() else None)
        if None in counts:
            self.missing.add("network: {}'s counters cannot be read".format(device))
            return {}
        speeds = [procfs.number(place + "net/{}/speed".format(name)) for name in procfs.names(place + "net")]
        speed = max((one for one in speeds if one is not None and one > 0), default=None)
        return {device + ":1": [*counts, speed]}

    def file_systems(self) -> Dict[str, List[int]]:
        """Mount point (NFS) or file system (Lustre) -> bytes read, bytes written."""
        found, mount = {}, ""
        for line in procfs.text("/proc/self/mountstats").splitlines():
            words = line.split()
            if line.startswith("device ") and " with fstype nfs" in line:
                mount = words[4]
            elif line.startswith("device "):
                mount = ""
            elif mount and words and words[0] == "bytes:" and len(words) > 6:
                found[mount] = [int(words[5]), int(words[6])]
        for base in ("/proc/fs/lustre/llite", "/sys/kernel/debug/lustre/llite"):
            for name in procfs.names(base):
                found["lustre:" + name.partition("-")[0]] = _lustre("{}/{}/stats".format(base, name))
        return {name: numbers for name, numbers in found.items() if any(numbers)}


def _lustre(path: str) -> List[int]:
    """Bytes read and written: `read_bytes 12 samples [bytes] 1 4096 49152` ends with the sum (Lustre manual)."""
    sums = {"read_bytes": 0, "write_bytes": 0}
    for line in procfs.text(path).splitlines():
        words = line.split()
        if len(words) > 6 and words[0] in sums:
            sums[words[0]] = int(words[6])
    return [sums["read_bytes"], sums["write_bytes"]]
'''

SOURCES[
    "dlrun_usage.numa"
] = r'''"""Where the memory of ranks is: the part of it that is on the NUMA nodes of their own cores.

The kernel walks a process's page tables for this (proc(5), numa_maps), so there is at most one look a minute, at one rank
after the other, and none where it cannot find anything: on one NUMA node, and at ranks that may use the cores of all.
"""

import time
from typing import Dict, FrozenSet, List, Optional, Sequence, Set

from . import procfs
from .ranks import Rank, numbers

BASE = "/sys/devices/system/node"
_PAUSE = 60.0
_SHARE = 0.0005


class Locality:
    """Looks at the memory of one rank at a time."""

    def __init__(self, base: str = BASE, proc: str = "/proc") -> None:
        self._proc = proc
        self._cores: Dict[int, FrozenSet[int]] = {}
        for name in procfs.names(base):
            if name.startswith("node") and name[4:].isdigit():
                cores = frozenset(numbers(procfs.text("{}/{}/cpulist".format(base, name))))
                if cores:  # a node may have memory alone
                    self._cores[int(name[4:])] = cores
        self._due = 0.0
        self._turn = 0
        self.missing: Set[str] = set()

    def look(self, ranks: Sequence[Rank]) -> None:
        """Look at the next of these ranks, if it is time."""
        now = time.monotonic()
        if now < self._due:
            return
        bound = [one for one in ranks if one.main and self._own(one)]
        if not bound:
            return
        rank = bound[self._turn % len(bound)]
        self._turn += 1
        used = time.process_time()
        content = procfs.read("{}/{}/numa_maps".format(self._proc, rank.main))
        self._due = now + max(_PAUSE, (time.process_time() - used) / _SHARE)
        if content is None and not procfs.names("{}/{}".format(self._proc, rank.main)):
            return  # it has ended
        if content is None:
            self.missing.add("near: /proc/PID/numa_maps cannot be read")
        else:
            found = near(content, self._own(rank))
            rank.near = rank.near if found is None else found

    def _own(self, rank: Rank) -> FrozenSet[int]:
        """The NUMA nodes of its cores; none where these are all that have cores."""
        own = frozenset(node for node, cores in self._cores.items() if cores & rank.cores)
        return own if len(own) < len(self._cores) else frozenset()


def near(content: bytes, own: FrozenSet[int]) -> Optional[float]:
    """The share of a process's own memory (without the pages of files) that is on these nodes; None if it has none."""
    here = everywhere = 0
    for line in content.splitlines():
        words = line.split()
        if not any(word.startswith(b"anon=") for word in words):
            continue
        size = next((int(word[18:]) for word in words if word.startswith(b"kernelpagesize_kB=")), 4)
        for node, pages in _pages(words):
            everywhere += pages * size
            here += pages * size if node in own else 0
    return round(here / everywhere, 3) if everywhere else None


def _pages(words: List[bytes]) -> List[List[int]]:
    """Node and number of pages of the words `N0=12`."""
    found = []
    for word in words:
        name, _, count = word.partition(b"=")
        if name[:1] == b"N" and name[1:].isdigit() and count.isdigit():
            found.append([int(name[1:]), int(count)])
    return found
'''

SOURCES[
    "dlrun_usage.nvml"
] = r'''"""NVIDIA GPUs through the driver's library NVML with `ctypes` (names and structures: NVML API reference)."""

import ctypes
from typing import Any, Dict, List, Optional

LIBRARY = "libnvidia-ml.so.1"
_SM, _TEMPERATURE, _UNCORRECTED, _VOLATILE = 1, 0, 1, 0
SLOWED = {
    0x0000000000000004: "power limit",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "temperature",
    0x0000000000000040: "temperature (hardware)",
    0x0000000000000080: "power brake",
}
"""Bits of `nvmlDeviceGetCurrentClocksThrottleReasons` that mean a clock reduced under load."""


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """The visible GPUs; raises OSError if the library is missing or the driver fails."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._call = ctypes.CDLL(library)
        if self._ask("nvmlInit_v2"):
            raise OSError("nvmlInit_v2 failed")
        count = ctypes.c_uint(0)
        self._ask("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._devices: List[ctypes.c_void_p] = []
        for index in range(count.value):
            device = ctypes.c_void_p()
            if not self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device)):
                self._devices.append(device)

    def _ask(self, name: str, *arguments: Any) -> int:
        """Call a function; returns NVML's code, 0 for success, also for functions that an old driver lacks."""
        try:
            function = getattr(self._call, name)
        except AttributeError:
            return 13  # NVML_ERROR_FUNCTION_NOT_FOUND
        return int(function(*arguments))

    def _number(self, name: str, device: ctypes.c_void_p, *arguments: Any) -> Optional[int]:
        value = ctypes.c_ulonglong(0)  # wide enough for each of them
        return None if self._ask(name, device, *arguments, ctypes.byref(value)) else value.value

    def _text(self, name: str, device: ctypes.c_void_p) -> str:
        held = ctypes.create_string_buffer(96)
        failed = self._ask(name, device, held, ctypes.c_uint(96))
        return "" if failed else held.value.decode("ascii", "replace")

    def describe(self) -> List[Dict[str, Any]]:
        """Name, UUID, memory in bytes, maximum clock in MHz, and MIG mode of each GPU."""
        found = []
        for device in self._devices:
            memory = _Memory()
            self._ask("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
            current, pending = ctypes.c_uint(0), ctypes.c_uint(0)
            self._ask("nvmlDeviceGetMigMode", device, ctypes.byref(current), ctypes.byref(pending))
            found.append(
                {
                    "name": self._text("nvmlDeviceGetName", device),
                    "uuid": self._text("nvmlDeviceGetUUID", device),
                    "memory": memory.total,
                    "clock": self._number("nvmlDeviceGetMaxClockInfo", device, ctypes.c_int(_SM)),
                    "mig": bool(current.value),
                }
            )
        return found

    def rows(self) -> List[List[Any]]:
        """The values of `gpus.COLUMNS` for each GPU; None for unsupported ones (such as utilization with MIG)."""
        return [self._row(device) for device in self._devices]

    def _row(self, device: ctypes.c_void_p) -> List[Any]:
        used, memory = _Utilization(), _Memory()
        no_use = self._ask("nvmlDeviceGetUtilizationRates", device, ctypes.byref(used))
        no_memory = self._ask("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        power = self._number("nvmlDeviceGetPowerUsage", device)
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", device)
        ecc = self._number(
            "nvmlDeviceGetTotalEccErrors", device, ctypes.c_int(_UNCORRECTED), ctypes.c_int(_VOLATILE)
        )
        return [
            None if no_use else used.gpu,
            None if no_use else used.memory,
            None if no_memory else memory.used,
            None if power is None else round(power / 1000),
            self._number("nvmlDeviceGetClockInfo", device, ctypes.c_int(_SM)),
            self._number("nvmlDeviceGetTemperature", device, ctypes.c_int(_TEMPERATURE)),
            None if reasons is None else sorted({word for bit, word in SLOWED.items() if reasons & bit}),
            ecc,
        ]

    def processes(self) -> List[List[int]]:
        """The ids of the compute processes of each GPU."""
        found = []
        for device in self._devices:
            count = ctypes.c_uint(64)
            held = (_Process * 64)()
            failed = self._ask(
                "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), ctypes.byref(held)
            )
            found.append([] if failed else [one.pid for one in held[: count.value]])
        return found
'''

SOURCES[
    "dlrun_usage.printed"
] = r'''"""GPUs that a vendor's program prints, where neither its library nor the kernel's files can be read: once a minute, as it starts
slowly."""

import contextlib
import os
import subprocess
import time
from typing import Any, Callable, Dict, List, Sequence

PAUSE = 60.0
"""Seconds between two starts of such a program."""


class Printed:
    """The GPUs that a program lists; raises OSError if it is missing or fails.

    `parse` makes what is known of each GPU from its output, `of_card` of that what does not change, `row` the numbers of
    `gpus.COLUMNS`.
    """

    def __init__(
        self,
        command: Sequence[str],
        parse: Callable[[str], List[Any]],
        of_card: Callable[[Any], Dict[str, Any]],
        row: Callable[[Any], List[Any]],
    ) -> None:
        self._command, self._parse, self._of_card, self._row = command, parse, of_card, row
        self._asked = time.monotonic()
        self._cards = parse(output_of(command))

    def describe(self) -> List[Dict[str, Any]]:
        """Name, id, memory in bytes and, where it is printed, the maximum clock in MHz of each GPU."""
        return [self._of_card(card) for card in self._cards]

    def rows(self) -> List[List[Any]]:
        """The numbers of `gpus.COLUMNS` for each GPU, at most a minute old."""
        if time.monotonic() - self._asked >= PAUSE:
            self._asked = time.monotonic()
            with contextlib.suppress(OSError):
                self._cards = self._parse(output_of(self._command))
        return [self._row(card) for card in self._cards]

    def processes(self) -> List[List[int]]:
        """Empty: that would need another start of the program."""
        return [[] for _ in self._cards]


def output_of(command: Sequence[str]) -> str:
    """What a program prints, without the mark of a rank's processes; OSError if it is missing, fails, or takes too long."""
    kept = {name: value for name, value in os.environ.items() if name != "DLRUN_PROCESS"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept,
            timeout=20, check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from None
    return done.stdout.decode("utf-8", "replace")
'''

SOURCES[
    "dlrun_usage.procfs"
] = r'''"""Read small files of procfs and sysfs, mostly with one read call; missing files are empty."""

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
    found = {}
    for line in (read(path) or b"").decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            found[words[0].rstrip(":")] = int(words[1])
    return found


def names(path: str) -> List[str]:
    """The sorted names of a directory; empty if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
'''

SOURCES["dlrun_usage.ranks"] = r'''"""The processes of each rank on this node, and their usage so far.

`rank.sh` marks the processes of a rank with the variable `DLRUN_PROCESS` (run, role, rank), which daemonized processes
keep, too. The CPU time of an ended process is added to that of its parent when this waits for it (proc(5), `cutime`), so
the sum over the living ones with `rank.sh` is that of all processes of the rank.
"""

import os
import time
from typing import Dict, FrozenSet, List, Optional, Set

from . import procfs

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
COLUMNS = (
    "cpu",  # seconds of CPU time, of all processes
    "main",  # of these, the program's own, without the processes that it started
    "rss",  # bytes resident now; a page that processes share counts in each
    "peak",  # the most of that so far
    "processes",
    "threads",
    "full",  # processes that the program started and that had work at least 90 % of the time since the last sample
    "blocked",  # samples so far at which a process waited for a disk or a file system (state D)
    "preempted",  # times that main threads had to give up their core
    "waited",  # seconds that the program's main thread could have run and had no core
    "moved",  # times that the program's main thread went to another core
    "faults",  # page faults that read from a disk
    "read",  # bytes from storage
    "written",  # bytes to storage
    "called",  # bytes through read and write calls, also of what is cached
    "busy_cores",  # cores that the rank may use and that were at least 90 % busy since the last sample
    "near",  # share of the program's memory on the NUMA nodes of its cores (`numa`); null: not looked at, or no difference
)
_FULL = 0.9


class Process:
    """One process of a rank, with its values at the last call of `look`."""

    def __init__(self, pid: int, rank: str) -> None:
        self.pid, self.rank = pid, rank
        self.parent = 0
        self.start = b""
        self.state = b"?"
        self.own = self.total = self.waiting = 0.0
        self.seen = 0.0
        self.faults = self.threads = self.resident = self.processor = 0

    def look(self) -> bool:
        """Read `/proc/PID/stat`; False if the process has ended or its id was reused."""
        content = procfs.read("/proc/{}/stat".format(self.pid))
        if not content:
            return False
        fields = content[content.rindex(b")") + 2 :].split()
        if self.start and fields[19] != self.start:
            return False
        self.start, self.state, self.parent = fields[19], fields[0], int(fields[1])
        self.own = (int(fields[11]) + int(fields[12])) / TICKS
        self.total = self.own + (int(fields[13]) + int(fields[14])) / TICKS
        self.faults = int(fields[9]) + int(fields[10])
        self.threads, self.resident = int(fields[17]), int(fields[21]) * PAGE
        self.processor = int(fields[36])
        return True

    def wait(self) -> None:
        """Read the time that the process was runnable without a core."""
        words = (procfs.read("/proc/{}/schedstat".format(self.pid)) or b"").split()
        if len(words) == 3:
            self.waiting = int(words[1]) / 1e9


class Rank:
    """The usage of one rank; counters never decrease."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processes: Dict[int, Process] = {}
        self.shell = 0  # rank.sh
        self.main = 0  # the program
        self.cores: FrozenSet[int] = frozenset()
        self.cores_text = ""
        self.memory_nodes = ""
        self.lost = 0.0  # CPU time of processes whose parent was gone when they ended
        self.cpu = self.main_cpu = 0.0
        self.peak = self.blocked = self.full = 0
        self.counters: Dict[str, int] = {}
        self.near: Optional[float] = None
        self.announced = False
        self.missing: Set[str] = set()

    def row(self, busy: Set[int]) -> List[object]:
        """The values of `COLUMNS`; `busy`: the node's hardware threads that were at least 90 % busy."""
        resident = sum(one.resident for one in self.processes.values() if one.pid != self.shell)
        self.peak = max(self.peak, resident, self.counters.get("high", 0))
        running = [one for one in self.processes.values() if one.pid != self.shell]
        counters = self.counters
        return [
            round(self.cpu, 2), round(self.main_cpu, 2), resident, self.peak,
            len(running), sum(one.threads for one in running), self.full, self.blocked,
            counters.get("preempted"), _seconds(counters.get("waited")), counters.get("moved"),
            sum(one.faults for one in self.processes.values()),
            counters.get("read"), counters.get("written"), counters.get("called"),
            len(self.cores & busy), self.near,
        ]  # fmt: skip


def _seconds(nanoseconds: Optional[int]) -> Optional[float]:
    return None if nanoseconds is None else round(nanoseconds / 1e9, 2)


class Ranks:
    """The ranks of a run on this node; each sample searches for new processes."""

    def __init__(self, run: str, directory: str) -> None:
        self._directory = b"DLRUN_RUN_DIR=" + os.fsencode(
            directory
        )  # another cluster may count as this one does
        self._mark = b"DLRUN_PROCESS=" + os.fsencode(run) + b" "
        self._run = b"DLRUN_RUN_ID=" + os.fsencode(run)
        self._others: Dict[int, int] = {}
        self._own = os.getpid()
        self._last = 0.0
        self.ranks: Dict[str, Rank] = {}
        self._known: Dict[int, Process] = {}

    def sample(self) -> None:
        """Read all processes of all ranks."""
        now = time.monotonic()
        self._find()
        self._look(now)
        for rank in self.ranks.values():
            self._read(rank)
        self._last = now

    def glance(self) -> None:
        """Read only the CPU time of the programs, so that a rank that ends before the next sample lacks little."""
        for rank in self.ranks.values():
            ended = False
            for process in [rank.processes[pid] for pid in (rank.shell, rank.main) if pid in rank.processes]:
                waited = process.total - process.own
                ended |= not process.look() or process.total - process.own > waited
            if ended:  # what has ended counts in its parent's time now, and must not count twice
                before_it = frozenset(rank.processes)
                for process in list(rank.processes.values()):
                    if not process.look():
                        self._forget(rank, process, before_it)
            self._add(rank)

    def _find(self) -> None:
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._others = {pid: count for pid, count in self._others.items() if pid in pids}
        for pid in pids:
            # A process that is just becoming another program still shows its parent's environment: look twice.
            if pid in self._known or pid == self._own or self._others.get(pid, 0) > 1:
                continue
            mark = self._marked(pid)
            if mark is None:
                self._others[pid] = self._others.get(pid, 0) + 1
            else:
                self._enter(pid, mark)
        for rank in self.ranks.values():
            self._place(rank)

    def _marked(self, pid: int) -> Optional[str]:
        content = procfs.read("/proc/{}/environ".format(pid))
        if not content or self._mark not in content:
            return None
        entries = content.split(b"\0")
        for entry in entries if self._directory in entries else ():
            if entry.startswith(self._mark):
                return entry[len(self._mark) :].decode("utf-8", "replace").replace(" ", "-")
        return None

    def _enter(self, pid: int, name: str) -> None:
        process = Process(pid, name)
        if not process.look():
            return
        self._known[pid] = process
        self.ranks.setdefault(name, Rank(name)).processes[pid] = process

    def _place(self, rank: Rank) -> None:
        """Find the program of a rank among its processes, and the `rank.sh` that started it."""
        if rank.main in rank.processes or (rank.main and rank.shell in rank.processes):
            return
        for process in sorted(rank.processes.values(), key=lambda one: int(one.start)):
            if process.parent in rank.processes or process.parent == self._own:
                continue
            rank.main = process.pid
            content = procfs.read("/proc/{}/environ".format(process.parent)) or b""
            if self._run in content.split(b"\0"):
                shell = Process(process.parent, rank.name)
                if shell.look():
                    rank.shell = shell.pid
                    rank.processes[shell.pid] = self._known[shell.pid] = shell
            return

    def _look(self, now: float) -> None:
        for rank in self.ranks.values():
            rank.full = 0
            blocked, before_it = False, frozenset(rank.processes)
            # Parents first: a child that ends meanwhile is missing until the next look, where else it would count twice.
            for process in sorted(rank.processes.values(), key=lambda one: int(one.start)):
                pid, before, seen = process.pid, process.own + process.waiting, process.seen
                if not process.look():
                    self._forget(rank, process, before_it)
                    continue
                process.wait()
                process.seen = now
                blocked = blocked or process.state == b"D"
                if seen and now > seen and pid not in (rank.main, rank.shell):
                    rank.full += (process.own + process.waiting - before) / (now - seen) >= _FULL
            rank.blocked += blocked
            self._add(rank)

    def _forget(self, rank: Rank, process: Process, before: FrozenSet[int]) -> None:
        """Remove an ended process. If its parent was not a known process of the rank, its time is added to `lost`."""
        del rank.processes[process.pid]
        self._known.pop(process.pid, None)
        if process.parent not in before:
            rank.lost += process.total

    def _add(self, rank: Rank) -> None:
        rank.cpu = max(rank.cpu, rank.lost + sum(one.total for one in rank.processes.values()))
        if rank.main in rank.processes:
            rank.main_cpu = max(rank.main_cpu, rank.processes[rank.main].own)

    def _read(self, rank: Rank) -> None:
        """Read counters in other files: I/O bytes of all processes, and the program's status and scheduling."""
        sums = {"read": 0, "written": 0, "called": 0}
        files = 0
        for pid in rank.processes:
            found = procfs.table("/proc/{}/io".format(pid))
            files += bool(found)
            sums["read"] += found.get("read_bytes", 0)
            sums["written"] += found.get("write_bytes", 0)
            sums["called"] += found.get("rchar", 0) + found.get("wchar", 0)
        if files:
            self._raise(rank, sums)
        elif rank.processes:
            rank.missing.add("read, written, called: /proc/PID/io cannot be read")
        if rank.main in rank.processes:
            self._read_program(rank)

    def _read_program(self, rank: Rank) -> None:
        place = "/proc/{}/".format(rank.main)
        status = procfs.read(place + "status") or b""
        for line in status.splitlines():
            name, _, value = line.partition(b":")
            if name == b"VmHWM":
                self._raise(rank, {"high": int(value.split()[0]) << 10})
            elif name == b"nonvoluntary_ctxt_switches":
                self._raise(rank, {"preempted": int(value)})
            elif name == b"Cpus_allowed_list":
                rank.cores_text = value.decode("ascii").strip()
                rank.cores = frozenset(numbers(rank.cores_text))
            elif name == b"Mems_allowed_list":
                rank.memory_nodes = value.decode("ascii").strip()
        schedule = (procfs.read(place + "schedstat") or b"").split()
        if len(schedule) == 3:
            self._raise(rank, {"waited": int(schedule[1])})
        else:
            rank.missing.add("waited: this kernel keeps no /proc/PID/schedstat")
        for line in (procfs.read(place + "sched") or b"").splitlines():
            if line.startswith(b"se.nr_migrations"):
                self._raise(rank, {"moved": int(line.split(b":")[1])})
                return
        rank.missing.add("moved: this kernel has no /proc/PID/sched")

    @staticmethod
    def _raise(rank: Rank, found: Dict[str, int]) -> None:
        for name, value in found.items():
            rank.counters[name] = max(rank.counters.get(name, 0), value)


def numbers(text: str) -> List[int]:
    """The numbers of a list such as `0-3,8`."""
    found: List[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.extend(range(int(first), int(last or first) + 1))
    return found
'''

SOURCES[
    "dlrun_usage.rocm"
] = r'''"""AMD GPUs through the text of `rocm-smi`, where the kernel's files (`amd`) are not there.

The names of its values changed with ROCm 6, and differ between cards: each number has a list of them.
"""

import json
import re
from typing import Any, Dict, List, Optional, Sequence

from .printed import Printed

COMMAND = (
    "rocm-smi", "--showproductname", "--showuniqueid", "--showuse", "--showmemuse", "--showpower", "--showtemp", "--showclocks",
    "--showmeminfo", "vram", "--json",
)  # fmt: skip
_NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?)(?:Mhz\))?")
_NAME = ("Card Series", "Card series", "Device Name", "Card model", "Card Model")
_MEMORY_BUSY = ("GPU Memory Read/Write Activity (%)", "GPU memory use (%)")
_POWER = ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")
_HEAT = ("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)")

Card = Dict[str, Any]


def parse(text: str) -> List[Card]:
    """The cards in their order; OSError for text without any. Warnings may be printed before the JSON."""
    start = text.find("{")
    try:
        found = json.loads(text[start:]) if start >= 0 else {}
    except ValueError:
        found = {}
    names = [name for name in found if re.match(r"card\d+$", name) and isinstance(found[name], dict)]
    if not names:
        raise OSError("rocm-smi printed no card")
    return [found[name] for name in sorted(names, key=lambda name: int(name[4:]))]


def of_card(card: Card) -> Dict[str, Any]:
    """What does not change."""
    unique = str(card.get("Unique ID", ""))
    return {
        "name": next((str(card[name]) for name in _NAME if card.get(name)), "AMD GPU"),
        "uuid": unique if unique.startswith("0x") else "",
        "memory": _number(card, ("VRAM Total Memory (B)",)),
        "clock": None,
        "mig": False,
    }


def row(card: Card) -> List[Any]:
    """The numbers of `gpus.COLUMNS`."""
    return [
        _number(card, ("GPU use (%)",)), _number(card, _MEMORY_BUSY), _number(card, ("VRAM Total Used Memory (B)",)),
        _number(card, _POWER), _number(card, ("sclk clock speed:",)), _number(card, _HEAT), None, None,
    ]  # fmt: skip


def _number(card: Card, names: Sequence[str]) -> Optional[int]:
    """The first of these values that is a number: others are `N/A`, or `N/A (Secondary die)`."""
    for name in names:
        match = _NUMBER.match(str(card.get(name, "")))
        if match:
            return round(float(match.group(1)))
    return None


def rocm() -> Printed:
    """The GPUs that `rocm-smi` lists."""
    return Printed(COMMAND, parse, of_card, row)
'''

SOURCES[
    "dlrun_usage.sampler"
] = r'''"""Take and write samples, less often the longer the job runs, within a budget of bytes and CPU time.

Failures lose values, never the job: the process ends without a message, and its file stays as it is.
"""

import contextlib
import json
import os
import resource
import signal
import stat
import sys
import time
from typing import Any, Dict, List, Optional, Set

from . import cgroup, gpus, machine, numa, ranks, saving

VERSION = 1
DIRECTORY = "usage"
_SHARE = 0.002
"""Maximum share of a core for sampling: an expensive sample delays the next one."""
_PAUSES = ((20, 1.0), (120, 2.0), (900, 5.0), (3600, 15.0), (6 * 3600, 30.0))
_LATER = 60.0
"""(seconds since the start, seconds between samples until then); after the last one `_LATER`."""
_BYTES, _A_DAY = 250000, 700000
"""Bytes of a file allowed at once and in addition per day: less than 1 MB in any day."""
_GLANCE = 1.0
_LOG = 3600.0
"""Seconds in which the size of the log is recorded, from which `dlrun usage` has the time of the first step."""


def _opened(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


class Recording:
    """The file of this node. Each line is one `write` call; after a failure nothing more is written."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._written = 0
        try:
            try:
                self._descriptor = _opened(path)
            except FileNotFoundError:  # job.sh has made its directory; the job removed it
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(path), 0o700)
                self._descriptor = _opened(path)
            status = os.fstat(self._descriptor)
            if status.st_size and stat.S_ISREG(status.st_mode):
                self._end_line(path)
        except OSError:
            self.close()

    def _end_line(self, path: str) -> None:
        """End an incomplete line of a killed sampler."""
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(self._descriptor, b"\n")

    @property
    def open(self) -> bool:
        """False after a write has failed."""
        return self._descriptor >= 0

    def has_room(self, elapsed: float) -> bool:
        """Whether the file is within its budget after `elapsed` seconds."""
        return self._written < _BYTES + _A_DAY * elapsed / 86400

    def write(self, record: Dict[str, Any]) -> None:
        """Append one line."""
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"
        try:
            if self.open and os.write(self._descriptor, line) < len(line):
                self.close()
        except OSError:  # a full disk, a quota
            self.close()
        self._written += len(line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Sampler:
    """The samples of one run on one node."""

    def __init__(self, environment: Dict[str, str], log: str = "", saves: str = "") -> None:
        self._run = environment["DLRUN_RUN_ID"]
        self._host = environment["DLRUN_HOST"]
        self._began = time.monotonic()
        self._id = "{}.{}".format(os.getpid(), int(time.time()))
        place = os.path.join(environment["DLRUN_RUN_DIR"], DIRECTORY, self._host + ".jsonl")
        self.file = Recording(place)
        self._machine = machine.Machine()
        self._ranks = ranks.Ranks(self._run, environment["DLRUN_RUN_DIR"])
        self._cgroup = cgroup.Cgroup(environment.get("DLRUN_JOB_ID", ""))
        self._gpus = gpus.Gpus()
        self._locality = numa.Locality()
        self._log = log
        self._saving = saving.Saving(saves)
        self._node_rank = environment.get("DLRUN_NODE_RANK", "0")
        self._reported: Set[str] = set()
        self._placed = False

    def begin(self) -> None:
        """Write the constant facts of the node."""
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # all that the job was granted
        granted = os.sched_getaffinity(0)
        self._machine.busy_cores()
        self.file.write(
            {
                "kind": "start", "version": VERSION, "id": self._id, "run": self._run, "node": self._host,
                "node_rank": int(self._node_rank), "time": round(time.time(), 3), "cores": _folded(sorted(granted)),
                "memory": self._machine.total(), "gpus": self._gpus.described,
                "columns": {
                    "rank": ranks.COLUMNS, "node": machine.COLUMNS, "job": cgroup.COLUMNS, "gpu": gpus.COLUMNS,
                },
            }
        )  # fmt: skip

    def sample(self, last: bool = False) -> None:
        """Take a sample, and write it if the budget allows; the last one always."""
        self._ranks.sample()
        self._locality.look([rank for _, rank in sorted(self._ranks.ranks.items())])
        self._look_at_first()
        if not self._placed and self._ranks.ranks:
            self._keep_away()
        elapsed = time.monotonic() - self._began
        for name, rank in sorted(self._ranks.ranks.items()):
            if not rank.announced and rank.main:
                rank.announced = True
                record = {"kind": "rank", "id": self._id, "rank": name, "pid": rank.main}
                record.update(cores=rank.cores_text, memory_nodes=rank.memory_nodes)
                self.file.write(record)
        if last or self.file.has_room(elapsed):
            self._write(elapsed, last)

    def _write(self, elapsed: float, last: bool) -> None:
        busy = self._machine.busy_cores()
        record: Dict[str, Any] = {
            "kind": "end" if last else "sample",
            "id": self._id,
            "t": round(elapsed, 2),
            "node": self._machine.row(),
            "ranks": {name: rank.row(busy) for name, rank in sorted(self._ranks.ranks.items())},
            "network": self._machine.network(),
        }
        if self._cgroup.known:
            record["job"] = self._cgroup.row()
        if self._gpus.described:
            record["gpus"] = self._gpus.rows()
            record["on"] = self._ranks_on_gpus()
        if self._saving.known:
            record["saving"] = round(self._saving.seconds, 1)
        if self._log and elapsed < _LOG:
            record["log"] = _size(self._log)
        shared = self._machine.file_systems()
        if shared:
            record["file_systems"] = shared
        if last:
            record["own"] = [round(_own_cpu(), 2), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]
        missing = self._missing()
        if missing:
            record["missing"] = missing
        self.file.write(record)

    def _missing(self) -> List[str]:
        """What cannot be read here and has not been named yet."""
        found = self._machine.missing | self._gpus.missing | self._locality.missing
        for rank in self._ranks.ranks.values():
            found |= rank.missing
        if not self._cgroup.known:
            found.add("job: the sampler is in no cgroup of the job's own")
        new = sorted(found - self._reported)
        self._reported |= found
        return new

    def _ranks_on_gpus(self) -> List[List[str]]:
        """The names of the ranks with a process on each GPU."""
        ranks_of = {pid: name for name, rank in self._ranks.ranks.items() for pid in rank.processes}
        return [sorted({ranks_of[pid] for pid in pids if pid in ranks_of}) for pids in self._gpus.processes()]

    def _keep_away(self) -> None:
        """Bind this process to cores that no rank is bound to, if there are any."""
        taken = frozenset().union(*(rank.cores for rank in self._ranks.ranks.values()))
        free = os.sched_getaffinity(0) - taken
        self._placed = True
        if free and taken:
            os.sched_setaffinity(0, free)

    def pause(self, cost: float) -> float:
        """Seconds until the next sample, after one of `cost` seconds of CPU time."""
        elapsed = time.monotonic() - self._began
        usual = next((pause for until, pause in _PAUSES if elapsed < until), _LATER)
        return max(usual, cost / _SHARE)

    def glance(self) -> None:
        """Keep the CPU time of ranks up to date between samples."""
        self._ranks.glance()
        self._look_at_first()

    def _look_at_first(self) -> None:
        """Is the first rank of the node saving? Where others save as well, they do it at the same time."""
        if not self._saving.known:
            return
        mains = [(len(name), name, rank.main) for name, rank in self._ranks.ranks.items() if rank.main]
        if mains:
            self._saving.look(min(mains)[2])


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _folded(numbers: List[int]) -> str:
    """`0-3,8` for [0, 1, 2, 3, 8]."""
    parts: List[List[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in parts)


def record(environment: Dict[str, str], parent: int, log: str = "", saves: str = "") -> None:
    """Sample until SIGTERM comes, or the process that started this one is gone."""
    sampler = Sampler(environment, log, saves)
    sampler.begin()
    ended = False
    while not ended and sampler.file.open:
        before = _own_cpu()
        sampler.sample()
        due = time.monotonic() + sampler.pause(_own_cpu() - before)
        while not ended and time.monotonic() < due:
            left = due - time.monotonic()
            ended = signal.sigtimedwait([signal.SIGTERM], max(0.0, min(_GLANCE, left))) is not None
            ended = ended or os.getppid() != parent
            if not ended and left > _GLANCE:
                sampler.glance()
    sampler.sample(last=True)


def main(argv: Optional[List[str]] = None) -> int:
    """Sample until the process that is named in the first argument ends, which is the parent; always 0.

    The others are the log of the node's first rank, and the place of the checkpoints; either may be empty or missing.
    """
    try:
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(ignored, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.nice(19)
        words = sys.argv if argv is None else argv
        record(dict(os.environ), int(words[1]), *words[2:4])
    except Exception:  # noqa: BLE001, S110 - a fault of the sampler costs numbers, never the job
        pass
    return 0
'''

SOURCES[
    "dlrun_usage.saving"
] = r'''"""How long a rank has been writing its checkpoint: a look at its open files each second, in /proc alone.

The file system of the checkpoints gets no request for it. What is open for writing below the spec's `checkpoint.path` counts
from one look to the next, so the sum over many looks is right, and a save of less than a second may be missed.
"""

import os
import time

from . import procfs

_SHARE = 0.0005
"""Share of a core that these looks may take: a program with thousands of open files is looked at less often."""
_WRITES = os.O_WRONLY | os.O_RDWR


class Saving:
    """The seconds so far in which a program had a file of its checkpoints open for writing."""

    def __init__(self, place: str) -> None:
        self._place = os.path.realpath(place) if place else ""  # links of /proc have no symbolic link in them
        self._before = self._due = 0.0
        self.seconds = 0.0

    @property
    def known(self) -> bool:
        """True if the spec names the place of the checkpoints."""
        return bool(self._place)

    def look(self, pid: int) -> None:
        """See whether this process is saving now."""
        now = time.monotonic()
        if not self._place or now < self._due:
            return
        used = time.process_time()
        if self._before and self._is_open(pid):
            self.seconds += now - self._before
        self._before = now
        self._due = now + (time.process_time() - used) / _SHARE

    def _is_open(self, pid: int) -> bool:
        base = "/proc/{}/fd/".format(pid)
        for name in procfs.names(base):
            try:
                target = os.readlink(base + name)
            except OSError:
                continue
            inside = target == self._place or target.startswith((self._place + "/", self._place + "."))
            if inside and self._writes(pid, name):
                return True
        return False

    @staticmethod
    def _writes(pid: int, name: str) -> bool:
        for line in procfs.text("/proc/{}/fdinfo/{}".format(pid, name)).splitlines():
            if line.startswith("flags:"):
                return bool(int(line.split()[1], 8) & _WRITES)
        return False
'''

SOURCES["dlrun_usage.smi"] = r'''"""NVIDIA GPUs from the output of `nvidia-smi`, if NVML cannot be loaded."""

from typing import Any, Dict, List, Optional

from .printed import Printed

_QUERY = (
    "name,uuid,memory.total,clocks.max.sm,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm,"
    "temperature.gpu,clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total"
)
COMMAND = ("nvidia-smi", "--query-gpu=" + _QUERY, "--format=csv,noheader,nounits")
_MEGABYTE = 1 << 20


def parse(text: str) -> List[List[str]]:
    """The cells of each GPU; raises OSError for other output than the requested table."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) != _QUERY.count(",") + 1 for row in rows):
        raise OSError("nvidia-smi printed no table")
    return rows


def of_card(cells: List[str]) -> Dict[str, Any]:
    """What does not change."""
    name, uuid, memory, clock = cells[:4]
    return {"name": name, "uuid": uuid, "memory": _bytes(memory), "clock": _number(clock), "mig": False}


def of_gpu(cells: List[str]) -> List[Any]:
    """The values of `gpus.COLUMNS` from a row of the table."""
    from .nvml import SLOWED

    busy, of_memory, used, power, clock, heat, active, ecc = cells[4:]
    try:
        reasons: Any = sorted({word for bit, word in SLOWED.items() if int(active, 16) & bit})
    except ValueError:
        reasons = None
    return [
        _number(busy), _number(of_memory), _bytes(used), _number(power), _number(clock), _number(heat), reasons,
        _number(ecc),
    ]  # fmt: skip


def _number(cell: str) -> Optional[int]:
    try:
        return round(float(cell))
    except ValueError:  # `[N/A]`, `[Not Supported]`
        return None


def _bytes(cell: str) -> Optional[int]:
    number = _number(cell)
    return None if number is None else number * _MEGABYTE


def smi() -> Printed:
    """The GPUs that `nvidia-smi` lists."""
    return Printed(COMMAND, parse, of_card, of_gpu)
'''


class Sources:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return ModuleSpec(name, self, is_package=name == PACKAGE)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Sources())
from dlrun_usage.__main__ import main

sys.exit(main())
