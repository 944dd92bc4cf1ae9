"""Usage of the whole node, by all processes: cores, memory, pressure, network, local disks, shared file systems."""

import os
from typing import Dict, List, Optional, Set, Tuple

from . import procfs

COLUMNS = (
    "cpu",  # seconds of CPU time of all cores
    "memory",  # bytes in use (MemTotal - MemAvailable)
    "cpu_pressure",  # seconds in which something had to wait for a core (PSI, `names`)
    "memory_pressure",  # ... for memory
    "io_pressure",  # ... for a disk
    "elsewhere",  # pages that were allocated on another NUMA node than that of the core
    "disk_read",  # bytes, of all local disks
    "disk_written",
    "disk_busy",  # seconds in which the busiest disk had work
)
_CXI = "/sys/class/cxi"
_SECTOR = 512
_BUSY = 0.9
_WORD = 4  # bytes: the unit of the data counters of InfiniBand and Omni-Path ports


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
        tables = [procfs.table("/sys/devices/system/node/{}/numastat".format(name)) for name in nodes]
        return sum(table.get("other_node", 0) for table in tables) if tables else None

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
        counters: Dict[str, List[Optional[int]]] = {}
        for line in procfs.text("/proc/net/dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) > 8 and int(words[0]) + int(words[8]):
                speed = procfs.number("/sys/class/net/{}/speed".format(name.strip()))
                speed = speed if speed is not None and speed > 0 else None
                counters[name.strip()] = [int(words[0]), int(words[8]), speed]
        for device in procfs.names("/sys/class/infiniband"):
            for port in procfs.names("/sys/class/infiniband/{}/ports".format(device)):
                place = "/sys/class/infiniband/{}/ports/{}/".format(device, port)
                received = procfs.number(place + "counters/port_rcv_data")
                sent = procfs.number(place + "counters/port_xmit_data")
                if received is None or sent is None:
                    self.missing.add("network: {}'s counters cannot be read".format(device))
                    continue
                # `100 Gb/sec (4X EDR)`.
                rate = procfs.text(place + "rate").split()
                speed = int(float(rate[0]) * 1000) if rate else None
                counters["{}:{}".format(device, port)] = [received * _WORD, sent * _WORD, speed]
        for device in procfs.names(_CXI):
            counters.update(self._slingshot(device))
        return counters

    def _slingshot(self, device: str) -> Dict[str, List[Optional[int]]]:
        """The same for a Cassini NIC, from its telemetry: libfabric's traffic is not in the Ethernet interface's counters."""
        place = "{}/{}/device/".format(_CXI, device)
        counts = []
        for way in ("rx", "tx"):
            # `90049@1675489372.701036980`.
            text = procfs.text(place + "telemetry/hni_sts_{}_ok_octets".format(way))
            counts.append(int(text.partition("@")[0]) if text.partition("@")[0].isdigit() else None)
        if None in counts:
            self.missing.add("network: {}'s counters cannot be read".format(device))
            return {}
        speeds = [procfs.number(place + "net/{}/speed".format(name)) for name in procfs.names(place + "net")]
        speed = max((speed for speed in speeds if speed is not None and speed > 0), default=None)
        return {device + ":1": [*counts, speed]}

    def file_systems(self) -> Dict[str, List[int]]:
        """Mount point (NFS) or file system (Lustre) -> bytes read, bytes written."""
        counters, mount = {}, ""
        for line in procfs.text("/proc/self/mountstats").splitlines():
            words = line.split()
            if line.startswith("device ") and " with fstype nfs" in line:
                mount = words[4]
            elif line.startswith("device "):
                mount = ""
            elif mount and words and words[0] == "bytes:" and len(words) > 6:
                counters[mount] = [int(words[5]), int(words[6])]
        for base in ("/proc/fs/lustre/llite", "/sys/kernel/debug/lustre/llite"):
            for name in procfs.names(base):
                counters["lustre:" + name.partition("-")[0]] = _lustre("{}/{}/stats".format(base, name))
        return {name: numbers for name, numbers in counters.items() if any(numbers)}


def _lustre(path: str) -> List[int]:
    """Bytes read and written: `read_bytes 12 samples [bytes] 1 4096 49152` ends with the sum (Lustre manual)."""
    sums = {"read_bytes": 0, "write_bytes": 0}
    for line in procfs.text(path).splitlines():
        words = line.split()
        if len(words) > 6 and words[0] in sums:
            sums[words[0]] = int(words[6])
    return [sums["read_bytes"], sums["write_bytes"]]
