"""TorchMPI for Lua Torch: an MPI program (facebookresearch/TorchMPI, docs/launchscripts.md)."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "torch_mpi"
TITLE = "TorchMPI"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
