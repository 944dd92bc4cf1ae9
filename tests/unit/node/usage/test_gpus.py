"""GPUs through stand-ins of the drivers' libraries, compiled here, and through captured text and files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from dlrun.node.usage import gpus, smi
from dlrun.node.usage.amd import Amd
from dlrun.node.usage.level_zero import LevelZero
from dlrun.node.usage.nvml import Nvml

from tests.programs import need

NVML = r"""
#include <stdint.h>
#include <string.h>
typedef struct { unsigned gpu, memory; } use_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(uintptr_t)(i + 1); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { strncpy(s, "NVIDIA H100", n); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { strncpy(s, "GPU-1a2b", n); return 0; }
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later) { *now = *later = d == (void *)2; return 0; }
int nvmlDeviceGetMaxClockInfo(void *d, int what, unsigned *mhz) { *mhz = what == 1 ? 1980 : 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, use_t *u) { u->gpu = 57; u->memory = 31; return d == (void *)2 ? 3 : 0; }
int nvmlDeviceGetMemoryInfo(void *d, memory_t *m) { m->total = 80ull << 30; m->used = 12ull << 30;
  m->free = 68ull << 30; return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 412345; return 0; }
int nvmlDeviceGetClockInfo(void *d, int what, unsigned *mhz) { *mhz = what == 1 ? 1335 : 0; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *why) { *why = 0x24; return 0; }
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *c) { *c = 83; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process_t *p) { *n = 1; p[0].pid = 4711; return 0; }
"""
"""Without nvmlDeviceGetTotalEccErrors: a function that a driver does not have costs its number alone."""

LEVEL_ZERO = r"""
#include <stdint.h>
#include <stddef.h>
typedef struct { int kind; void *next; int type; uint8_t on_part; uint32_t part; } engine_t;
typedef struct { uint64_t active, time; } activity_t;
typedef struct { int kind; void *next; int health; uint64_t free, size; } memory_t;
static int all(uint32_t *n, void **handles, uint32_t have) {
  if (handles) for (uint32_t i = 0; i < *n; i++) handles[i] = (void *)(uintptr_t)(i + 1);
  *n = have;
  return 0;
}
int zesInit(uint32_t flags) { return 0; }
int zesDriverGet(uint32_t *n, void **d) { return all(n, d, 1); }
int zesDeviceGet(void *of, uint32_t *n, void **d) { return all(n, d, 1); }
int zesDeviceEnumEngineGroups(void *of, uint32_t *n, void **d) { return all(n, d, 2); }
int zesEngineGetProperties(void *e, engine_t *p) { p->type = e == (void *)2 ? 0 : 4; return p->kind != 5; }
int zesEngineGetActivity(void *e, activity_t *a) {
  static uint64_t calls;
  calls++;
  a->time = calls * 1000000;
  a->active = calls * 250000;
  return e != (void *)2;
}
int zesDeviceEnumMemoryModules(void *of, uint32_t *n, void **d) { return all(n, d, 2); }
int zesMemoryGetState(void *m, memory_t *s) { s->size = 32ull << 30; s->free = 30ull << 30; return s->kind != 0x1e; }
"""


def library(place: Path, text: str, *options: str) -> str:
    """A shared library of this C source."""
    compiler = need("cc")
    (place / "library.c").write_text(text)
    made = place / "library.so"
    subprocess.run([compiler, "-shared", "-fPIC", *options, "-o", made, place / "library.c"], check=True)
    return str(made)


def test_nvml(tmp_path):
    nvidia = Nvml(library(tmp_path, NVML, "-DINIT=0"))
    first, second = nvidia.describe()
    assert first == {
        "name": "NVIDIA H100",
        "uuid": "GPU-1a2b",
        "memory": 80 << 30,
        "clock": 1980,
        "mig": False,
    }
    assert second["mig"]
    row, divided = (dict(zip(gpus.COLUMNS, one, strict=True)) for one in nvidia.rows())
    assert row == {
        "busy": 57, "memory_busy": 31, "memory": 12 << 30, "power": 412, "clock": 1335, "temperature": 83,
        "slowed": ["power limit", "temperature"], "ecc": None,
    }  # fmt: skip
    assert divided["busy"] is None  # what a divided GPU does not count
    assert divided["memory"] == 12 << 30
    assert nvidia.processes() == [[4711], [4711]]


def test_a_driver_that_does_not_answer(tmp_path):
    made = library(tmp_path, NVML, "-DINIT=9")
    with pytest.raises(OSError, match="nvmlInit_v2"):
        Nvml(made)
    with pytest.raises(OSError):
        Nvml(str(tmp_path / "none.so"))


def test_level_zero(tmp_path):
    intel = LevelZero(library(tmp_path, LEVEL_ZERO))
    assert [one["memory"] for one in intel.describe()] == [64 << 30]
    assert intel.rows()[0][0] is None  # nothing to compare with yet
    assert dict(zip(gpus.COLUMNS, intel.rows()[0], strict=True))["busy"] == 25
    assert intel.rows()[0][2] == 4 << 30


def test_the_table_of_nvidia_smi():
    rows = smi.parse(
        "NVIDIA A100-SXM4-40GB, GPU-5c0f, 40960, 1410, 98, 63, 31245, 389.11, 1155, 71, 0x0000000000000004, 0\n"
        "NVIDIA A100-SXM4-40GB, GPU-77d1, 40960, 1410, [N/A], [N/A], 3, 51.30, 210, 33, 0x0000000000000001, [N/A]\n"
    )
    busy, divided = (dict(zip(gpus.COLUMNS, smi.row(row), strict=True)) for row in rows)
    assert (busy["busy"], busy["memory"], busy["slowed"], busy["ecc"]) == (
        98,
        31245 << 20,
        ["power limit"],
        0,
    )
    assert (divided["busy"], divided["slowed"], divided["ecc"]) == (None, [], None)


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "NVIDIA-SMI has failed because it couldn't communicate\n"]
)
def test_what_is_not_that_table_is_refused(text):
    with pytest.raises(OSError, match="no table"):
        smi.parse(text)


def test_files_of_amdgpu(tmp_path):
    place = tmp_path / "card1" / "device"
    (place / "hwmon" / "hwmon4").mkdir(parents=True)
    (tmp_path / "card0" / "device").mkdir(parents=True)  # of a graphics card without these files
    files = {
        "gpu_busy_percent": "87", "mem_busy_percent": "12", "mem_info_vram_used": "1073741824",
        "mem_info_vram_total": "68702699520", "hwmon/hwmon4/power1_average": "301000000",
        "hwmon/hwmon4/freq1_input": "1700000000", "hwmon/hwmon4/temp1_input": "64000",
    }  # fmt: skip
    for name, text in files.items():
        (place / name).write_text(text + "\n")
    amd = Amd(str(tmp_path))
    assert amd.describe()[0]["memory"] == 68702699520
    assert amd.rows() == [[87, 12, 1 << 30, 301, 1700, 64, None, None]]
    with pytest.raises(OSError, match="no GPU"):
        Amd(str(tmp_path / "card0"))
