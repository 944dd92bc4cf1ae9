"""Presets and libraries that several frameworks have in common."""

from __future__ import annotations

from dlrun.model.placement import Preset

NONE = {"": Preset(because="no library needs cores of its own")}
TORCH = Preset(because="PyTorch's wheels include libgomp; gloo and NCCL run on the rank's own cores")
TORCH_CCL = Preset(
    openmp="iomp", library="ccl", comm_cores=1, because="oneCCL's workers poll: one core of their own a rank"
)
TENSORFLOW = {
    "": Preset(thread_pools=True, shares_cores=True, because="TensorFlow has thread pools of its own")
}

TORCH_LIBRARIES = ("torch", "gloo")
MPI_LIBRARIES = ("mpi-program",)
