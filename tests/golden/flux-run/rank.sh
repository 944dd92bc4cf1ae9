#!/bin/bash
# resnet50, each process (launcher flux starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$FLUX_TASK_RANK" "$FLUX_TASK_LOCAL_ID" "" "" 4 16 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (apu)
dlrun_grant 4 0-191 24 0 0 24 ROCR_VISIBLE_DEVICES 0,1,2,3 0-23,96-119 24-47,120-143 48-71,144-167 72-95,168-191 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 24 0-23,96-119 --preferred=0; dlrun_show_gpus ROCR_VISIBLE_DEVICES 0 ;;
1) dlrun_bind 24 24-47,120-143 --preferred=1; dlrun_show_gpus ROCR_VISIBLE_DEVICES 1 ;;
2) dlrun_bind 24 48-71,144-167 --preferred=2; dlrun_show_gpus ROCR_VISIBLE_DEVICES 2 ;;
3) dlrun_bind 24 72-95,168-191 --preferred=3; dlrun_show_gpus ROCR_VISIBLE_DEVICES 3 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" ba90e36b54b9 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions MIOPEN_USER_DB_PATH=miopen MIOPEN_CUSTOM_CACHE_DIR=miopen AMD_COMGR_CACHE_DIR=comgr # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=16 # 4 nodes × 4 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
export GLOO_SOCKET_IFNAME=hsi0 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python train.py
