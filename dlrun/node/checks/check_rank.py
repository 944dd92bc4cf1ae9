"""Run in place of the training: report this rank's identity, binding and environment, and test its network.

    python3 node.pyz check-rank [--over INTERFACE,...] [WAY...]

Prints one line: `dlrun-check` and JSON. WAYs are communication libraries (`torch`, `mpi4py`), of which the first
installed one is tested (library_check.py) in a child process, since a library may abort its process.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from . import check_network, library_check
from .placement_probe import memory_policy, numbers

LIBRARY_TIMEOUT = 300.0
"""Time limit of the library's test in seconds: imports from a cold file system alone take minutes."""
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
PREFIXES = ("NCCL_", "RCCL_", "GLOO_", "UCX_", "FI_", "CCL_", "I_MPI_", "MPICH_", "OMPI_MCA_", "PSM2_", "PSM3_", "OMP_",
          "KMP_", "MKL_", "HSA_")  # fmt: skip
"""Prefixes of the variables that control threads and communication."""


def memory() -> Optional[str]:
    """This process's memory policy and NUMA nodes, such as `strict:0,1`; None if the kernel does not report it."""
    policy = memory_policy()
    if policy.name == "unknown":
        return None
    return policy.name + ":" * bool(policy.nodes) + ",".join(map(str, policy.nodes))


def inherited_cpus() -> Optional[List[int]]:
    """The CPUs of the rank's script before it bound itself (its launcher's binding); None if not recorded."""
    recorded = os.environ.get("DLRUN_ALLOWED")
    return sorted(map(int, recorded.split())) if recorded else None


def granted_cpus() -> Optional[List[int]]:
    """The CPUs of this process's cpuset control group, version 1 or 2; None without one."""
    try:
        with open("/proc/self/cgroup") as groups:
            for line in groups:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if not controllers:
                    place = "/sys/fs/cgroup" + path + "/cpuset.cpus.effective"
                elif "cpuset" in controllers.split(","):
                    place = "/sys/fs/cgroup/cpuset" + path + "/cpuset.cpus"
                else:
                    continue
                if os.path.exists(place):
                    with open(place) as stream:
                        return numbers(stream.read()) or None
    except (OSError, ValueError):
        pass
    return None


def core_siblings() -> List[List[int]]:
    """The CPU numbers of each core with several hardware threads."""
    base, siblings = "/sys/devices/system/cpu", set()
    for name in os.listdir(base) if os.path.isdir(base) else []:
        try:
            with open(os.path.join(base, name, "topology", "thread_siblings_list")) as stream:
                siblings.add(tuple(numbers(stream.read())))
        except (OSError, ValueError):
            continue
    return sorted(list(core) for core in siblings if len(core) > 1)


def adapters(root: str = "/sys/class") -> Dict[str, str]:
    """The node's network adapters and interfaces with their state, such as `mlx5_0: active`, `eth0: up`."""
    states = {}  # type: Dict[str, str]
    for kind, state in (("infiniband", "ports/1/state"), ("net", "operstate")):
        base = os.path.join(root, kind)
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            try:
                with open(os.path.join(base, name, state)) as stream:
                    # The state of an InfiniBand port is `4: ACTIVE`.
                    states[name] = stream.read().strip().rpartition(" ")[2].lower()
            except OSError:
                continue
    return states


def kernel_list(name: str) -> List[int]:
    """A list below /sys/devices/system, such as `cpu/online`; empty if it cannot be read."""
    try:
        with open("/sys/devices/system/" + name) as stream:
            return numbers(stream.read())
    except (OSError, ValueError):
        return []


def gpu_devices(root: str = "/dev") -> Optional[List[int]]:
    """[GPUs that this process may open, GPUs of the node], by device files; None without NVIDIA GPUs."""
    names = [name for name in os.listdir(root) if name.startswith("nvidia") and name[6:].isdigit()]
    may = sum(
        os.access(os.path.join(root, name), os.R_OK | os.W_OK) and can_open(os.path.join(root, name))
        for name in names
    )
    return [may, len(names)] if names else None


def can_open(path: str) -> bool:
    """Whether a device can be opened: a control group may refuse access that the file mode allows."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def describe_rank() -> Dict[str, Any]:
    """Identity, binding, limits and environment of this rank, as in the `dlrun-check` line."""
    environment = os.environ
    return {
        "rank": check_network.number("RANK"),
        "local_rank": check_network.number("LOCAL_RANK"),
        "host": environment["DLRUN_HOST"],
        "mask": sorted(os.sched_getaffinity(0)),
        "threads": environment.get("OMP_NUM_THREADS"),
        "memory": memory(),
        "numa": kernel_list("node/online"),
        "numactl": shutil.which("numactl") is not None,
        "gpu_devices": gpu_devices(),
        "given_gpus": environment.get("DLRUN_GPUS"),
        "gpus": {name: environment[name] for name in VISIBLE if name in environment},
        "cards": environment.get("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE",
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "locked_memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "online": kernel_list("cpu/online"),
        "scheduler_cpus": int(environment.get("SLURM_CPUS_ON_NODE", "0")),
        "granted": granted_cpus(),
        "inherited": inherited_cpus(),
        "cores": core_siblings(),
        "adapters": adapters(),
        "addresses": check_network.addresses(),
        "variables": {name: environment[name] for name in sorted(environment) if name.startswith(PREFIXES)},
    }


def test_library(libraries: List[str]) -> None:
    """Test the communication library in a child process, which prints the result."""
    sys.stdout.flush()
    # A fork without exec keeps all descriptors open: one of them may be the connection to the process manager (PMI).
    child = os.fork()
    if not child:
        # The library's lines belong in the rank's log, where dlrun reads them.
        os.environ.pop("NCCL_DEBUG_FILE", None)
        code = 1
        try:
            code = library_check.main(libraries)
        finally:
            sys.stdout.flush()
            # Not sys.exit: exit handlers of the parent, such as those of an MPI, must not run here.
            os._exit(code)
    failed = _failed(child, time.time() + LIBRARY_TIMEOUT)
    if failed is not None:
        report = {"rank": check_network.number("RANK"), "failed": failed}
        sys.stdout.write("dlrun-library " + json.dumps(report) + "\n")


def _failed(child: int, deadline: float) -> Optional[str]:
    """Wait for a process until a deadline (then kill it): how it failed, or None if it succeeded."""
    pause = 0.01
    while time.time() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return "it was ended by signal {}".format(os.WTERMSIG(status))
            code = os.WEXITSTATUS(status)
            return "it ended with exit code {}".format(code) if code else None
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it had not ended after {:.0f} s".format(LIBRARY_TIMEOUT)


def main(words: List[str]) -> int:
    """Print the report. Exit status 0 also after failed checks: those are in the report."""
    interfaces, libraries = [], words  # type: List[str], List[str]
    if words[:1] == ["--over"]:
        interfaces, libraries = words[1].split(","), words[2:]
    report = describe_rank()
    report.update(check_network.exchange(report["rank"], check_network.number("WORLD_SIZE"), interfaces))
    sys.stdout.write("dlrun-check " + json.dumps(report) + "\n")
    if libraries:
        test_library(libraries)
    return 0
