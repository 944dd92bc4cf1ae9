"""The GPUs of the node, by what can be asked for them here; an error of a driver's library costs only its numbers."""

import os
from typing import Any, Dict, List, Optional, Set

from . import procfs

COLUMNS = ("busy", "memory_busy", "memory", "power", "clock", "temperature", "slowed", "ecc")
"""Percent of the time with a kernel; percent of the time with memory traffic; bytes in use; W; MHz; °C; why the clock is
lower than it could be; uncorrected errors of memory since the driver was loaded."""


class Gpus:
    """What is known of the GPUs: descriptions once, then a row for each at every sample."""

    def __init__(self) -> None:
        self.missing: Set[str] = set()
        self._reader: Optional[Any] = self._open()
        self.described: List[Dict[str, Any]] = self._reader.describe() if self._reader is not None else []

    def _open(self) -> Optional[Any]:
        if any(name.startswith("nvidia") and name[6:].isdigit() for name in procfs.names("/dev")):
            return self._nvidia()
        if os.path.exists("/dev/kfd"):
            from .amd import Amd

            return self._try(Amd, "amdgpu's files")
        if any(procfs.text(p) == "0x8086" for p in _vendors()):
            from .level_zero import LevelZero

            return self._try(LevelZero, "Level Zero")
        return None

    def _nvidia(self) -> Optional[Any]:
        try:
            from .nvml import Nvml

            return Nvml()
        except (ImportError, OSError):
            from .smi import Smi

            return self._try(Smi, "NVML and nvidia-smi")

    def _try(self, reader: Any, name: str) -> Optional[Any]:
        try:
            return reader()
        except (ImportError, OSError, ValueError) as error:
            self.missing.add("gpus: {}: {}".format(name, error))
            return None

    def rows(self) -> List[List[Any]]:
        """The numbers of `COLUMNS` for each GPU; none once its driver fails."""
        if self._reader is None:
            return []
        try:
            return list(self._reader.rows())
        except (OSError, ValueError, IndexError) as error:
            self.missing.add("gpus: {}".format(error))
            self._reader = None
            return []

    def processes(self) -> List[List[int]]:
        """The ids of the processes that compute on each GPU, where that can be known."""
        return list(self._reader.processes()) if self._reader is not None else []


def _vendors() -> List[str]:
    names = [name for name in procfs.names("/sys/class/drm") if name.startswith("renderD")]
    return ["/sys/class/drm/{}/device/vendor".format(name) for name in names]
