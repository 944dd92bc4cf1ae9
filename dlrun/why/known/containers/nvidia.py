"""What NVIDIA's container tools write, whichever runtime starts them. A line that Apptainer or pyxis marks as its own is compared
with its writer's forms alone, so each writer has these."""

from __future__ import annotations

from dlrun.why.known.form import Form

DRIVER_MISMATCH = Form(
    cause="driver-mismatch",
    texts=("nvml error: driver/library version mismatch",),
    source="https://github.com/NVIDIA/libnvidia-container/blob/main/src/nvc.c",
)
