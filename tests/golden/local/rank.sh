#!/bin/bash
# here, each process (launcher local starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$DLRUN_RANK" "$DLRUN_LOCAL_RANK" "${DLRUN_LOCAL_SIZE-}" "${DLRUN_NODE_RANK-}" 2 2 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (this)
dlrun_grant 2 0-7 4 0 0 4 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 4 0-3 --preferred=0 ;;
1) dlrun_bind 4 4-7 --preferred=1 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" bdb606664bd8 no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=2 # 1 node × 2 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_run python examples/digits/train.py
