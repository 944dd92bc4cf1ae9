dlrun_launch dlrun_local 1 bash -p "$DLRUN_JOB_DIR/rank.sh" rank

export MASTER_ADDR="$DLRUN_MASTER_ADDR" # rank 0's node, by the site's address rule [PyTorch documentation, torch.distributed]
export MASTER_PORT="$DLRUN_MASTER_PORT" # derived from the job id; free on rank 0's node [PyTorch documentation, torch.distributed]
export WORLD_SIZE=1 # 1 node × 1 rank [PyTorch documentation, torch.distributed]
export RANK="$DLRUN_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_RANK="$DLRUN_LOCAL_RANK" # from the launcher [PyTorch documentation, torch.distributed]
export LOCAL_WORLD_SIZE="$DLRUN_LOCAL_SIZE" # ranks on this node [PyTorch documentation, torch.distributed]
export GROUP_RANK="$DLRUN_NODE_RANK" # node index; torchrun's name for it [PyTorch documentation, torch.distributed]
export DS_ACCELERATOR=cpu # there are no GPUs [DeepSpeed, accelerator/real_accelerator.py]
dlrun_fit_cores OMP_NUM_THREADS # to what was granted, if that is not the plan's
dlrun_run python examples/deepspeed/train.py --steps 60
