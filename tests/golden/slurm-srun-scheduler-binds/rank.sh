#!/bin/bash
# bound-by-slurm, each process (launcher srun starts it, bound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 4 8 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: bound by the scheduler, from the spec
export DLRUN_THREADS=5 # threads of this process
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_run ./solver --ranks=8
