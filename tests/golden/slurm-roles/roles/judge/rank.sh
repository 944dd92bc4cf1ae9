#!/bin/bash
# policy, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 1 1 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
dlrun_grant 1 1-15,17-31,33-47,49-63,65-79,81-95,97-111,113-127/0,16,32,48,64,80,96,112 60 0 0 60 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 60 1-15,17-31,33-47,49-63,65-79,81-95,97-111,113-127 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`

# --- mpi: the command
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python judge.py --port "${DLRUN_ROLE_JUDGE_PORT}"
