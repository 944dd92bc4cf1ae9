"""Intel GPUs through Level Zero Sysman with `ctypes` (names and structures: zes_api.h of the specification)."""

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
        return [] if function(*of, ctypes.byref(count), held) else [ctypes.c_void_p(raw) for raw in held]

    def _engine(self, device: ctypes.c_void_p) -> Optional[ctypes.c_void_p]:
        """The engine group of all engines (ZES_ENGINE_GROUP_ALL), if the device has one."""
        for engine in self._all("zesDeviceEnumEngineGroups", device):
            facts = _EngineProperties(kind=_ENGINE_PROPERTIES)
            if not self._call.zesEngineGetProperties(engine, ctypes.byref(facts)) and facts.type == _ALL:
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
            {"name": "Intel GPU", "uuid": "", "memory": self._memory(device)[0], "clock": None, "mig": False}
            for device in self._devices
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
