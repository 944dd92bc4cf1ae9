"""The kind of this machine, as far as compiled code depends on it: architecture, processor, GPUs and their driver."""

import contextlib
import glob
import hashlib
import os
from typing import Dict, List, Tuple

_OF_PROCESSOR = ("model name", "flags", "Features", "CPU implementer", "CPU part", "cpu")
"""Lines of /proc/cpuinfo on x86, Arm (implementer, part, features) and POWER."""
_DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/sys/module/xe/version")
_NVIDIA = "/proc/driver/nvidia/gpus/*/information"
_AMD = "/sys/class/kfd/kfd/topology/nodes/*/properties"


def machine() -> Tuple[str, str]:
    """A name for the kind of this machine, and what it is in words; machines of one kind have the same."""
    processor: Dict[str, str] = {}
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in _OF_PROCESSOR:
            processor.setdefault(name.strip(), value.strip())
    gpus = {line.partition(":")[2].strip() for path in glob.glob(_NVIDIA) for line in _lines(path)
            if line.startswith("Model:")}  # fmt: skip
    gpus |= {"gfx" + line.split()[-1] for path in glob.glob(_AMD) for line in _lines(path)
             if line.startswith("gfx_target_version ") and not line.endswith(" 0")}  # fmt: skip
    drivers = [line for path in _DRIVERS for line in _lines(path)[:1]]
    architecture = os.uname().machine
    known = repr((architecture, sorted(processor.items()), sorted(gpus), drivers))
    name = "{}-{}".format(architecture, hashlib.sha256(known.encode("utf-8")).hexdigest()[:12])
    words = [architecture, processor.get("model name") or processor.get("cpu") or "", *sorted(gpus), *drivers]
    return name, ", ".join(word for word in words if word)


def _lines(path: str) -> List[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()
    return []
