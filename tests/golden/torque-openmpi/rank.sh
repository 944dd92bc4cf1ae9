#!/bin/bash
# What each process of job after others runs: who am I, my cores, my variables, the command.
# The launcher (openmpi) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC1091,SC2016,SC2054,SC2089,SC2090 # lib/ is checked by itself; literal dollars, commas and quotes are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$OMPI_COMM_WORLD_RANK" "$OMPI_COMM_WORLD_LOCAL_RANK" 4 8 # role, rank, local rank, ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts

dlrun_share_cores # an equal part of the job's cores on this node
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]

# --- mpi: what each process is told, and the command

dlrun_run ./solver
