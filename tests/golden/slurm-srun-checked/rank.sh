#!/bin/bash
# checked, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
trap : USR2 # the early warning; no effect until the program runs
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 4 16 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
dlrun_grant 4 0-47 12 0 0 12 CUDA_VISIBLE_DEVICES 0,1,2,3 0-23 0-23 24-47 24-47 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 12 0-11 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 0 ;;
1) dlrun_bind 12 12-23 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 1 ;;
2) dlrun_bind 12 24-35 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2 ;;
3) dlrun_bind 12 36-47 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 3 ;;
esac
dlrun_check_placement fail yes 4 1 4 12 # on a difference; is it bound; GPUs per node and per rank; ranks per node; threads
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_mark_idle 600 # reports the rank as idle after so many seconds without output or CPU time
dlrun_caches "${TMPDIR:-/tmp}" bdb606664bd8 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions CUDA_CACHE_PATH=cuda # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
dlrun_continue_wandb # rank 0 sets WANDB_RUN_ID, unless it is set: all runs of this job continue one W&B run
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=16 # 4 nodes × 4 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
export GLOO_SOCKET_IFNAME=ib0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_warn_program USR1 USR2 all ignore # when USR2 comes, the program gets USR1, once
dlrun_run python train.py
