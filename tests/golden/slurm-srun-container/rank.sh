#!/bin/bash
# contained, each process (launcher srun starts it, unbound, as rank.sh ROLE): who it is, its cores, variables and command.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/rank.sh"
dlrun_identify "$1" "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURM_STEP_TASKS_PER_NODE-}" "${SLURM_NODEID-}" 2 4 # role, rank, local rank, ranks on this node, node, planned ranks on a node, ranks

# --- Cores: whole nodes of known topology (gpu)
dlrun_grant 2 0-15 8 0 0 8 # the whole node: if not all of it was granted, its ranks divide what was
case $DLRUN_LOCAL_RANK in # threads, hardware threads, numactl's option for memory
0) dlrun_bind 8 0-7 ;;
1) dlrun_bind 8 8-15 ;;
esac
dlrun_measure # beside the program: records what the ranks of this node use, for `dlrun usage`
dlrun_caches /local/"${USER}" 3015a97986c3 yes TORCHINDUCTOR_CACHE_DIR=inductor TRITON_CACHE_DIR=triton TORCH_EXTENSIONS_DIR=torch_extensions:.cache/torch_extensions CUDA_CACHE_PATH=cuda # private directories of this node, where nothing else is set

# --- Secrets: read now, by this process alone; never written, never printed
HF_TOKEN=${HF_TOKEN-}; [[ -n $HF_TOKEN ]] || dlrun_missing_secret HF_TOKEN 'the variable HF_TOKEN is not set in the job'
export HF_TOKEN # a secret: from here the program alone has it

# --- torch: variables of each process, and the command
export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=4 # 2 nodes × 2 ranks [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_show_inside OMP_NUM_THREADS PYTHONUNBUFFERED DLRUN_DATA_SET NCCL_DEBUG MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK HF_TOKEN # the image may have set some of them itself
dlrun_in_container --nv --bind "$DLRUN_JOB_DIR" --bind /home/ada/project --bind /scratch/set --bind /local/"${USER}" --bind /opt/site --pwd /home/ada/project --cleanenv '/images/torch 2.6.sif' # the command runs in this image
dlrun_run python train.py /scratch/set "$DLRUN_DATA_IMAGES"
