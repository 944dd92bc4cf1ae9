"""Inspur Caffe-MPI: an MPI program whose first process keeps the parameters (Caffe-MPI README, "Try your first MPI Caffe")."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "caffe_mpi"
TITLE = "Caffe-MPI"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
