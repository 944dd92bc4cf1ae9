"""Run on a compute node as the probe job of `dlrun site detect`: print the node's hardware and software as JSON.

    python3 describe.py

The files of /sys and /proc on cores, NUMA nodes, caches, GPUs and adapters are sent unparsed: the parsers are on the submit
host. File systems and launchers are examined here.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Optional

VERSION = 1
TIMEOUT = 20  # time limit of `PROGRAM --version` in seconds

CPU = "sys/devices/system/cpu"
FILES = (
    CPU + "/online",
    CPU + "/offline",
    CPU + "/isolated",
    CPU + "/cpu[0-9]*/online",
    CPU + "/cpu[0-9]*/topology/physical_package_id",
    CPU + "/cpu[0-9]*/topology/die_id",
    CPU + "/cpu[0-9]*/topology/core_id",
    CPU + "/cpu[0-9]*/topology/core_cpus_list",
    CPU + "/cpu[0-9]*/topology/thread_siblings_list",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/devices/system/node/node*/access0/initiators/read_bandwidth",
    "sys/class/infiniband/*/ports/*/state",
    "sys/class/infiniband/*/ports/*/link_layer",
    "sys/class/infiniband/*/ports/*/rate",
    "sys/class/net/*/operstate",
    "sys/class/net/*/speed",
    "sys/class/kfd/kfd/topology/nodes/*/properties",
    "proc/driver/nvidia/gpus/*/information",
    "proc/driver/nvidia/gpus/*/numa_status",
)
LINKS = (
    "sys/class/infiniband/*",
    "sys/class/infiniband/*/device",
    "sys/class/infiniband/*/device/driver",
    "sys/class/cxi/*",
    "sys/class/cxi/*/device",
    "sys/class/net/*",
    "sys/class/net/*/device",
)
PCI = "sys/bus/pci/devices"
PCI_FILES = ("class", "vendor", "numa_node", "local_cpulist")
PCI_CLASSES = ("0x02", "0x03", "0x0b", "0x12")  # network, display, processor, accelerator

LAUNCHERS = ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.pals", "ibrun", "flux")
LOCAL_TYPES = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs")
SYSTEM_PATHS = re.compile(
    r"/(boot|dev|etc|proc|root|run|snap|sys|usr|var/(lib|log|run|spool|cache|tmp))(/|$)"
)
TEMPORARY = "/tmp"  # noqa: S108 - only examined
VARIABLES = (
    "TMPDIR",
    "SLURM_TMPDIR",
    "PBS_JOBDIR",
    "PBS_JOBFS",
    "JOBFS",
    "LOCAL_SCRATCH",
    "SLURM_JOB_ID",
    "PBS_JOBID",
)


def main() -> None:
    """Print the facts on standard output."""
    json.dump(facts(), sys.stdout)
    sys.stdout.write("\n")


def facts(root: str = "/") -> Dict[str, Any]:
    """All facts as plain data; `root` is the directory of sys and proc."""
    return {
        "version": VERSION,
        "host": os.uname().nodename,
        "tree": tree(root),
        "file_systems": file_systems(),
        "starters": launchers(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def tree(root: str = "/") -> Dict[str, str]:
    """Path below `root` -> content of a file, or `-> TARGET` of a link; only the files that dlrun parses."""
    contents = {}  # type: Dict[str, str]
    for pattern in FILES:
        for path in glob.glob(os.path.join(root, pattern)):
            keep(contents, root, path)
    for path in glob.glob(os.path.join(root, CPU, "cpu[0-9]*/cache/index*/level")):
        # Only the last-level cache matters for placement: levels 1 and 2 mostly belong to one core.
        if (read(path) or "0") > "2":
            keep(contents, root, path)
            keep(contents, root, os.path.join(os.path.dirname(path), "shared_cpu_list"))
    for path in glob.glob(os.path.join(root, "sys/devices/system/node/node*/meminfo")):
        lines = [line for line in (read(path) or "").splitlines() if "MemTotal" in line]
        contents[os.path.relpath(path, root)] = "\n".join(lines)
    model = re.search(r"^model name\s*:.*$", read(os.path.join(root, "proc/cpuinfo")) or "", re.MULTILINE)
    if model:
        contents["proc/cpuinfo"] = model.group(0)
    for pattern in LINKS:
        for path in glob.glob(os.path.join(root, pattern)):
            link(contents, root, path)
    for folder in glob.glob(os.path.join(root, PCI, "*")):
        if (read(os.path.join(folder, "class")) or "")[:4] in PCI_CLASSES:
            for name in PCI_FILES:
                keep(contents, root, os.path.join(folder, name))
            link(contents, root, folder)
            link(contents, root, os.path.join(folder, "physfn"))
    return contents


def keep(contents: Dict[str, str], root: str, path: str) -> None:
    """Add a file's content, if it can be read."""
    text = read(path)
    if text is not None:
        contents[os.path.relpath(path, root)] = text


def link(contents: Dict[str, str], root: str, path: str) -> None:
    """Add a link's target, if the path is a link."""
    if os.path.islink(path):
        contents[os.path.relpath(path, root)] = "-> " + os.readlink(path)


def read(path: str) -> Optional[str]:
    """The text of a file, stripped; None if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def file_systems() -> List[Dict[str, Any]]:
    """Mounted file systems that are writable or shared, by path, without the system's own directories."""
    by_path = {}  # type: Dict[str, Dict[str, Any]]
    for line in (read("/proc/self/mounts") or "").splitlines():
        device, path, kind = mount(line)
        # NFS-like devices are `server:/path`; the parallel file systems in the list may have other names.
        away = kind not in LOCAL_TYPES and (
            ":" in device or kind in ("lustre", "gpfs", "beegfs", "wekafs", "ceph", "panfs")
        )
        if SYSTEM_PATHS.match(path) or not (away or kind in LOCAL_TYPES):
            continue
        by_path[path] = {
            "path": path,
            "type": kind,
            "device": device,
            "shared": away,
            "writable": os.access(path, os.W_OK),
        }
    # Often /tmp is not a mount but a part of the root file system.
    if TEMPORARY not in by_path and os.access(TEMPORARY, os.W_OK):
        root = by_path.get("/", {"type": "", "device": "", "shared": False})
        by_path[TEMPORARY] = dict(root, path=TEMPORARY, writable=True)
    for path, entry in by_path.items():
        try:
            size = os.statvfs(path)
            entry["free"] = size.f_bavail * size.f_frsize
            entry["rotational"] = rotational(os.stat(path).st_dev)
        except OSError:
            entry["free"], entry["rotational"] = 0, None
    by_path.pop("/", None)
    return [by_path[path] for path in sorted(by_path) if by_path[path]["writable"] or by_path[path]["shared"]]


def mount(line: str) -> List[str]:
    """Device, path and type in a line of /proc/mounts; a blank in a path is written as `\\040` (proc(5))."""
    return [word.replace("\\040", " ") for word in line.split(" ")[:3]]


def rotational(device: int) -> Optional[bool]:
    """Whether a block device (st_dev) is rotational; None if the kernel does not report it."""
    folder = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(device), os.minor(device)))
    # A partition has no queue directory; its parent, the disk, has.
    for place in (folder, os.path.dirname(folder)):
        text = read(os.path.join(place, "queue/rotational"))
        if text in ("0", "1"):
            return text == "1"
    return None


def launchers() -> Dict[str, str]:
    """Launcher program -> first line of its version, for those on PATH."""
    versions = {}
    for program in LAUNCHERS:
        if shutil.which(program):
            versions[program] = version_of(program)
    return versions


def version_of(program: str) -> str:
    """The first line of `PROGRAM --version`; empty if it prints none."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[0][:200] if lines and done.returncode == 0 else ""


if __name__ == "__main__":
    main()
