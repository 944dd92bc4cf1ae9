"""The GPUs of the node, through the first reader that works here; an error of a driver's library only loses its values."""

import os
from typing import Any, Dict, List, Optional, Set

from . import procfs

COLUMNS = ("busy", "memory_busy", "memory", "power", "clock", "temperature", "slowed", "ecc")
"""Percent of the time with a GPU kernel running; percent of the time with memory traffic; bytes in use; W; MHz; °C; reasons
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
            from .smi import open_smi

            return self._try(open_smi, "NVML and nvidia-smi")

    def _amd(self) -> Optional[Any]:
        try:
            from .amd import Amd

            return Amd()
        except OSError:  # a container without /sys/class/drm
            from .rocm import open_rocm

            return self._try(open_rocm, "amdgpu's files and rocm-smi")

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
