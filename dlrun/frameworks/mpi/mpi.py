"""MPI programs: rendezvous by MPI_Init; no variables are set."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.placement import Preset
from dlrun.model.text import Text

NAME = "mpi"
TITLE = "MPI program"
LAUNCHERS = (protocol.ANY_MPI,)
LIBRARIES = presets.MPI_LIBRARIES
PRESETS = {"": Preset(because="any MPI program")}


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """One process per rank."""
    return (Role(name="rank", place="rank", argv=tuple(command)),)


def _library(name: str, title: str) -> SimpleNamespace:
    """A framework whose programs are started like any MPI program; only name and title differ."""
    return SimpleNamespace(NAME=name, TITLE=title, LAUNCHERS=LAUNCHERS, LIBRARIES=LIBRARIES, roles=roles)


# Caffe-MPI README, "Try your first MPI Caffe": its first process keeps the parameters.
caffe_mpi = _library("caffe_mpi", "Caffe-MPI")
# Chainer documentation, Distributed training: the communicator `naive` needs no GPU.
chainermn = _library("chainermn", "ChainerMN")
# CNTK documentation, Multiple GPUs and machines; CNTK 2.7 needs Open MPI 1.10.
cntk = _library("cntk", "CNTK")
# NVIDIA/caffe, src/caffe/clusters.cpp; `--gpu` chooses each rank's GPUs.
nvcaffe = _library("nvcaffe", "NVIDIA Caffe")
# Theano-MPI, theanompi/run_bsp.sh: its worker takes its device as an argument, `cuda{{ local_rank }}`.
theano_mpi = _library("theano_mpi", "Theano-MPI")
# TorchMPI for Lua Torch: facebookresearch/TorchMPI, docs/launchscripts.md.
torch_mpi = _library("torch_mpi", "TorchMPI")
