#!/bin/bash
# What each process of job elastic runs: who am I, my cores, my variables, the command.
# The launcher (srun) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC1091,SC2016,SC2054,SC2089,SC2090 # lib/ is checked by itself; literal dollars, commas and quotes are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" 1 2 # role, rank, local rank, ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts

export DLRUN_THREADS=1 # of a process that is not bound
case $1 in
agent) dlrun_count_threads 4 ;; # it starts the ranks itself
esac
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]

# --- torch: what each process is told, and the command

export GLOO_SOCKET_IFNAME=eno1 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_run python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --max-restarts=2 --rdzv-backend=c10d --rdzv-endpoint="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" --rdzv-id="$DLRUN_RUN_ID" --rdzv-conf=is_host="$(( DLRUN_NODE_RANK == 0 ))" train.py
