"""NVIDIA GPUs through the driver's library NVML with `ctypes` (names and structures: NVML API reference)."""

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
            # NVML_ERROR_FUNCTION_NOT_FOUND.
            return 13
        return int(function(*arguments))

    def _number(self, name: str, device: ctypes.c_void_p, *arguments: Any) -> Optional[int]:
        # Wide enough for each of them.
        value = ctypes.c_ulonglong(0)
        return None if self._ask(name, device, *arguments, ctypes.byref(value)) else value.value

    def _text(self, name: str, device: ctypes.c_void_p) -> str:
        held = ctypes.create_string_buffer(96)
        failed = self._ask(name, device, held, ctypes.c_uint(96))
        return "" if failed else held.value.decode("ascii", "replace")

    def describe(self) -> List[Dict[str, Any]]:
        """Name, UUID, memory in bytes, maximum clock in MHz, and MIG mode of each GPU."""
        descriptions = []
        for device in self._devices:
            memory = _Memory()
            self._ask("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
            current, pending = ctypes.c_uint(0), ctypes.c_uint(0)
            self._ask("nvmlDeviceGetMigMode", device, ctypes.byref(current), ctypes.byref(pending))
            descriptions.append(
                {
                    "name": self._text("nvmlDeviceGetName", device),
                    "uuid": self._text("nvmlDeviceGetUUID", device),
                    "memory": memory.total,
                    "clock": self._number("nvmlDeviceGetMaxClockInfo", device, ctypes.c_int(_SM)),
                    "mig": bool(current.value),
                }
            )
        return descriptions

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
        pids = []
        for device in self._devices:
            count = ctypes.c_uint(64)
            held = (_Process * 64)()
            failed = self._ask(
                "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), ctypes.byref(held)
            )
            pids.append([] if failed else [process.pid for process in held[: count.value]])
        return pids
