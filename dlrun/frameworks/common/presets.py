"""Presets and libraries used by several frameworks."""

from dlrun.model.placement import Preset

NONE = {"": Preset(because="no library needs communication cores")}
TORCH = Preset(because="PyTorch's wheels include libgomp; gloo and NCCL run on the rank's own cores")
TORCH_CCL = Preset(
    openmp="iomp",
    library="ccl",
    comm_cores=1,
    because="oneCCL's workers poll: each rank has one core for them",
)
TENSORFLOW = {"": Preset(thread_pools=True, shares_cores=True, because="TensorFlow has its own thread pools")}

TORCH_LIBRARIES = ("torch", "gloo")
MPI_LIBRARIES = ("mpi-program",)
