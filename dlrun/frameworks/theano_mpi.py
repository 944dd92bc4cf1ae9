"""Theano-MPI: an MPI program whose worker is told its device, `cuda{{ local_rank }}` (Theano-MPI, theanompi/run_bsp.sh)."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "theano_mpi"
TITLE = "Theano-MPI"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
