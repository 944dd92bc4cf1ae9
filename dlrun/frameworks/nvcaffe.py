"""NVIDIA Caffe built with MPI: an MPI program (NVIDIA/caffe, src/caffe/clusters.cpp); `--gpu` chooses each rank's GPUs."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "nvcaffe"
TITLE = "NVIDIA Caffe"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
