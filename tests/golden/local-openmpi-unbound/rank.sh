#!/bin/bash
# unbound, each process (launcher openmpi starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" "${OMPI_COMM_WORLD_LOCAL_SIZE-}" "" 2 2 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: not bound, from the spec
export DLRUN_THREADS=2 # threads of this process
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_run ./solver
