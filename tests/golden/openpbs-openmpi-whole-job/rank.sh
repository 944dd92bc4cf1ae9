#!/bin/bash
# totals, each process: who it is, its cores, its variables, the command.
# The launcher (openmpi) starts it once for each process, unbound: rank.sh ROLE

set -uo pipefail
trap : USR1 # the early warning; no effect until the program runs
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" 4 8 # role, rank, local rank, ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts

dlrun_share_cores 2 # an equal part of the job's cores on this node, or this number if the scheduler grants none
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]
dlrun_measure # beside the program: what the ranks of this node use, for `dlrun usage`

# --- mpi: the command

if ((DLRUN_RANK == 0)) && [[ -z ${WANDB_RUN_ID-} ]]; then
  export WANDB_RUN_ID=${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+-$DLRUN_POINT} WANDB_RESUME=allow # all runs of this job continue one W&B run
fi
dlrun_tell TERM USR1 all makes-way # when USR1 comes, the program gets TERM, once
dlrun_run ./solver
