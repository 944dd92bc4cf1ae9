#!/bin/bash
# checkpointed, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
trap : USR2 # the early warning; no effect until the program runs
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 1 2 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: the topology of the nodes is unknown, so ranks get equal shares of the granted cores
dlrun_share_cores # an equal part of the job's cores on this node
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" bdb606664bd8 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
dlrun_continue_wandb # rank 0 sets WANDB_RUN_ID, unless it is set: all runs of this job continue one W&B run
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=2 # 2 nodes × 1 rank [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_warn_program USR1 USR2 'rank 0' ignore # when USR2 comes, the program gets USR1, once
dlrun_run python train.py --resume
