"""CNTK: an MPI program (CNTK documentation, Multiple GPUs and machines). CNTK 2.7 wants Open MPI 1.10."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "cntk"
TITLE = "CNTK"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
