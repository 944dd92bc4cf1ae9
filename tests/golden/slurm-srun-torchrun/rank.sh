#!/bin/bash
# elastic, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 1 2 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: on shared nodes the granted cores are known only when the job starts
dlrun_count_threads 4 # of each rank: this process starts so many itself
export OMP_NUM_THREADS="$DLRUN_THREADS" # one per core of the rank [OpenMP 5.2, chapter 21]
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches "${TMPDIR:-/tmp}" 6855f4a0e71b no TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions CUDA_CACHE_PATH=cuda # private directories of this node, where nothing else is set

# --- torch: variables of each process, and the command
export GLOO_SOCKET_IFNAME=eno1 # Gloo uses the site's fabric instead of the interface of the host name [PyTorch documentation, torch.distributed]
dlrun_run python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --max-restarts=2 --rdzv-backend=c10d --rdzv-endpoint="$DLRUN_MASTER_ADDR":"$DLRUN_MASTER_PORT" --rdzv-id="$DLRUN_RUN_ID" --rdzv-conf=is_host="$(( DLRUN_NODE_RANK == 0 ))" train.py
