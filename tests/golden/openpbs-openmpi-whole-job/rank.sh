#!/bin/bash
# What each process of job totals runs: who am I, my cores, my variables, the command.
# The launcher (openmpi) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC1091,SC2016,SC2054,SC2089,SC2090 # lib/ is checked by itself; literal dollars, commas and quotes are meant
set -uo pipefail
trap : USR1 # the early warning, which counts once there is a program to tell
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" 4 8 # role, rank, local rank, ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts

dlrun_share_cores 2 # an equal part of the job's cores on this node, or so many where nobody keeps jobs apart
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]

# --- mpi: what each process is told, and the command

if ((DLRUN_RANK == 0)) && [[ -z ${WANDB_RUN_ID-} ]]; then
  export WANDB_RUN_ID=${DLRUN_JOB_DIR##*/}${DLRUN_POINT:+-$DLRUN_POINT} WANDB_RESUME=allow # every run of this job goes on in one W&B run
fi
dlrun_tell TERM USR1 all makes-way # the program, once, when USR1 comes
dlrun_run ./solver
