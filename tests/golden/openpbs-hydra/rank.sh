#!/bin/bash
# What each process of job chunks runs: who am I, my cores, my variables, the command.
# The launcher (hydra) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC1091,SC2016,SC2054,SC2089,SC2090 # lib/ is checked by itself; literal dollars, commas and quotes are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$PMI_RANK" "$MPI_LOCALRANKID" 2 6 # role, rank, local rank, ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)

case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 16 0-15 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 0,1 ;;
1) dlrun_bind 16 16-31 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2,3 ;;
esac

# --- mpi: what each process is told, and the command

dlrun_run ./solver
