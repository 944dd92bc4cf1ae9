"""AMD GPUs, from sysfs (`gpu_busy_percent` and others: kernel documentation, GPU, amdgpu, thermal)."""

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
        # Newer kernels.
        power = procfs.number(hwmon + "power1_input")
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
