"""MPI programs: rendezvous by MPI_Init; no variables are set."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.placement import Preset
from dlrun.model.text import Text

NAME = "mpi"
TITLE = "MPI program"
Options = defaults.NoOptions
LAUNCHERS = (protocol.ANY_MPI,)
LIBRARIES = presets.MPI_LIBRARIES
PRESETS = {"": Preset(because="any MPI program")}
ports = defaults.no_ports
comm_cores = defaults.no_comm_cores
problems = defaults.no_problems


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank."""
    return (Role(name="rank", place="rank", argv=tuple(command)),)


class Library:
    """A framework whose programs are started like any MPI program; only name and title differ."""

    LAUNCHERS, LIBRARIES, PRESETS = LAUNCHERS, LIBRARIES, presets.NONE
    Options = Options
    ports, comm_cores = staticmethod(ports), staticmethod(comm_cores)
    problems, roles = staticmethod(problems), staticmethod(roles)

    def __init__(self, name: str, title: str) -> None:
        self.NAME, self.TITLE = name, title


# Caffe-MPI README, "Try your first MPI Caffe": its first process keeps the parameters.
caffe_mpi = Library("caffe_mpi", "Caffe-MPI")
# Chainer documentation, Distributed training: the communicator `naive` needs no GPU.
chainermn = Library("chainermn", "ChainerMN")
# CNTK documentation, Multiple GPUs and machines; CNTK 2.7 needs Open MPI 1.10.
cntk = Library("cntk", "CNTK")
# NVIDIA/caffe, src/caffe/clusters.cpp; `--gpu` chooses each rank's GPUs.
nvcaffe = Library("nvcaffe", "NVIDIA Caffe")
# Theano-MPI, theanompi/run_bsp.sh: its worker takes its device as an argument, `cuda{{ local_rank }}`.
theano_mpi = Library("theano_mpi", "Theano-MPI")
# TorchMPI for Lua Torch: facebookresearch/TorchMPI, docs/launchscripts.md.
torch_mpi = Library("torch_mpi", "TorchMPI")
