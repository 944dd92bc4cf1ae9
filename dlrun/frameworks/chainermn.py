"""ChainerMN: an MPI program; its communicator `naive` needs no GPU (Chainer documentation, Distributed training)."""

from __future__ import annotations

from dlrun.frameworks.mpi import LAUNCHERS, Options, comm_cores, ports, problems, roles

NAME = "chainermn"
TITLE = "ChainerMN"

__all__ = ["LAUNCHERS", "NAME", "TITLE", "Options", "comm_cores", "ports", "problems", "roles"]
