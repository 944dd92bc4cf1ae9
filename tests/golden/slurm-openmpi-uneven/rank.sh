#!/bin/bash
# uneven, each process (launcher openmpi starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" "${OMPI_COMM_WORLD_LOCAL_SIZE-}" "" 4 10 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts
dlrun_share_cores 2 # an equal part of the job's cores on this node, or this number if the scheduler grants none
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_run ./solver
