#!/bin/bash
# judged, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 4 8 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
dlrun_grant 4 1-15,17-31,33-47,49-63,65-79,81-95,97-111,113-127/0,16,32,48,64,80,96,112 15 0 0 15 CUDA_VISIBLE_DEVICES 0,1,2,3 48-63,112-127 32-47,96-111 16-31,80-95 0-15,64-79 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 15 49-63,113-127 --preferred=3; dlrun_show_gpus CUDA_VISIBLE_DEVICES 0 ;;
1) dlrun_bind 15 33-47,97-111 --preferred=2; dlrun_show_gpus CUDA_VISIBLE_DEVICES 1 ;;
2) dlrun_bind 15 17-31,81-95 --preferred=1; dlrun_show_gpus CUDA_VISIBLE_DEVICES 2 ;;
3) dlrun_bind 15 1-15,65-79 --preferred=0; dlrun_show_gpus CUDA_VISIBLE_DEVICES 3 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" bdb606664bd8 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions CUDA_CACHE_PATH=cuda # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=8 # 2 nodes × 4 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
export GLOO_SOCKET_IFNAME=ib0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python train.py "${DLRUN_ROLE_JUDGE_ADDRESS}"
