#!/bin/bash
# What each process of job crowded runs: who am I, my cores, my variables, the command.
# The launcher (srun) starts it unbound, once for each process: rank.sh ROLE

# shellcheck disable=SC1091,SC2016,SC2054,SC2089,SC2090 # lib/ is checked by itself; literal dollars, commas and quotes are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"

dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" 12 12 # role, rank, local rank, ranks on a node, ranks

# --- Cores: there are not enough cores for every rank: 12 ranks need 12 cores; the node has 8 usable (8 of 8 cores)

export DLRUN_THREADS=1 # cores of this process

# --- torch: what each process is told, and the command

export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=12 # 1 node × 12 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_run python train.py
